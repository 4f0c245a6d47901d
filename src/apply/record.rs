//! What a turn keeps of its changes: which the first plan announced, for whom each is made, and which have
//! their outcome. What has one is made no more, in this turn or a later one.

use std::collections::{BTreeMap, BTreeSet};

use super::{Applied, Outcome, Results};
use crate::model::{ServiceKey, ServiceRef};
use crate::plan::{Change, Place, Stage};

/// What tells two changes of a run apart.
pub(super) type Identity = (Stage, ServiceKey, Option<String>);

/// The changes of one turn, and what became of them.
pub(super) struct Record<'a> {
    /// For which Service of the turn a change is made.
    made_for: BTreeMap<Identity, ServiceRef>,
    /// The changes that have an outcome.
    settled: BTreeSet<Identity>,
    /// Those that got theirs in an earlier turn.
    settled_before: &'a BTreeSet<Identity>,
    /// The changes that the first plan announced.
    announced: BTreeSet<Identity>,
    pub(super) results: Results,
}

impl<'a> Record<'a> {
    pub(super) fn new(settled_before: &'a BTreeSet<Identity>) -> Self {
        let (made_for, settled, announced, results) = Default::default();
        Self { made_for, settled, settled_before, announced, results }
    }

    /// The changes of the first plan, for whichever Service of the turn.
    pub(super) fn announce(&mut self, changes: BTreeMap<ServiceRef, Vec<Change>>) -> Vec<Change> {
        let changes = self.remember(changes);
        self.announced = changes.iter().map(identity).collect();
        changes
    }

    /// The changes of a later plan.
    pub(super) fn remember(&mut self, changes: BTreeMap<ServiceRef, Vec<Change>>) -> Vec<Change> {
        for (service, changes) in &changes {
            let made_for = changes.iter().map(|change| (identity(change), service.clone()));
            self.made_for.extend(made_for);
        }
        changes.into_values().flatten().collect()
    }

    /// Only what the first plan announced is done, which saw all Services: the rest can wait, but for what
    /// is decided anew since others were at it, and for what takes no room.
    pub(super) fn is_announced(&self, change: &Change, anew: &BTreeSet<Place>) -> bool {
        let besides = match change.stage() {
            Stage::Adopt | Stage::Deregister => false,
            Stage::CreateNamespace | Stage::Create | Stage::Register => {
                anew.contains(change.place())
            }
            Stage::Health | Stage::Update => true,
        };
        besides
            || matches!(change, Change::Rewrite { .. })
            || self.announced.contains(&identity(change))
    }

    pub(super) fn is_settled(&self, change: &Change) -> bool {
        let identity = identity(change);
        self.settled.contains(&identity) || self.settled_before.contains(&identity)
    }

    pub(super) fn settle(&mut self, change: Change, outcome: Outcome) {
        let identity = identity(&change);
        let service = self.made_for[&identity].clone();
        self.settled.insert(identity);
        self.results.applied.push(Applied { service, change, outcome });
    }

    /// Who waits for room may yet find some, and what is left follows. Else, or where the time is not `open`
    /// any more, it has waited in vain.
    pub(super) fn leave(&mut self, mut waiting: Vec<Change>, left: Vec<Change>, open: bool) {
        waiting.retain(|change| !self.is_settled(change));
        let goes_on = open && !waiting.is_empty();
        for change in waiting.into_iter().chain(left) {
            if goes_on {
                let service = self.made_for[&identity(&change)].clone();
                self.results.waiting.entry(service).or_default().push(change);
            } else {
                let outcome = Outcome::of_waiting(&change, open);
                self.settle(change, outcome);
            }
        }
    }
}

/// What tells a change from the others of a run.
pub(super) fn identity(change: &Change) -> Identity {
    let instance = change.instance().map(str::to_owned);
    (change.stage(), change.place().key.clone(), instance)
}
