//! The rules of the reconcile as tables of cases. `world` tells small worlds in few words.

mod claims;
mod departures;
mod instances;
mod policies;
mod removals;
mod services;
mod shapes;
mod world;
