//! What the guard says to a loss: held, let pass, or nothing at all. The time is a value here, so every
//! case is a row of a table.

use std::collections::BTreeSet;

use super::loss::{Losses, ours};
use super::sighting::{Age, Sighting};
use super::told::{Losing, Stand, Told};
use super::{Extent, Observation};
use crate::model::{ServiceRef, Timestamp};

/// What becomes of a loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Why.
    pub stand: Stand,
    /// Who keeps its instances for now.
    pub held: Losses,
    /// Who loses them, though that is past the limits.
    pub passed: Losses,
    /// The instances that the limits were measured on.
    pub instances: usize,
    /// When the loss was first seen.
    pub first_seen: Option<Timestamp>,
    /// Whether that is to be remembered.
    pub is_new: bool,
}

/// What a full sync may lose. Where a loss that was seen before is let pass, the rest is judged by
/// itself.
pub fn of_everything(
    observation: &Observation,
    losses: &Losses,
    sighting: Option<&Sighting>,
) -> Option<Verdict> {
    let instances = ours(observation).count();
    if !is_past(observation, losses, instances) {
        return None;
    }
    if observation.extent == Extent::Confirmed {
        return Some(Verdict::pass(Stand::Confirmed, losses, instances));
    }
    let now = Some(observation.now);
    match sighting.map(|sighting| (sighting, sighting.age(observation))) {
        None | Some((_, Age::Stale)) => {
            let held = Verdict::hold(Stand::Held, losses.clone(), instances, now);
            Some(Verdict { is_new: true, ..held })
        }
        Some((sighting, Age::Early)) => {
            let first_seen = Some(sighting.first_seen);
            Some(Verdict::hold(Stand::Held, losses.clone(), instances, first_seen))
        }
        Some((sighting, Age::Ripe)) => {
            let (seen, new) = losses.partition(|service, loss| sighting.has_seen(service, loss));
            let rest = instances - seen.total();
            if is_past(observation, &new, rest) {
                let held = Verdict::hold(Stand::Held, new, rest, now);
                return Some(Verdict { passed: seen, is_new: true, ..held });
            }
            let first_seen = Some(sighting.first_seen);
            Some(Verdict { first_seen, ..Verdict::pass(Stand::Lifted, losses, instances) })
        }
    }
}

/// What a targeted sync may lose: of several Services together nothing that is past the limits,
/// measured on the Services that it is about, and nothing that a full sync holds.
pub fn of_a_part(
    observation: &Observation,
    affected: &BTreeSet<ServiceRef>,
    losses: &Losses,
    sighting: Option<&Sighting>,
) -> Option<Verdict> {
    let instances = ours(observation).filter(|service| affected.contains(service)).count();
    let past = observation.rules.guard.is_passed_by(losses.total(), instances);
    if past && losses.services() > 1 {
        return Some(Verdict::hold(Stand::LeftToFullSync, losses.clone(), instances, None));
    }
    let sighting = sighting.filter(|sighting| sighting.age(observation) != Age::Stale)?;
    let (held, _) = losses.partition(|service, _| sighting.has(service));
    let first_seen = Some(sighting.first_seen);
    let verdict = Verdict::hold(Stand::HeldByFullSync, held, instances, first_seen);
    (verdict.held.services() > 0).then_some(verdict)
}

fn is_past(observation: &Observation, losses: &Losses, instances: usize) -> bool {
    observation.rules.guard.is_passed_by(losses.total(), instances)
        && !losses.is_of_one_that_was_read(observation)
}

impl Verdict {
    fn hold(stand: Stand, held: Losses, instances: usize, first_seen: Option<Timestamp>) -> Self {
        Self { stand, held, passed: Losses::default(), instances, first_seen, is_new: false }
    }

    fn pass(stand: Stand, losses: &Losses, instances: usize) -> Self {
        let (held, passed) = (Losses::default(), losses.clone());
        Self { stand, held, passed, instances, first_seen: None, is_new: false }
    }

    /// The verdict in words and numbers.
    pub fn told(&self, observation: &Observation) -> Told {
        let guard = observation.rules.guard;
        let about = if self.stand.holds() { &self.held } else { &self.passed };
        let losing = about.iter().map(|(service, loss)| Losing {
            service: service.clone(),
            instances: loss.lost,
            was_read: observation.desired.was_read(service),
        });
        Told {
            stand: self.stand,
            losing: losing.collect(),
            loss: about.total(),
            instances: self.instances,
            share: guard.share,
            minimum: guard.minimum,
            first_seen: self.first_seen,
            later_look: self.first_seen.is_some_and(|first_seen| first_seen < observation.now),
            lifts_from: self.first_seen.map(|first_seen| guard.lifts_from(first_seen)),
            cluster: observation.owner.cluster.clone(),
        }
    }
}
