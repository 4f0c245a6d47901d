//! An exchange: a new endpoint takes over the id of an instance of ours that goes under the same name. RegisterInstance
//! under an id that exists is an update, so it takes no place, and the name is never without an instance in between.

use super::Pending;
use crate::model::attributes::{ORPHANED, SIGHTING};
use crate::model::{Attributes, ServiceRef};
use crate::plan::{Because, Change, Difference, Exchange, Observation, Place, Plan, WaitsFor};

/// An instance of ours whose id can pass to another endpoint.
struct Surplus {
    instance: String,
    marked: ServiceRef,
    address: String,
    because: Because,
}

/// Turns registrations of the plan and removals under the same name into exchanges, in order, and returns the
/// registrations that find no instance to displace.
pub fn exchange(
    observation: &Observation,
    place: &Place,
    pending: Vec<Pending>,
    plan: &mut Plan,
) -> Vec<Pending> {
    let mut surplus = take_surplus(observation, place, plan, pending.len());
    let mut refused = Vec::new();
    for pending in pending {
        let own = surplus.iter().position(|surplus| surplus.marked == pending.service);
        let Some(index) = own.or((!surplus.is_empty()).then_some(0)) else {
            refused.push(pending);
            continue;
        };
        let displaced = surplus.remove(index);
        plan.remove_registration(&pending, place);
        let change = rewritten(observation, place, &pending, displaced);
        plan.changes.entry(pending.service).or_default().push(change);
    }
    refused
}

/// Whether a removal waits for nothing but an instance under the same name, which an exchange brings.
fn may_be_displaced(waits_for: Option<&WaitsFor>) -> bool {
    matches!(waits_for, None | Some(WaitsFor::FirstRegistration | WaitsFor::Holder(_)))
}

/// Takes up to `count` removals under a name out of the plan. An instance that carries a note goes last.
fn take_surplus(
    observation: &Observation,
    place: &Place,
    plan: &mut Plan,
    count: usize,
) -> Vec<Surplus> {
    let mut candidates: Vec<(bool, bool, ServiceRef, String)> = Vec::new();
    for (turn, changes) in &plan.changes {
        for change in changes.iter().filter(|change| change.place() == place) {
            if let Change::Deregister { instance, waits_for, .. } = change
                && may_be_displaced(waits_for.as_ref())
            {
                let noted = is_noted(observation.registry.instance(&place.key, instance));
                let waits = waits_for.is_some();
                candidates.push((noted, waits, turn.clone(), instance.clone()));
            }
        }
    }
    candidates.sort();
    let taken = candidates.into_iter().take(count);
    taken.filter_map(|(_, _, turn, id)| take_removal(plan, &turn, place, &id)).collect()
}

fn take_removal(plan: &mut Plan, turn: &ServiceRef, place: &Place, id: &str) -> Option<Surplus> {
    let is_it = |change: &mut Change| {
        let removes = matches!(change, Change::Deregister { .. });
        removes && change.place() == place && change.instance() == Some(id)
    };
    match plan.changes.get_mut(turn)?.extract_if(.., is_it).next()? {
        Change::Deregister { instance, marked, address, because, .. } => {
            Some(Surplus { instance, marked, address, because })
        }
        _ => None,
    }
}

fn is_noted(attributes: Option<&Attributes>) -> bool {
    attributes.is_some_and(|it| it.contains_key(SIGHTING) || it.contains_key(ORPHANED))
}

/// The change that writes the new endpoint over the displaced instance. What others added to that one was about
/// another endpoint; a note of ours stays, since it is about the cluster.
fn rewritten(
    observation: &Observation,
    place: &Place,
    pending: &Pending,
    displaced: Surplus,
) -> Change {
    let Surplus { instance, marked, address, because } = displaced;
    let empty = Attributes::new();
    let present = observation.registry.instance(&place.key, &instance).unwrap_or(&empty);
    let mut attributes = pending.attributes.clone();
    for note in [SIGHTING, ORPHANED] {
        let noted = present.get(note).map(|text| (note.to_owned(), text.clone()));
        attributes.extend(noted);
    }
    let differences = Difference::between(present, &attributes);
    let newcomer = pending.instance.clone();
    let exchange = Some(Exchange { newcomer, marked, address, because });
    Change::Rewrite { place: place.clone(), instance, attributes, differences, exchange }
}
