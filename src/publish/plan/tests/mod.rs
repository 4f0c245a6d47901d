//! The rules of the reconcile as tables of cases and as properties. `world` describes small worlds in few words,
//! `simulation` applies plans to random ones in memory by `calls`, and `promises` are checked at each of these calls.
//! `seeds` chooses the worlds that are tried.

mod adoption;
mod allowed;
mod arbitrary;
mod calls;
mod capacity;
mod changes;
mod claims;
mod clusters;
mod convergence;
mod departures;
mod explain;
mod exports;
mod exports_of_aws;
mod full_namespaces;
mod guard;
mod instances;
mod kubernetes;
mod moves;
mod name_policy;
mod new_namespaces;
mod orphans;
mod policies;
mod promises;
mod readiness;
mod reasons;
mod records;
mod refusals;
mod removals;
mod rest;
mod seeds;
mod services;
mod shapes;
mod simulation;
mod ttls;
mod unread;
mod updates;
mod world;
