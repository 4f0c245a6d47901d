//! The rules of the reconcile as tables of cases and as properties. `world` tells small worlds,
//! `simulation` applies plans to them in memory.

mod arbitrary;
mod claims;
mod convergence;
mod departures;
mod instances;
mod policies;
mod removals;
mod services;
mod shapes;
mod simulation;
mod world;
