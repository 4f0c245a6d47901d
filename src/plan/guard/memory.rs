//! Where the guard remembers: as a mark on one of the instances that it holds, never on anything of
//! others. The mark is written once while the loss is held, is carried over on a rewrite, and goes when
//! the loss is over or let pass.

use super::sighting::Sighting;
use super::verdict::Verdict;
use crate::model::Attributes;
use crate::model::attributes::SIGHTING;
use crate::plan::mark::{self, InstanceKey};
use crate::plan::{Change, Observation, Plan};

/// What was remembered before.
pub fn recall(observation: &Observation) -> Option<Sighting> {
    let marks = mark::carriers(observation, SIGHTING).filter_map(|(_, text)| Sighting::parse(text));
    marks.min_by_key(|sighting| sighting.first_seen)
}

/// Adds to the plan what a verdict means for the memory; `held` are the removals that were taken out.
pub fn keep(
    observation: &Observation,
    verdict: Option<&Verdict>,
    held: &[Change],
    plan: &mut Plan,
) {
    let memory = Memory(observation);
    match verdict.filter(|verdict| verdict.stand.holds()) {
        // What still waits when the loss is let pass is let pass later, too.
        None if verdict.is_some() && waits(plan) => {}
        None => memory.unmark(None, plan),
        Some(verdict) if verdict.is_new => {
            memory.mark(&Sighting::of(&verdict.held, observation.now), held, plan);
        }
        Some(_) => {}
    }
}

fn waits(plan: &Plan) -> bool {
    let mut changes = plan.changes.values().flatten();
    changes.any(|change| matches!(change, Change::Deregister { waits_for: Some(_), .. }))
}

struct Memory<'a>(&'a Observation);

impl Memory<'_> {
    /// Marks an instance that is held: the one that was marked before, else the first that has room.
    fn mark(&self, sighting: &Sighting, held: &[Change], plan: &mut Plan) {
        let text = sighting.to_string();
        let rooms = held.iter().filter_map(|change| {
            let at = (change.place().key.clone(), change.instance()?.to_owned());
            let present = self.attributes(&at)?;
            let is_marked = present.contains_key(SIGHTING);
            mark::has_room(present, SIGHTING, &text).then_some((!is_marked, at))
        });
        let at = rooms.min().map(|(_, at)| at);
        if let Some(at) = &at {
            mark::put(self.0, at, (SIGHTING, Some(&text)), plan);
        }
        self.unmark(at.as_ref(), plan);
    }

    /// Takes the mark off every instance that stays, but for one.
    fn unmark(&self, except: Option<&InstanceKey>, plan: &mut Plan) {
        for (at, _) in mark::carriers(self.0, SIGHTING).filter(|(at, _)| Some(at) != except) {
            mark::put(self.0, &at, (SIGHTING, None), plan);
        }
    }

    fn attributes(&self, (key, id): &InstanceKey) -> Option<&Attributes> {
        self.0.registry.instance(key, id)
    }
}
