//! The Services that a run covers: a targeted sync starts with the Services of an event, and adds those that share
//! names with them.

use std::collections::BTreeSet;

use crate::model::{Selection, ServiceRef};
use crate::publish::plan::{Holders, Observation};

/// The Services with endpoints and changes that a run over `selection` has to read. They are those selected, even if
/// only their marks are left, and the holders of each name that one of these claims, or has instances under, without
/// holding it.
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
    let mut held_by_others = BTreeSet::new();
    for (key, service) in claimed.chain(marked) {
        if !holders.holds(key, &service) {
            held_by_others.insert(key);
        }
        affected.insert(service);
    }
    affected.extend(held_by_others.into_iter().flat_map(|key| holders.holders(key)).cloned());
    affected
}
