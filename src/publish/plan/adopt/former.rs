//! The adoption of the exports of a cluster from a former `OWNER_ID`: all its instances and records get our mark under
//! their ids, also those that no endpoint asks for. Any reader counts them before and after, so no name has a gap, and
//! the next sync does the rest.

use super::candidate::{Former, NotAdopted};
use crate::model::Owner;
use crate::model::attributes::{ORPHANED, SIGHTING};
use crate::publish::plan::instances::rewrite;
use crate::publish::plan::{Change, Observation, Place, Plan, Reason};

/// Plans the adoption of everything that belongs to `former`: another installation for the same cluster.
pub fn adopt_former(observation: &Observation, former: &Owner) -> Plan {
    let mut plan = Plan::default();
    for (key, service) in &observation.registry.services {
        let place = Place::of(key, &observation.registry);
        if let Some(problem) = &service.unreadable {
            plan.unchanged.entry(place.clone()).or_default().unreadable = Some(problem.clone());
        }
        for (id, present) in observation.registry.instances(key) {
            let marked = former.service_of(present).filter(|_| *former != observation.owner);
            let Some(name) = marked else { continue };
            let mut attributes = present.clone();
            observation.owner.mark(&mut attributes);
            // The notes of another owner concern its own runs.
            for note in [SIGHTING, ORPHANED] {
                attributes.remove(note);
            }
            let (place, instance, present) = (place.clone(), id.clone(), present.clone());
            if let Some(problem) = rewrite::beyond_limits(&attributes) {
                let why = NotAdopted::BeyondLimits(problem);
                plan.hold_back(&name, &place, Reason::NotAdopted { instance, why });
                continue;
            }
            let former = Former::Owner(former.id.clone());
            let change = Change::Adopt { place, instance, present, attributes, former };
            plan.changes.entry(name).or_default().push(change);
        }
    }
    observation.rules.policy.restrict(&mut plan);
    plan.note_present(&observation.registry);
    plan.in_order()
}
