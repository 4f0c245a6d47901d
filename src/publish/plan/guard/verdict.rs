//! The verdict of the guard on a loss: held, let pass, or no verdict if the loss is within the limits. The time is a
//! value here, so every case is a row of a table.

use super::judged::Judged;
use super::loss::Losses;
use super::sighting::{Age, Sighting};
use super::status::{GuardStatus, ServiceLoss};
use super::{Basis, Extent, Observation};
use crate::model::{GuardState, ServiceRef, Timestamp};
use crate::publish::plan::unread::instances_unread;

/// The verdict on a loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The reason for the verdict.
    pub state: GuardState,
    /// The Services that keep their instances for now.
    pub held: Losses,
    /// The Services that lose their instances although the limits are exceeded.
    pub passed: Losses,
    /// The instances that the limits were measured on.
    pub instances: usize,
    /// The number of instances that could not be read, if the verdict depends on them.
    pub unread: usize,
    /// The time at which the loss was first seen.
    pub first_seen: Option<Timestamp>,
    /// Whether the sighting is to be stored.
    pub is_new: bool,
}

/// The quantities that a loss is measured on.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// The part of the cluster that the run covers.
    pub extent: Extent,
    /// The number of instances when the run began.
    pub instances: usize,
    /// The number of instances that could not be read.
    pub unread: usize,
}

impl Measure {
    /// All instances of the cluster; in a targeted sync, those of the Services that the sync covers.
    pub fn of(basis: Basis<'_>) -> Self {
        let Basis { observation, holders, affected } = basis;
        let extent = observation.extent;
        let counts = |service: &ServiceRef| extent != Extent::Part || affected.contains(service);
        let marked = observation.all_marked_services().filter(|(_, service)| counts(service));
        let instances = marked.count();
        Self { extent, instances, unread: instances_unread(observation, holders) }
    }

    /// The same as at the first judgement of the run.
    pub fn again(judged: &Judged, basis: Basis<'_>) -> Self {
        let Judged { extent, instances, .. } = *judged;
        Self { extent, instances, unread: instances_unread(basis.observation, basis.holders) }
    }

    /// Whether a loss exceeds the limits. A single Service that was read may lose all its instances.
    pub fn is_past(self, observation: &Observation, losses: &Losses) -> bool {
        let guard = observation.rules.guard;
        let excused = match self.extent {
            Extent::Part => losses.services() <= 1,
            _ => losses.is_of_one_that_was_read(observation),
        };
        guard.is_passed_by(losses.total(), self.instances) && !excused
    }

    /// Whether a loss exceeds the limits, or would if all instances that could not be read were lost too.
    fn may_be_past(self, observation: &Observation, losses: &Losses) -> bool {
        let (lost, unread) = (losses.total(), self.unread);
        let guard = observation.rules.guard;
        let together = guard.is_passed_by(lost + unread, self.instances + unread);
        self.is_past(observation, losses) || lost > 0 && unread > 0 && together
    }

    pub fn judge(
        self,
        observation: &Observation,
        losses: &Losses,
        sighting: Option<&Sighting>,
    ) -> Option<Verdict> {
        match self.extent {
            Extent::Part => self.of_a_part(observation, losses, sighting),
            _ => self.of_everything(observation, losses, sighting),
        }
    }

    /// The verdict on a full sync. If a loss that was seen before is let pass, the rest is judged by itself. Instances
    /// that could not be read may be lost as well: they are added if another loss exists.
    fn of_everything(
        self,
        observation: &Observation,
        losses: &Losses,
        sighting: Option<&Sighting>,
    ) -> Option<Verdict> {
        let instances = self.instances;
        if !self.may_be_past(observation, losses) {
            return None;
        }
        let first_seen = sighting.map(|sighting| sighting.first_seen);
        if self.extent == Extent::Confirmed {
            let passed = Verdict::pass(GuardState::Confirmed, losses, instances);
            return Some(Verdict { first_seen, ..passed });
        }
        let aged = sighting.map(|sighting| (sighting, sighting.age(observation)));
        let (seen, new) = match aged {
            Some((_, Age::Early)) if self.is_past(observation, losses) => {
                return Some(Verdict::hold(
                    GuardState::Held,
                    losses.clone(),
                    instances,
                    first_seen,
                ));
            }
            Some((sighting, Age::Ripe)) => {
                losses.partition(|service, loss| sighting.has_seen(service, loss))
            }
            _ => (Losses::default(), losses.clone()),
        };
        let rest = Self { instances: instances.saturating_sub(seen.total()), ..self };
        if rest.is_past(observation, &new) {
            let held = Verdict::hold(GuardState::Held, new, rest.instances, Some(observation.now));
            return Some(Verdict { passed: seen, is_new: true, ..held });
        }
        if rest.may_be_past(observation, &new) {
            // No sighting: the complete loss is unknown, so a later look could not recognize it.
            let held = Verdict::hold(GuardState::HeldUntilRead, new, rest.instances, None);
            return Some(Verdict { passed: seen, unread: self.unread, ..held });
        }
        Some(Verdict { first_seen, ..Verdict::pass(GuardState::Lifted, losses, instances) })
    }

    /// The verdict on a targeted sync. Several Services together may not exceed the limits. No Service may lose an
    /// instance that a full sync holds, by its sighting or by the message with which it handed on its rest: that run
    /// may have been cut short before it wrote the sighting.
    fn of_a_part(
        self,
        observation: &Observation,
        losses: &Losses,
        sighting: Option<&Sighting>,
    ) -> Option<Verdict> {
        let instances = self.instances;
        if self.is_past(observation, losses) {
            return Some(Verdict::hold(
                GuardState::LeftToFullSync,
                losses.clone(),
                instances,
                None,
            ));
        }
        let sighting = sighting.filter(|sighting| sighting.age(observation) != Age::Stale);
        let (held, _) = losses.partition(|service, _| {
            observation.held.contains(service) || sighting.is_some_and(|it| it.has(service))
        });
        let first_seen = sighting.map(|sighting| sighting.first_seen);
        let verdict = Verdict::hold(GuardState::HeldByFullSync, held, instances, first_seen);
        (verdict.held.services() > 0).then_some(verdict)
    }
}

impl Verdict {
    fn hold(
        state: GuardState,
        held: Losses,
        instances: usize,
        first_seen: Option<Timestamp>,
    ) -> Self {
        let passed = Losses::default();
        Self { state, held, passed, instances, unread: 0, first_seen, is_new: false }
    }

    fn pass(state: GuardState, losses: &Losses, instances: usize) -> Self {
        let (held, passed) = (Losses::default(), losses.clone());
        Self { state, held, passed, instances, unread: 0, first_seen: None, is_new: false }
    }

    /// The verdict in words and numbers.
    pub fn status(&self, observation: &Observation) -> GuardStatus {
        let guard = observation.rules.guard;
        let about = if self.state.holds() { &self.held } else { &self.passed };
        let losses = about.iter().map(|(service, loss)| ServiceLoss {
            service: service.clone(),
            instances: loss.lost,
            was_read: observation.desired.was_read(service),
        });
        GuardStatus {
            state: self.state,
            losses: losses.collect(),
            loss: about.total(),
            instances: self.instances,
            unread: self.unread,
            share: guard.share,
            minimum: guard.minimum,
            first_seen: self.first_seen,
            later_look: self.first_seen.is_some_and(|first_seen| first_seen < observation.now),
            lifts_from: self.first_seen.map(|first_seen| guard.lifts_from(first_seen)),
            cluster: observation.owner.cluster.clone(),
        }
    }
}
