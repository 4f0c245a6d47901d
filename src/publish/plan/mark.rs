//! Notes of the function for its later runs. A note is a mark on an instance of ours, set and removed by ordinary
//! changes of the plan. Instances of other owners never get one.

use super::instances::health;
use super::instances::rewrite;
use super::{Change, Difference, Observation, Place, Plan};
use crate::model::{Attributes, InstanceKey};

/// The instances of ours that carry a mark, with its text.
pub fn carriers<'a>(
    observation: &'a Observation,
    mark: &'static str,
) -> impl Iterator<Item = (InstanceKey, &'a str)> {
    observation.registry.services.keys().flat_map(move |key| {
        observation.ours(key).filter_map(move |(id, attributes)| {
            Some((InstanceKey::new(key, id), attributes.get(mark)?))
        })
    })
}

/// Whether an instance with one more mark stays within Cloud Map's limits for attributes.
pub fn has_room(present: &Attributes, mark: &str, text: &str) -> bool {
    let mut attributes = present.clone();
    set(&mut attributes, mark, Some(text));
    rewrite::beyond_limits(&attributes).is_none()
}

/// Sets or removes a mark: in the rewrite that is planned for the instance, or in an additional one. A deregistered
/// instance loses its mark.
pub fn put(
    observation: &Observation,
    at: &InstanceKey,
    (mark, text): (&'static str, Option<&str>),
    plan: &mut Plan,
) {
    let Some(present) = observation.registry.instance(&at.service, &at.id) else { return };
    let difference = difference(present, mark, text);
    let planned = plan.changes.iter_mut().find_map(|(turn, changes)| {
        let mut changes = changes.iter_mut();
        let change = changes.find(|change| {
            let is_new = matches!(change, Change::Register { .. });
            !is_new && change.is_about(at)
        });
        Some((turn.clone(), change?))
    });
    let (turn, planned) = planned.unzip();
    match planned {
        Some(Change::Rewrite { attributes, differences, .. }) => {
            set(attributes, mark, text);
            differences.push(difference);
        }
        Some(Change::Deregister { waits_for: None, .. }) if text.is_none() => {}
        _ => {
            let service = observation.registry.services.get(&at.service);
            let mut attributes = health::as_it_is(service, &at.id, present);
            set(&mut attributes, mark, text);
            let place = Place::of(&at.service, &observation.registry);
            let instance = at.id.clone();
            let differences = vec![difference];
            let change =
                Change::Rewrite { place, instance, attributes, differences, exchange: None };
            let marked = observation.owner.service_of(present);
            if let Some(marked) = marked.filter(|_| observation.rules.policy.allows(&change)) {
                // In the turn that deregisters it: a rewrite in another turn could register it again afterwards.
                plan.changes.entry(turn.unwrap_or(marked)).or_default().push(change);
            }
        }
    }
}

fn set(attributes: &mut Attributes, mark: &str, text: Option<&str>) {
    match text {
        Some(text) => attributes.insert(mark, text),
        None => attributes.remove(mark),
    }
}

/// The difference in a mark for the report: only the time at the start of the mark.
fn difference(present: &Attributes, mark: &str, text: Option<&str>) -> Difference {
    let time = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
    Difference {
        attribute: mark.to_owned(),
        present: present.get(mark).map(&time),
        wanted: text.map(time),
    }
}
