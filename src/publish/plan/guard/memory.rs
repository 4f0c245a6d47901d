//! The memory of the guard: a note on one of the instances that it holds, or if none has room on something else of ours
//! (`mark`), never on anything of another owner. The note is written once while the loss is held, is carried over on a
//! rewrite, and is removed when the loss is over or let pass.

use crate::guard::{Losses, Sighting, Verdict};
use crate::model::attributes::SIGHTING;
use crate::publish::plan::mark::{self, NotePlace};
use crate::publish::plan::{Change, Observation, Plan};

/// The sighting that an earlier run stored.
pub fn recall(observation: &Observation) -> Option<Sighting> {
    let marks = mark::carriers(observation, SIGHTING).filter_map(|(_, text)| Sighting::parse(text));
    marks.min_by_key(|sighting| sighting.first_seen)
}

/// Adds the note changes of a verdict to the plan; `held` are the removals that were taken out. Returns false if a new
/// loss that is held has no place for its note.
pub fn keep(
    observation: &Observation,
    verdict: Option<&Verdict>,
    held: &[Change],
    plan: &mut Plan,
) -> bool {
    let memory = Memory(observation);
    match verdict {
        None => memory.unmark(None, plan),
        Some(verdict) if verdict.state.holds() => {
            return remember(observation, Some(verdict), held, plan);
        }
        Some(verdict) => {
            let goes = going(&verdict.passed, plan);
            // On a Cloud Map service it would outlast the instances, so there it is removed after them.
            let is_instance = |at: &NotePlace| matches!(at, NotePlace::Instance(_));
            memory.mark(&memory.passed(verdict), &goes, is_instance, plan);
        }
    }
    true
}

/// Adds the note of a new loss that is held to the plan, and removes no note. Returns false if there is no place for it.
pub fn remember(
    observation: &Observation,
    verdict: Option<&Verdict>,
    held: &[Change],
    plan: &mut Plan,
) -> bool {
    let new = verdict.filter(|verdict| verdict.state.holds() && verdict.is_new);
    new.is_none_or(|verdict| {
        let sighting = Sighting::of(&verdict.held, observation.now);
        Memory(observation).mark(&sighting, held, |_| true, plan)
    })
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

    /// Writes the note: on the instance that had it before, else on the first held one with room for it, else elsewhere.
    /// Returns false if there is no place for it.
    fn mark(
        &self,
        sighting: &Sighting,
        held: &[Change],
        may_be_at: impl Fn(&NotePlace) -> bool,
        plan: &mut Plan,
    ) -> bool {
        let text = sighting.to_string();
        let held = held.iter().filter_map(Change::instance_key);
        let at = mark::place_for(self.0, (SIGHTING, &text), held, plan).filter(may_be_at);
        let mut noted = mark::carriers(self.0, SIGHTING);
        let is_noted = noted.any(|(place, noted)| Some(&place) == at.as_ref() && noted == text);
        if let Some(at) = at.as_ref().filter(|_| !is_noted) {
            mark::put(self.0, at, (SIGHTING, Some(&text)), plan);
        }
        self.unmark(at.as_ref(), plan);
        at.is_some()
    }

    /// Removes the note from every place but one.
    fn unmark(&self, except: Option<&NotePlace>, plan: &mut Plan) {
        for (at, _) in mark::carriers(self.0, SIGHTING).filter(|(at, _)| Some(at) != except) {
            mark::put(self.0, &at, (SIGHTING, None), plan);
        }
    }
}
