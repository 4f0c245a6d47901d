//! The passes of a sync, as a pure state machine: outcomes in, next changes out. `turn` makes the changes and does the
//! reads of a [`Step`]; the property tests do the same on a Cloud Map in memory.
//!
//! ```text
//! plan ──> pass 1: additions ──> read again ──> plan ──> pass 2: additions, then removals ──> ...
//!              (once more before, if the plan is old)        (endpoints read once more after removals)
//! ```
//!
//! Each Kubernetes Service takes a [`Turn`] of its own, or one with those that it waits for (`plan::in_turns`). If the
//! guard has to judge again between the passes, all Services take one turn. No removal is made in the first pass, and
//! none in a later pass that the first plan did not announce: that plan saw all Services.
//!
//! [`FirstPart`] are the registrations that the first part of a full sync has made, or tried. The plan of the whole sync
//! has them again, since it rests on Cloud Map as it was before: so it is judged as if nothing had been made, and its
//! turns begin with these outcomes.

mod reread;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::plan::{
    Change, ChangesByService, GuardBaseline, GuardStatus, HeldBack, Observation, Plan, Reason,
    Stage, in_turns,
};
use crate::model::{CloudMapService, Outcome, Registry, ServiceKey, ServiceRef};

pub use turn::{Step, Turn};

/// The changes of a plan, by turn; one turn if the guard judges again between the passes.
///
/// A turn knows its own losses alone. If 200 Services lose an instance each since their registrations failed, 200 turns
/// would have a loss within the limits each.
pub fn by_turn(
    changes: ChangesByService,
    judged: Option<&Arc<GuardBaseline>>,
) -> Vec<ChangesByService> {
    if judged.is_none() || changes.is_empty() { in_turns(changes) } else { vec![changes] }
}

/// The registrations of the first part with their outcomes.
#[derive(Debug, Default)]
pub struct FirstPart {
    /// The Cloud Map services that it changed, as they were before.
    before: BTreeMap<ServiceKey, CloudMapService>,
    /// Those that it created.
    created: BTreeMap<ServiceKey, CloudMapService>,
    changes: BTreeMap<ServiceKey, Vec<SettledChange>>,
    /// Those that a later plan lacks.
    pub superseded: Vec<SettledChange>,
}

impl FirstPart {
    /// `before` is what the registrations were planned on.
    pub fn new(results: Results, before: &Registry) -> Self {
        let mut made = Self { created: results.created, ..Self::default() };
        for applied in results.applied {
            let key = &applied.change.place().key;
            let service = before.services.get(key).map(|service| (key.clone(), service.clone()));
            made.before.extend(service);
            // What was not tried is tried by the whole sync.
            if !matches!(applied.outcome, Ok(Outcome::Undone { .. })) {
                made.changes.entry(key.clone()).or_default().push(applied);
            }
        }
        made
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// All registrations that were made or tried.
    pub fn into_applied(self) -> impl Iterator<Item = SettledChange> {
        self.changes.into_values().flatten().chain(self.superseded)
    }

    /// Puts the instances of the services that were changed back into `registry` as they were before, and takes those
    /// services out that were created.
    pub fn undo_in(&self, registry: &mut Registry) {
        registry.services.retain(|key, _| !self.created.contains_key(key));
        for (key, before) in &self.before {
            // Else it is gone, or cannot be read any more.
            if let Some(service) = registry.services.get_mut(key)
                && service.unreadable.is_none()
            {
                service.instances.clone_from(&before.instances);
            }
        }
    }

    /// Separates the registrations that were made and that a plan lacks, since the cluster or the service has changed.
    /// Returns whether there are any.
    pub fn supersede_by(&mut self, plan: &Plan) -> bool {
        let planned = |change: &Change| plan.changes.values().flatten().any(|it| it == change);
        let is_superseded =
            |it: &mut SettledChange| it.outcome == Ok(Outcome::Applied) && !planned(&it.change);
        for changes in self.changes.values_mut() {
            self.superseded.extend(changes.extract_if(.., is_superseded));
        }
        !self.superseded.is_empty()
    }

    /// Records these registrations in an observation.
    pub fn note_superseded(&self, observation: &mut Observation) {
        for SettledChange { service, change, .. } in &self.superseded {
            let key = &change.place().key;
            if let Some(created) = self.created.get(key) {
                observation.registry.services.entry(key.clone()).or_insert(created.clone());
            }
            observation.note(service, change);
        }
    }

    fn outcome(&self, change: &Change) -> Option<&Result<Outcome, Reason>> {
        let made = self.changes.get(&change.place().key)?;
        Some(&made.iter().find(|made| made.change == *change)?.outcome)
    }
}

impl Turn<'_> {
    /// Records the outcomes of those of its changes that the first part has made or tried.
    pub fn record_made(&mut self, made: &FirstPart) {
        for change in std::mem::take(&mut self.open) {
            match (&change, made.outcome(&change)) {
                (_, None) => self.open.push(change),
                (Change::CreateService { place, .. }, Some(Ok(Outcome::Applied)))
                    if let Some(created) = made.created.get(&place.key) =>
                {
                    let arn = created.arn.clone();
                    self.record(change, Effect::Created(arn));
                }
                (_, Some(Ok(outcome))) => self.record(change, Effect::Is(outcome.clone())),
                (_, Some(Err(reason))) => self.leave(change, reason.clone()),
            }
        }
    }
}

// The outcomes of a call, of a change and of a plan, and the record of a turn's changes: the removals that the first plan
// announced, the Service that each change is made for, and the outcomes. A change that has an outcome is not made again.

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
    /// The Services with an instance by the last read of their turns and the changes after it. It may have been registered
    /// by a call whose answer was lost, so that no change counts.
    pub standing: BTreeSet<ServiceRef>,
}

impl Results {
    /// The Services of which a note of the guard was not written.
    pub fn without_note(&self) -> impl Iterator<Item = ServiceRef> {
        self.applied.iter().filter_map(|made| match &made.change {
            Change::Note { service, text: Some(_), .. } if made.outcome != Ok(Outcome::Applied) => {
                Some(service.clone())
            }
            _ => None,
        })
    }

    /// Adds the results of another turn.
    pub fn extend(&mut self, other: Self) {
        self.applied.extend(other.applied);
        self.held_back.extend(other.held_back);
        self.guard = self.guard.take().or(other.guard);
        self.created.extend(other.created);
        self.standing.extend(other.standing);
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
    pub(super) fn announce(&mut self, changes: ChangesByService) -> Vec<Change> {
        let changes = self.remember(changes);
        for exchange in changes.iter().filter(|change| change.exchange().is_some()) {
            let known = self.known[&ChangeKey::of(exchange)].clone();
            self.known.entry(ChangeKey::of_removal(exchange)).or_insert(known);
        }
        self.known.values_mut().for_each(|known| known.is_announced = true);
        changes
    }

    /// Records the changes of a later plan.
    pub(super) fn remember(&mut self, changes: ChangesByService) -> Vec<Change> {
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
