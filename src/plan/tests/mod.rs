//! The rules of the reconcile as tables of cases and as properties. `world` tells small worlds in few
//! words, `simulation` applies plans to random ones in memory by `calls`, and at each of them `promises`
//! are checked.

mod adoption;
mod allowed;
mod arbitrary;
mod calls;
mod claims;
mod convergence;
mod deletions;
mod departures;
mod doubt;
mod full_namespaces;
mod guard;
mod health;
mod instances;
mod kubernetes;
mod limits;
mod moves;
mod name_policy;
mod new_namespaces;
mod orphans;
mod policies;
mod promises;
mod purges;
mod readiness;
mod removals;
mod room;
mod services;
mod shapes;
mod shared;
mod shared_turns;
mod simulation;
mod turn;
mod updates;
mod world;
