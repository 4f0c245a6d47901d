//! A turn in the simulation: what it knows, what it still has to do, and which of it is due, as in
//! `apply`.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{ServiceKey, ServiceRef};
use crate::plan::{Again, Change, Holders, Observation, Place, Stage, in_turns};

/// What tells a change from the others of a run.
pub type Settled = (Stage, ServiceKey, Option<String>);

/// The turn of one Kubernetes Service, or of several that wait for one another.
pub struct Turn {
    pub services: BTreeSet<ServiceRef>,
    pub observation: Observation,
    pub changes: Vec<Change>,
    pub settled: BTreeSet<Settled>,
    announced: BTreeSet<Settled>,
    waiting: Vec<Change>,
}

/// All turns, each with the part of the observation that it rests on.
pub fn all(
    changes: BTreeMap<ServiceRef, Vec<Change>>,
    observation: &Observation,
    settled: &BTreeSet<Settled>,
) -> Vec<Turn> {
    let holders = Holders::decide(observation);
    let left = observation.room_left_by(changes.values().flatten());
    let turns = in_turns(changes).into_iter().map(|changes| {
        let services = changes.keys().cloned().collect();
        let changes: Vec<Change> = changes.into_values().flatten().collect();
        let again = Again::of(&holders, &services, &changes);
        let mut observation = again.narrow(observation, &holders);
        observation.leave_room_for(&changes, &left);
        let announced = changes.iter().map(identity).collect();
        let waiting = changes.iter().filter(|it| it.waits_for_room()).cloned().collect();
        Turn { services, observation, changes, settled: settled.clone(), announced, waiting }
    });
    turns.collect()
}

impl Turn {
    /// How often it is read and decided again.
    pub fn looks(&self) -> usize {
        if self.waiting.is_empty() { 3 } else { 5 }
    }

    /// What is left for another turn, where something still waits for room.
    pub fn left(&self) -> Vec<Change> {
        let waiting = self.waiting.iter().filter(|it| !self.settled.contains(&identity(it)));
        let waiting: Vec<Change> = waiting.cloned().collect();
        if waiting.is_empty() { waiting } else { [waiting, self.changes.clone()].concat() }
    }

    /// Takes over what is planned again, as far as it was announced.
    pub fn go_on(&mut self, changes: BTreeMap<ServiceRef, Vec<Change>>) {
        self.changes = changes.into_values().flatten().collect();
        self.changes.retain(|change| {
            let rewrites = matches!(change, Change::Rewrite { .. });
            let besides = rewrites || matches!(change.stage(), Stage::Health | Stage::Update);
            besides || self.announced.contains(&identity(change))
        });
        let come = self.come(|_| true);
        self.changes.retain(|it| it.stage() != Stage::Create || come.contains(it.place()));
    }

    /// Takes out what is made at this look, in order.
    pub fn due(&mut self, look: usize) -> Vec<Change> {
        let come = self.come(|change| !change.waits_for_room());
        let due = |change: &mut Change| match change {
            Change::CreateService { place, .. } => come.contains(place),
            Change::Register { waits_for, .. } => waits_for.is_none(),
            Change::Deregister { waits_for, .. } => look > 1 && waits_for.is_none(),
            _ => true,
        };
        let mut due: Vec<Change> = self.changes.extract_if(.., due).collect();
        due.sort_by_key(Change::stage);
        due
    }

    /// Where such an instance is registered.
    fn come(&self, such: fn(&Change) -> bool) -> BTreeSet<Place> {
        let come = self.changes.iter().filter(|it| it.stage() == Stage::Register && such(it));
        come.map(|change| change.place().clone()).collect()
    }
}

pub fn identity(change: &Change) -> Settled {
    let instance = change.instance().map(str::to_owned);
    (change.stage(), change.place().key.clone(), instance)
}
