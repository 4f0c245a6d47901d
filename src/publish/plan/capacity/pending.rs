//! Orders registrations if the capacity is short: the Service with the fewest instances under the name comes first, so
//! that each Service has one before any has many. Equal Services are ordered by the hashes in the ids, which favours no
//! Service and is the same in every run.

use std::collections::BTreeMap;

use crate::model::{Attributes, ServiceKey, ServiceRef};
use crate::publish::plan::instances::identity::hash_of;
use crate::publish::plan::{Change, Place, Plan};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pending {
    /// The Service with the turn in which it is registered.
    pub service: ServiceRef,
    pub instance: String,
    pub attributes: Attributes,
}

/// The registrations of a plan, in order, under each name without capacity for all of them. `staying` counts the
/// instances that a Service has there and keeps.
pub fn by_place(
    plan: &Plan,
    are_too_many: impl Fn(&ServiceKey, usize) -> bool,
    staying: impl Fn(&ServiceRef, &ServiceKey) -> usize,
) -> BTreeMap<Place, Vec<Pending>> {
    let mut counts: BTreeMap<&Place, usize> = BTreeMap::new();
    for change in plan.changes.values().flatten() {
        if let Change::Register { place, .. } = change {
            *counts.entry(place).or_default() += 1;
        }
    }
    counts.retain(|place, count| are_too_many(&place.key, *count));
    let mut places: BTreeMap<Place, Vec<Pending>> = BTreeMap::new();
    for (service, changes) in plan.changes.iter().filter(|_| !counts.is_empty()) {
        for change in changes {
            if let Change::Register { place, instance, attributes } = change
                && counts.contains_key(place)
            {
                let (service, instance) = (service.clone(), instance.clone());
                let pending = Pending { service, instance, attributes: attributes.clone() };
                places.entry(place.clone()).or_default().push(pending);
            }
        }
    }
    for (place, pending) in &mut places {
        sort(pending, |service| staying(service, &place.key));
    }
    places
}

/// Sorts by the number of instances that the Service has at its turn.
fn sort(pending: &mut [Pending], staying: impl Fn(&ServiceRef) -> usize) {
    pending.sort_by(|a, b| hash_of(&a.instance).cmp(hash_of(&b.instance)).then_with(|| a.cmp(b)));
    let mut counts: BTreeMap<ServiceRef, usize> = BTreeMap::new();
    pending.sort_by_cached_key(|pending| {
        let service = &pending.service;
        let count = counts.entry(service.clone()).or_insert_with(|| staying(service));
        *count += 1;
        *count
    });
}
