//! The memory of the guard: a mark on one of the instances that it holds, never on an instance of another owner. The
//! mark is written once while the loss is held, is carried over on a rewrite, and is removed when the loss is over or
//! let pass.

use crate::guard::{Losses, Sighting, Verdict};
use crate::model::attributes::SIGHTING;
use crate::model::{Attributes, InstanceKey};
use crate::publish::plan::mark;
use crate::publish::plan::{Change, Observation, Plan};

/// The sighting that an earlier run stored.
pub fn recall(observation: &Observation) -> Option<Sighting> {
    let marks = mark::carriers(observation, SIGHTING).filter_map(|(_, text)| Sighting::parse(text));
    marks.min_by_key(|sighting| sighting.first_seen)
}

/// Adds the note changes of a verdict to the plan; `held` are the removals that were taken out.
pub fn keep(
    observation: &Observation,
    verdict: Option<&Verdict>,
    held: &[Change],
    plan: &mut Plan,
) {
    let memory = Memory(observation);
    match verdict {
        None => memory.unmark(None, plan),
        Some(verdict) if verdict.state.holds() => remember(observation, Some(verdict), held, plan),
        Some(verdict) => {
            let goes = going(&verdict.passed, plan);
            memory.mark(&memory.passed(verdict), &goes, plan);
        }
    }
}

/// Adds the note of a new loss that is held to the plan, and removes no note.
pub fn remember(
    observation: &Observation,
    verdict: Option<&Verdict>,
    held: &[Change],
    plan: &mut Plan,
) {
    if let Some(verdict) = verdict.filter(|verdict| verdict.state.holds() && verdict.is_new) {
        Memory(observation).mark(&Sighting::of(&verdict.held, observation.now), held, plan);
    }
}

/// The removals that make up a loss.
fn going(losses: &Losses, plan: &Plan) -> Vec<Change> {
    let changes = plan.changes.values().flatten();
    let goes = changes.filter(|change| change.loses().is_some_and(|it| losses.has(it)));
    goes.cloned().collect()
}

struct Memory<'a>(&'a Observation);

impl Memory<'_> {
    /// The note of a loss that is let pass. It stays on the instance that is removed last: if a run is cut short, the
    /// next one finds the note and lets the rest pass too. A confirmed loss is noted as one that was seen for the whole
    /// wait.
    fn passed(&self, verdict: &Verdict) -> Sighting {
        let Observation { now, rules, .. } = self.0;
        let ripe = now.saturating_sub(rules.guard.wait).unwrap_or(*now);
        let first_seen = verdict.first_seen.map_or(ripe, |first_seen| first_seen.min(ripe));
        recall(self.0)
            .filter(|sighting| sighting.first_seen <= ripe)
            .filter(|sighting| verdict.passed.iter().all(|(it, loss)| sighting.has_seen(it, loss)))
            .unwrap_or_else(|| Sighting::of(&verdict.passed, first_seen))
    }

    /// Marks an instance that is held: the one that was marked before, else the first with room for the mark.
    fn mark(&self, sighting: &Sighting, held: &[Change], plan: &mut Plan) {
        let text = sighting.to_string();
        let rooms = held.iter().filter_map(|change| {
            let at = change.instance_key()?;
            let present = self.attributes(&at)?;
            let is_marked = present.contains_key(SIGHTING);
            mark::has_room(present, SIGHTING, &text).then_some((!is_marked, at))
        });
        let at = rooms.min().map(|(_, at)| at);
        if let Some(at) = at.as_ref().filter(|at| self.text(at) != Some(&text)) {
            mark::put(self.0, at, (SIGHTING, Some(&text)), plan);
        }
        self.unmark(at.as_ref(), plan);
    }

    /// Removes the mark from every instance that stays, except one.
    fn unmark(&self, except: Option<&InstanceKey>, plan: &mut Plan) {
        for (at, _) in mark::carriers(self.0, SIGHTING).filter(|(at, _)| Some(at) != except) {
            mark::put(self.0, &at, (SIGHTING, None), plan);
        }
    }

    fn text(&self, at: &InstanceKey) -> Option<&str> {
        self.attributes(at)?.get(SIGHTING)
    }

    fn attributes(&self, at: &InstanceKey) -> Option<&Attributes> {
        self.0.registry.instance(&at.service, &at.id)
    }
}
