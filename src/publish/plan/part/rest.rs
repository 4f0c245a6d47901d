//! The data that a plan for a part of a cluster depends on. If only that part was read, these functions decide whether
//! the rest must be read too.

use std::collections::BTreeSet;

use crate::model::{Claim, ServiceKey};
use crate::publish::plan::{Basis, Observation};

/// Whether a claim of the cluster names a namespace that was not found.
pub fn lacks_namespace(observation: &Observation) -> bool {
    let mut claims = observation.desired.all_claims();
    claims.any(|claims| observation.registry.candidates(&claims.namespace).is_empty())
}

/// The ids of the namespaces that claims of the cluster may mean.
pub fn claimed_namespaces(observation: &Observation) -> BTreeSet<String> {
    let claims = observation.desired.all_claims();
    let found = claims.flat_map(|claims| observation.registry.candidates(&claims.namespace));
    found.map(|namespace| namespace.id.clone()).collect()
}

/// Whether each of the affected Services holds all names that it claims, and alone: our instances under every key have
/// its marks, and no other Service's. Otherwise other claims to the name, or instances left under other names, matter
/// and must be read.
pub fn hold_names_exclusively(basis: Basis<'_>) -> bool {
    let Basis { observation, holders, affected } = basis;
    affected.iter().all(|service| {
        let claims = observation.desired.claims(service);
        let exclusive = claims.is_some_and(|claims| claims.claim == Claim::Exclusive);
        let clear = !holders.is_unclear(service) && holders.denied(service).is_empty();
        let mut keys = holders.claims(service).into_iter().flatten();
        let only = BTreeSet::from([service.clone()]);
        let marked = |key: &ServiceKey| observation.marked_services(key).collect::<BTreeSet<_>>();
        let alone = |key: &ServiceKey| marked(key) == only;
        exclusive && clear && keys.all(alone)
    })
}
