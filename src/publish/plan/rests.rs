//! The reads that changes rest on. A run that cannot read all of Cloud Map in its time compares the cluster with older
//! reads, too: these may show that nothing is to be done, and count for the guard, which may only hold more by them.
//! Each change rests on reads of this run: the services that [`to_read`] returns are read, and the plan is made again,
//! until none is left or there is no time. The changes of which something is still old are left to the next run.

use std::collections::BTreeSet;

use super::change::{Change, Stage};
use super::observation::Observation;
use super::part::RereadScope;
use super::result::Plan;
use super::turns::{InTurn, in_turns};
use crate::model::ServiceKey;
use crate::model::attributes::SIGHTING;

/// The services that a plan rests on, and that were not read in this run.
pub fn to_read(observation: &Observation) -> BTreeSet<ServiceKey> {
    if observation.registry.is_current() {
        return BTreeSet::new();
    }
    let plan = super::plan_on_any_age(observation);
    in_turns(plan.changes, &observation.holders)
        .iter()
        .flat_map(|turn| old(observation, turn))
        .collect()
}

/// The services that the changes of a turn rest on, and that were not read in this run.
fn old(observation: &Observation, turn: &InTurn) -> BTreeSet<ServiceKey> {
    let changes: Vec<Change> = turn.values().flatten().cloned().collect();
    let scope = RereadScope::of(&observation.holders, turn.keys(), &changes);
    let is_old = |key: &ServiceKey| {
        let service = observation.registry.services.get(key);
        service.is_some_and(|service| !service.is_current())
    };
    scope.keys.into_iter().filter(is_old).collect()
}

impl Plan {
    /// Leaves out the changes of which something was not read in this run, and with these the removal of the instance with
    /// the guard's note: the next run goes on by it.
    pub(super) fn leave_out_old(&mut self, observation: &Observation) {
        if observation.registry.is_current() {
            return;
        }
        let turns = in_turns(std::mem::take(&mut self.changes), &observation.holders).into_iter();
        let (left, mut turns): (Vec<InTurn>, Vec<InTurn>) =
            turns.partition(|turn| !old(observation, turn).is_empty());
        if !left.is_empty() {
            turns.retain(|turn| !removes_note(observation, turn));
        }
        self.changes = turns.into_iter().flatten().collect();
    }
}

fn removes_note(observation: &Observation, turn: &InTurn) -> bool {
    turn.values().flatten().filter(|change| change.stage() == Stage::Deregister).any(|change| {
        let instance = change.instance().unwrap_or_default();
        let present = observation.registry.instance(&change.place().key, instance);
        present.is_some_and(|it| it.contains_key(SIGHTING))
    })
}
