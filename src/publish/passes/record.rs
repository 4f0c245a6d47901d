//! The record of a turn's changes: the removals that the first plan announced, the Service that each change is made
//! for, and the outcomes. A change that has an outcome is not made again.

use std::collections::{BTreeMap, BTreeSet};

use super::{Applied, Outcome, Results};
use crate::model::{ServiceKey, ServiceRef};
use crate::publish::plan::{Change, Stage};

/// The identity of a change in a run. An exchange differs from a repair of the same instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ChangeKey {
    stage: Stage,
    service: ServiceKey,
    instance: Option<String>,
    /// The id that the endpoint of an exchange would have got.
    newcomer: Option<String>,
}

/// The changes of one turn with their outcomes.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    made_for: BTreeMap<ChangeKey, ServiceRef>,
    settled: BTreeSet<ChangeKey>,
    announced: BTreeSet<ChangeKey>,
    pub(super) results: Results,
}

impl Record {
    /// Records the changes of the first plan, for every Service of the turn.
    pub(super) fn announce(&mut self, changes: BTreeMap<ServiceRef, Vec<Change>>) -> Vec<Change> {
        let changes = self.remember(changes);
        self.announced = changes.iter().map(ChangeKey::of).collect();
        let exchanges = changes.iter().filter(|change| change.exchange().is_some());
        self.announced.extend(exchanges.map(ChangeKey::of_removal));
        changes
    }

    /// Records the changes of a later plan.
    pub(super) fn remember(&mut self, changes: BTreeMap<ServiceRef, Vec<Change>>) -> Vec<Change> {
        for (service, changes) in &changes {
            let made_for = changes.iter().map(|it| (ChangeKey::of(it), service.clone()));
            self.made_for.extend(made_for);
        }
        changes.into_values().flatten().collect()
    }

    /// Whether the first plan announced a change of this kind, or the removal of the instance with the id that it uses.
    pub(super) fn is_announced(&self, change: &Change) -> bool {
        let replaces = matches!(change, Change::Register { .. }) || change.exchange().is_some();
        let is_own = change.exchange().is_none() && self.announced.contains(&ChangeKey::of(change));
        is_own || replaces && self.announced.contains(&ChangeKey::of_removal(change))
    }

    pub(super) fn is_settled(&self, change: &Change) -> bool {
        self.settled.contains(&ChangeKey::of(change))
    }

    /// Whether a removal was tried or due, and is not done.
    pub(super) fn has_failed_removal(&self) -> bool {
        let mut removals =
            self.results.applied.iter().filter(|it| it.change.stage() == Stage::Deregister);
        removals.any(|it| matches!(it.outcome, Outcome::Failed(_) | Outcome::Undone(_)))
    }

    /// The Service that a change is made for.
    pub(super) fn service(&self, change: &Change) -> &ServiceRef {
        &self.made_for[&ChangeKey::of(change)]
    }

    pub(super) fn settle(&mut self, change: Change, outcome: Outcome) {
        let key = ChangeKey::of(&change);
        let service = self.made_for[&key].clone();
        self.settled.insert(key);
        self.results.applied.push(Applied { service, change, outcome });
    }
}

impl ChangeKey {
    fn of(change: &Change) -> Self {
        let newcomer = change.exchange().map(|exchange| exchange.newcomer.clone());
        Self { stage: change.stage(), newcomer, ..Self::of_removal(change) }
    }

    /// The key of the removal of the instance that a change is about.
    fn of_removal(change: &Change) -> Self {
        let service = change.place().key.clone();
        let instance = change.instance().map(str::to_owned);
        Self { stage: Stage::Deregister, service, instance, newcomer: None }
    }
}
