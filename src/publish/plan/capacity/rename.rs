//! A renamed Service in a full namespace: its instances under the old name are removed to free capacity for those under
//! the new one, a part of them at a time, and the last one only after the first new one is registered.

use std::collections::BTreeMap;

use crate::model::ServiceRef;
use crate::publish::plan::{Change, Observation, Place, Plan, WaitsFor};

/// The divisor for one part: each pass removes one in four of the instances under the old name. Each pass takes as long
/// as two operations, and clients still find most of the Service meanwhile.
const PART: usize = 4;

/// Releases up to `count` instances of a Service under its old names for its registrations at `new`. Returns the old
/// name if its last instance has to wait for one under the new name.
pub fn give_up(
    observation: &Observation,
    service: &ServiceRef,
    new: &Place,
    count: usize,
    plan: &mut Plan,
) -> Option<String> {
    let is_found = stays_registered(observation, service, new, plan);
    let mut removals: Vec<&mut Change> = plan
        .changes
        .values_mut()
        .flatten()
        .filter(|change| gives_way(change, service, new))
        .collect();
    let last = removals.last().map(|change| change.place().to_string())?;
    let part = removals.len().div_ceil(PART).min(count);
    let stays = usize::from(!is_found);
    let is_closed = observation.registry.capacity.is_closed(&new.key);
    let may_go = if is_closed { 0 } else { removals.len().saturating_sub(stays).min(part) };
    let mut gone = 0;
    let mut left = BTreeMap::new();
    for change in &mut removals {
        let key = change.place().key.clone();
        let left = left.entry(key.clone()).or_insert_with(|| observation.ours(&key).count());
        let keeps_last = matches!(change.waits_for(), Some(WaitsFor::HolderAndNewName { .. }));
        if gone < may_go && (*left > 1 || !keeps_last) {
            change.release();
            *left -= 1;
            gone += 1;
        }
    }
    (gone == 0 && !is_found).then_some(last)
}

/// Whether the Service has an instance at `new` that the plan neither removes nor exchanges for one of another Service.
fn stays_registered(
    observation: &Observation,
    service: &ServiceRef,
    new: &Place,
    plan: &Plan,
) -> bool {
    let loses = |id: &str| {
        plan.changes.iter().any(|(of, changes)| {
            changes.iter().any(|change| {
                let is_lost = matches!(change, Change::Deregister { .. })
                    || change.exchange().is_some() && of != service;
                is_lost && change.place() == new && change.instance() == Some(id)
            })
        })
    };
    let mut marked = observation.marked(&new.key);
    marked.any(|it| it.service == *service && !loses(it.id))
}

/// Whether a change removes an instance that only waits for the registrations under the new name of its Service.
fn gives_way(change: &Change, service: &ServiceRef, new: &Place) -> bool {
    let Some(WaitsFor::NewName(renamed) | WaitsFor::HolderAndNewName { renamed, .. }) =
        change.waits_for()
    else {
        return false;
    };
    let same_namespace = change.place().key.namespace == new.key.namespace;
    renamed == service && same_namespace && change.marked() == Some(service)
}

impl Change {
    /// Removes the wait of a removal.
    fn release(&mut self) {
        if let Self::Deregister { waits_for, .. } = self {
            *waits_for = None;
        }
    }
}
