//! The passes of a sync, as a pure state machine: outcomes in, next changes out. `apply` makes the changes and does the
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

mod outcome;
mod reread;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{CloudMapService, Outcome, Registry, ServiceKey, ServiceRef};
use crate::publish::plan::{
    Change, GuardBaseline, Holders, InTurn, Observation, Plan, Reason, in_turns,
};

pub use outcome::{Effect, Results, SettledChange};
pub use turn::{Step, Turn};

/// The changes of a plan, by turn; one turn if the guard judges again between the passes.
///
/// A turn knows its own losses alone. If 200 Services lose an instance each since their registrations failed, 200 turns
/// would have a loss within the limits each.
pub fn by_turn(
    holders: &Holders,
    changes: BTreeMap<ServiceRef, Vec<Change>>,
    judged: Option<&Arc<GuardBaseline>>,
) -> Vec<InTurn> {
    if judged.is_none() || changes.is_empty() { in_turns(changes, holders) } else { vec![changes] }
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
