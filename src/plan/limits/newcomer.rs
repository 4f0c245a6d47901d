//! Who comes first where there is not room for all. Services take turns under each of their names: the one
//! that would have the fewest instances there gets the next place, so that each has one before any has
//! many. Among equals the one comes first for whose instance another waits to go, since that brings room;
//! then the hashes in the ids decide, which favours nobody and stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{ServiceKey, ServiceRef};
use crate::plan::instances::identity::hash_of;
use crate::plan::instances::subset;
use crate::plan::{Change, Plan, WaitsFor};

/// An instance that is to be registered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Newcomer {
    /// The Service in whose turn that is.
    pub service: ServiceRef,
    /// The Cloud Map service.
    pub key: ServiceKey,
    /// Its id.
    pub instance: String,
}

impl Newcomer {
    /// The newcomer that a change of a Service is about.
    pub fn of(service: &ServiceRef, change: &Change) -> Option<Self> {
        let Change::Register { place, instance, .. } = change else { return None };
        let (service, instance) = (service.clone(), instance.clone());
        Some(Self { service, key: place.key.clone(), instance })
    }
}

/// All that a plan registers, in order; `standing` counts the instances of a Service that stay under a name.
pub fn newcomers(
    plan: &Plan,
    standing: impl Fn(&ServiceRef, &ServiceKey) -> usize,
) -> Vec<Newcomer> {
    let mut names: BTreeMap<(ServiceRef, ServiceKey), Vec<String>> = BTreeMap::new();
    for (service, changes) in &plan.changes {
        for it in changes.iter().filter_map(|change| Newcomer::of(service, change)) {
            names.entry((it.service, it.key)).or_default().push(it.instance);
        }
    }
    let awaited = awaited(plan);
    let mut ranked = Vec::new();
    for ((service, key), instances) in names {
        let before = standing(&service, &key);
        let is_not_awaited = !awaited.contains(&(&service, &key));
        for (index, instance) in subset::in_order(&instances, |_| false).into_iter().enumerate() {
            let (service, key, instance) = (service.clone(), key.clone(), instance.clone());
            let rank = (before + index, is_not_awaited);
            ranked.push((rank, Newcomer { service, key, instance }));
        }
    }
    ranked.sort_by(|(one, a), (other, b)| {
        let hashes = hash_of(&a.instance).cmp(hash_of(&b.instance));
        one.cmp(other).then(hashes).then_with(|| a.cmp(b))
    });
    ranked.into_iter().map(|(_, newcomer)| newcomer).collect()
}

/// The Services for whose first instance under a name one of another's waits to go.
fn awaited(plan: &Plan) -> BTreeSet<(&ServiceRef, &ServiceKey)> {
    let changes = plan.changes.values().flatten();
    let waits = changes.filter_map(|change| match change.waits_for() {
        Some(WaitsFor::Holder(holder)) => Some((holder, &change.place().key)),
        _ => None,
    });
    waits.collect()
}
