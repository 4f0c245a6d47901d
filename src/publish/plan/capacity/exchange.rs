//! An exchange: a new endpoint takes over the id of a surplus instance of ours under the same name. RegisterInstance
//! with an existing id is an update, so it needs no further capacity, and the name always has an instance.

use std::collections::BTreeSet;

use super::Pending;
use crate::model::attributes::{ORPHANED, SIGHTING};
use crate::model::{Attributes, ServiceRef};
use crate::publish::plan::{
    Change, DeregisterReason, Difference, Exchange, Observation, Place, Plan, WaitsFor,
};

/// A surplus instance of ours, which can pass its id to another endpoint.
struct Surplus {
    instance: String,
    marked: ServiceRef,
    address: String,
    because: DeregisterReason,
}

/// Joins registrations of the plan with removals under the same name into exchanges, in order, and returns the
/// registrations without an instance to displace.
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
        let registered = BTreeSet::from([pending.instance.as_str()]);
        plan.remove_registrations(&pending.service, &registered, place);
        let change = rewritten(observation, place, &pending, displaced);
        plan.changes.entry(pending.service).or_default().push(change);
    }
    refused
}

/// Takes up to `count` removals under a name out of the plan: only removals without a wait, or with a wait for an
/// instance under the same name, which an exchange brings. An instance that carries a note is taken last.
fn take_surplus(
    observation: &Observation,
    place: &Place,
    plan: &mut Plan,
    count: usize,
) -> Vec<Surplus> {
    let may_be_displaced = |change: &mut Change| {
        let Change::Deregister { place: here, waits_for, .. } = change else { return false };
        let may_wait = matches!(
            waits_for.as_deref(),
            None | Some(WaitsFor::FirstRegistration | WaitsFor::Holder(_))
        );
        here == place && may_wait
    };
    let mut candidates = Vec::new();
    for (turn, changes) in &mut plan.changes {
        for change in changes.extract_if(.., may_be_displaced) {
            let instance = change.instance().unwrap_or_default().to_owned();
            let noted = is_noted(observation.registry.instance(&place.key, &instance));
            let waits = change.waits_for().is_some();
            candidates.push(((noted, waits, turn.clone(), instance), change));
        }
    }
    candidates.sort_by(|(a, _), (b, _)| a.cmp(b));
    for ((_, _, turn, _), change) in candidates.split_off(count.min(candidates.len())) {
        plan.changes.entry(turn).or_default().push(change);
    }
    let taken = candidates.into_iter().filter_map(|(_, change)| match change {
        Change::Deregister { instance, marked, address, because, .. } => {
            Some(Surplus { instance, marked, address, because })
        }
        _ => None,
    });
    taken.collect()
}

fn is_noted(attributes: Option<&Attributes>) -> bool {
    attributes.is_some_and(|it| it.contains_key(SIGHTING) || it.contains_key(ORPHANED))
}

/// The change that writes the new endpoint over the displaced instance. Attributes added by other writers are dropped,
/// since they describe the old endpoint; a note of ours stays, since it is about the cluster.
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
        attributes.extend(present.get(note).map(|text| (note, text)));
    }
    let differences = Difference::between(present, &attributes);
    let newcomer = pending.instance.clone();
    let exchange = Some(Box::new(Exchange { newcomer, marked, address, because }));
    Change::Rewrite { place: place.clone(), instance, attributes, differences, exchange }
}
