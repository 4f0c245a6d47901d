//! All of ours for one cluster goes, whatever its Services say: they are not looked at, and the cluster
//! may be gone itself. Whose an instance is decides here as everywhere.

use std::collections::BTreeSet;

use super::change::describe;
use super::{Because, Change, Holders, Observation, Place, Plan};
use crate::model::Marks;

/// Plans the removal of every instance that is the observation's owner's.
pub fn purge(observation: &Observation, because: &Because) -> Plan {
    let mut plan = Plan::default();
    for (key, service) in &observation.registry.services {
        let place = Place::of(key, &observation.registry);
        for (instance, attributes) in observation.registry.instances(key) {
            let Some(marks) = Marks::read(attributes, &observation.owner) else { continue };
            let change = Change::Deregister {
                place: place.clone(),
                instance: instance.clone(),
                marked: marks.service.clone(),
                address: describe(attributes),
                because: because.clone(),
                waits_for: None,
            };
            plan.changes.entry(marks.service).or_default().push(change);
        }
        if let Some(problem) = &service.unreadable {
            plan.standing.entry(place).or_default().unreadable = Some(problem.clone());
        }
    }
    plan.note_foreign(observation, &Holders::default(), &BTreeSet::new());
    plan.note_present(&observation.registry);
    plan.in_order()
}
