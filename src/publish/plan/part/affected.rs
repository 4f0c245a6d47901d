//! Which Services a run is about.

use std::collections::BTreeSet;

use crate::model::{Selection, ServiceRef};
use crate::publish::plan::{Holders, Observation};

/// The Services whose endpoints and changes a run over `selection` has to look at: those selected,
/// whether they exist or only left marks, and whoever holds a name that they claim or are found under
/// and do not hold themselves.
pub fn affected(
    observation: &Observation,
    holders: &Holders,
    selection: &Selection,
) -> BTreeSet<ServiceRef> {
    let existing = observation.desired.services.keys().cloned();
    let selected: Vec<ServiceRef> = existing.filter(|it| selection.contains(it)).collect();
    let claimed = selected.iter().flat_map(|service| {
        let claims = holders.claims(service).into_iter().flatten();
        claims.map(move |key| (key, service.clone()))
    });
    let marked = observation.all_marked_services();
    let marked = marked.filter(|(_, service)| selection.contains(service));
    let mut affected: BTreeSet<ServiceRef> = selected.iter().cloned().collect();
    for (key, service) in claimed.chain(marked) {
        if !holders.holds(key, &service) {
            affected.extend(holders.holders(key).iter().cloned());
        }
        affected.insert(service);
    }
    affected
}
