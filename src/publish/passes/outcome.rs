//! The outcomes of a call, of a change and of a plan, and the record of a turn's changes: the removals that the first plan
//! announced, the Service that each change is made for, and the outcomes. A change that has an outcome is not made again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{CloudMapService, Outcome, ServiceKey, ServiceRef};
use crate::publish::plan::{Change, GuardStatus, HeldBack, Reason, Stage};

/// The outcome of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The change has this outcome.
    Is(Outcome),
    /// It is not made, and a retry would not help.
    HeldBack(Reason),
    /// The Cloud Map service was created with this ARN.
    Created(String),
    /// Another turn of the invocation has created the Cloud Map service, with this ARN.
    Exists(String),
    /// The change conflicts with another writer: its Cloud Map service is read again, and the change planned again.
    Contested,
    /// The endpoint has changed since the plan was made, so no call was made: what its Service needs is planned again.
    Outdated,
    /// Cloud Map accepts no more instances in the namespace; with its error message.
    Full(String),
}

impl Effect {
    /// The answer of Cloud Map, if it has refused the change and would do so again.
    pub fn refused(&self) -> Option<Reason> {
        match self {
            Self::Full(message) => Some(Reason::QuotaExceeded(message.clone())),
            Self::HeldBack(reason) => Some(reason.clone()),
            _ => None,
        }
    }
}

/// A change of one Kubernetes Service with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledChange {
    /// The Service in whose turn the change was made.
    pub service: ServiceRef,
    pub change: Change,
    /// Its outcome, or the reason why it is held back.
    pub outcome: Result<Outcome, Reason>,
}

/// The outcomes of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    pub applied: Vec<SettledChange>,
    /// The lines that later plans of the run hold back.
    pub held_back: Vec<HeldBack>,
    /// The guard's verdict between the passes, if it holds a loss then.
    pub guard: Option<Arc<GuardStatus>>,
    /// The Cloud Map services that were created, as they are then. Those that another writer had created first are as they
    /// were found: it may be this process, by a call whose answer was lost.
    pub created: BTreeMap<ServiceKey, CloudMapService>,
}

impl Results {
    /// Adds the results of another turn.
    pub fn extend(&mut self, other: Self) {
        self.applied.extend(other.applied);
        self.held_back.extend(other.held_back);
        self.guard = self.guard.take().or(other.guard);
        self.created.extend(other.created);
    }
}

/// The identity of a change in a run. An exchange differs from a repair of the same instance, and so does its registration:
/// the guard's note may go onto one that was registered just before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ChangeKey {
    stage: Stage,
    service: ServiceKey,
    instance: Option<String>,
    /// The id that the endpoint of an exchange would have got.
    newcomer: Option<String>,
    is_new: bool,
}

/// The changes of one turn with their outcomes. Hundreds of turns are taken side by side, so each key is there once.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnRecord {
    known: BTreeMap<ChangeKey, ChangeState>,
    pub(super) results: Results,
}

/// The state of a change.
#[derive(Clone, Debug)]
struct ChangeState {
    /// The Service that it, or the exchange that replaces it, is made for.
    made_for: Arc<ServiceRef>,
    is_announced: bool,
    is_settled: bool,
}

impl TurnRecord {
    /// Records the changes of the first plan, for every Service of the turn.
    pub(super) fn announce(&mut self, changes: BTreeMap<ServiceRef, Vec<Change>>) -> Vec<Change> {
        let changes = self.remember(changes);
        for exchange in changes.iter().filter(|change| change.exchange().is_some()) {
            let known = self.known[&ChangeKey::of(exchange)].clone();
            self.known.entry(ChangeKey::of_removal(exchange)).or_insert(known);
        }
        self.known.values_mut().for_each(|known| known.is_announced = true);
        changes
    }

    /// Records the changes of a later plan.
    pub(super) fn remember(&mut self, changes: BTreeMap<ServiceRef, Vec<Change>>) -> Vec<Change> {
        let mut all = Vec::with_capacity(changes.values().map(Vec::len).sum());
        for (service, changes) in changes {
            let service = Arc::new(service);
            for change in &changes {
                let (is_announced, is_settled) = (false, false);
                let new = || ChangeState { made_for: service.clone(), is_announced, is_settled };
                let known = self.known.entry(ChangeKey::of(change)).or_insert_with(new);
                known.made_for = service.clone();
            }
            all.extend(changes);
        }
        all
    }

    /// Whether the first plan announced a change of this kind, or the removal of the instance with the id that it uses.
    pub(super) fn is_announced(&self, change: &Change) -> bool {
        let is_announced = |key| self.known.get(&key).is_some_and(|known| known.is_announced);
        let replaces = matches!(change, Change::Register { .. }) || change.exchange().is_some();
        let is_own = change.exchange().is_none() && is_announced(ChangeKey::of(change));
        is_own || replaces && is_announced(ChangeKey::of_removal(change))
    }

    pub(super) fn is_settled(&self, change: &Change) -> bool {
        self.known.get(&ChangeKey::of(change)).is_some_and(|known| known.is_settled)
    }

    /// Whether a removal was tried or due, and is not done.
    pub(super) fn has_failed_removal(&self) -> bool {
        let mut removals =
            self.results.applied.iter().filter(|it| it.change.stage() == Stage::Deregister);
        removals.any(|it| it.outcome.as_ref().is_ok_and(|outcome| !outcome.is_made()))
    }

    /// The Service that a change is made for.
    pub(super) fn service(&self, change: &Change) -> &ServiceRef {
        &self.known[&ChangeKey::of(change)].made_for
    }

    pub(super) fn settle(&mut self, change: Change, outcome: Result<Outcome, Reason>) {
        let service = self.service(&change).clone();
        if let Some(known) = self.known.get_mut(&ChangeKey::of(&change)) {
            known.is_settled = true;
        }
        self.results.applied.push(SettledChange { service, change, outcome });
    }
}

impl ChangeKey {
    fn of(change: &Change) -> Self {
        let newcomer = change.exchange().map(|exchange| exchange.newcomer.clone());
        let is_new = matches!(change, Change::Register { .. });
        Self { stage: change.stage(), newcomer, is_new, ..Self::of_removal(change) }
    }

    /// The key of the removal of the instance that a change is about.
    fn of_removal(change: &Change) -> Self {
        let service = change.place().key.clone();
        let instance = change.instance().map(str::to_owned);
        Self { stage: Stage::Deregister, service, instance, newcomer: None, is_new: false }
    }
}
