//! Deregisters all instances of ours for one cluster. Its Services are not read, since the cluster itself may be gone.
//! The marks identify the owner of an instance, as everywhere.

use std::collections::BTreeSet;

use super::{Basis, DeregisterReason, Holders, Observation, Place, Plan, mark};

/// Plans the removal of every instance that is the observation's owner's.
pub fn purge(observation: &Observation, because: &DeregisterReason) -> Plan {
    let mut plan = Plan::default();
    for (key, service) in &observation.registry.services {
        let place = Place::of(key, &observation.registry);
        for instance in observation.marked(key) {
            let change = instance.removal(&place, because.clone(), None);
            plan.changes.entry(instance.service).or_default().push(change);
        }
        if let Some(problem) = &service.unreadable {
            plan.unchanged.entry(place).or_default().unreadable = Some(problem.clone());
        }
    }
    mark::forget_all(observation, &mut plan);
    let (holders, affected) = (&Holders::default(), &BTreeSet::new());
    plan.note_foreign(Basis { observation, holders, affected });
    plan.note_present(&observation.registry);
    plan.in_order()
}
