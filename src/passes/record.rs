//! What a turn keeps of its changes: the removals that the first plan announced, the Service that each change is made
//! for, and the outcomes. A change that has an outcome is not made again.

use std::collections::{BTreeMap, BTreeSet};

use super::{Applied, Outcome, Results};
use crate::model::{ServiceKey, ServiceRef};
use crate::plan::{Change, Stage};

/// What tells two changes of a run apart.
type Identity = (Stage, ServiceKey, Option<String>);

/// The changes of one turn, and what became of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    made_for: BTreeMap<Identity, ServiceRef>,
    settled: BTreeSet<Identity>,
    announced: BTreeSet<Identity>,
    pub(super) results: Results,
}

impl Record {
    /// The changes of the first plan, for whichever Service of the turn.
    pub(super) fn announce(&mut self, changes: BTreeMap<ServiceRef, Vec<Change>>) -> Vec<Change> {
        let changes = self.remember(changes);
        self.announced = changes.iter().map(identity).collect();
        let displaced = changes.iter().filter_map(displaced);
        self.announced.extend(displaced);
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

    /// Whether the first plan announced a change of this kind, or the removal of the instance whose id it uses.
    pub(super) fn is_announced(&self, change: &Change) -> bool {
        let removal = || {
            let instance = change.instance().map(str::to_owned);
            (Stage::Deregister, change.place().key.clone(), instance)
        };
        let replaces = matches!(change, Change::Register { .. }) || change.exchange().is_some();
        let is_own = change.exchange().is_none() && self.announced.contains(&identity(change));
        is_own || replaces && self.announced.contains(&removal())
    }

    pub(super) fn is_settled(&self, change: &Change) -> bool {
        self.settled.contains(&identity(change))
    }

    /// Whether a removal was tried or due, and is not done.
    pub(super) fn has_failed_removal(&self) -> bool {
        let mut removals =
            self.results.applied.iter().filter(|it| it.change.stage() == Stage::Deregister);
        removals.any(|it| matches!(it.outcome, Outcome::Failed(_) | Outcome::Undone(_)))
    }

    /// The Service that a change is made for.
    pub(super) fn service(&self, change: &Change) -> &ServiceRef {
        &self.made_for[&identity(change)]
    }

    pub(super) fn settle(&mut self, change: Change, outcome: Outcome) {
        let identity = identity(&change);
        let service = self.made_for[&identity].clone();
        self.settled.insert(identity);
        self.results.applied.push(Applied { service, change, outcome });
    }
}

/// What tells a change from the others of a run. An exchange is another change than a repair of the same instance.
fn identity(change: &Change) -> Identity {
    let instance = match change.exchange() {
        Some(exchange) => {
            Some(format!("{} {}", exchange.newcomer, change.instance().unwrap_or("")))
        }
        None => change.instance().map(str::to_owned),
    };
    (change.stage(), change.place().key.clone(), instance)
}

/// The removal that an exchange stands for.
fn displaced(change: &Change) -> Option<Identity> {
    change.exchange()?;
    let instance = change.instance().map(str::to_owned);
    Some((Stage::Deregister, change.place().key.clone(), instance))
}
