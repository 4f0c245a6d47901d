//! The rules of the guard against mass deletion, for instances and for imports: the limits of a loss ([`Guard`], from
//! the settings), the loss of each name ([`Losses`]), the loss that an earlier run saw (`sighting`), and the verdict
//! ([`LossBase::judge`]) with its sentence (`status`).
//!
//! The module is pure and knows no changes: `publish::plan` counts the instances that a plan would deregister, `import`
//! counts the endpoints that would leave the imports, and each takes the held removals out of its own plan. The time is
//! a parameter, so tests can check every rule with a table of cases.

mod sighting;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{ClusterArn, GuardState, Selection, ServiceRef, Timestamp};

pub use crate::model::Guard;
pub use sighting::{Age, Sighting, SightingNote, Sightings};
pub use status::{GuardStatus, LossSubject};

/// The part of a cluster that a plan covers. It decides which rules of the guard apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The whole cluster: a full sync.
    Everything,
    /// The whole cluster, and a person has confirmed every loss.
    Confirmed,
    /// The Services that a payload names: a targeted sync.
    Part,
}

impl Extent {
    /// Returns the extent of a run over `selection`. `is_confirmed`: a person has confirmed the losses of a full sync.
    pub fn of(selection: &Selection, is_confirmed: bool) -> Self {
        match selection {
            Selection::Everything if is_confirmed => Self::Confirmed,
            Selection::Everything => Self::Everything,
            Selection::Only { .. } => Self::Part,
        }
    }

    pub fn is_full_sync(self) -> bool {
        matches!(self, Self::Everything | Self::Confirmed)
    }
}

/// The circumstances of a run that a verdict depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circumstances {
    pub guard: Guard,
    pub now: Timestamp,
    /// The cluster whose loss is judged.
    pub cluster: ClusterArn,
    /// Whether the cluster would lose instances or imported endpoints.
    pub subject: LossSubject,
}

/// The loss of one Service or import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// The number of instances or endpoints lost.
    pub lost: usize,
    /// The number of instances or endpoints left.
    pub left: usize,
    /// Whether this run read that the Service or import still exists. If so, the loss is not caused by a failed read.
    pub was_read: bool,
    /// Whether an instance or the ServiceImport of the name has room for the guard's note. For instances, only a
    /// targeted sync checks this.
    pub has_room: bool,
}

/// The loss of each Service or import that would lose something.
pub type Losses = BTreeMap<ServiceRef, Loss>;

/// Returns the number of instances or endpoints that all names lose together.
pub fn total(losses: &Losses) -> usize {
    losses.values().map(|loss| loss.lost).sum()
}

/// Whether exactly one name loses something, and this run has read its Service or import. A failed read is then not the
/// cause of the loss.
fn is_single_and_read(losses: &Losses) -> bool {
    losses.len() == 1 && losses.values().all(|loss| loss.was_read)
}

/// The verdict on a loss.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Verdict {
    /// The reason for the verdict.
    pub state: GuardState,
    /// The held losses: the names keep these instances for now.
    pub held: Losses,
    /// The losses that pass although they exceed the limits. If a name would lose more than an earlier run saw, the
    /// part that was seen passes, and the rest is held.
    pub passed: Losses,
    /// The number of instances that the limits were applied to.
    pub instances: usize,
    /// The number of instances that could not be read, if the verdict depends on them.
    pub unread: usize,
    /// When the most recent of the held losses was first seen, or of the passed losses if none is held. `None` if no
    /// sighting counts.
    pub first_seen: Option<Timestamp>,
    /// The held names whose loss no earlier run has seen. This run writes a note about each.
    pub new: BTreeSet<ServiceRef>,
}

/// The quantities that a loss is measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossBase {
    /// The part of the cluster that the run covers.
    pub extent: Extent,
    /// The number of instances when the run began.
    pub instances: usize,
    /// The number of instances that could not be read.
    pub unread: usize,
    /// In a targeted sync: whether a part of Cloud Map was read only by an earlier run. A note may have been written
    /// there since.
    pub has_earlier_reads: bool,
}

impl LossBase {
    /// Whether a loss exceeds the limits. A single name may lose everything: in a full sync only if this run read it.
    pub fn exceeds_limits(self, run: &Circumstances, losses: &Losses) -> bool {
        let excused = match self.extent {
            Extent::Part => losses.len() <= 1,
            _ => is_single_and_read(losses),
        };
        run.guard.is_exceeded_by(total(losses), self.instances) && !excused
    }

    /// Whether a loss exceeds the limits, or would if all instances that could not be read were lost too.
    fn may_exceed_limits(self, run: &Circumstances, losses: &Losses) -> bool {
        let lost = total(losses);
        let unread = self.unread;
        let together = run.guard.is_exceeded_by(lost + unread, self.instances + unread);
        self.exceeds_limits(run, losses) || lost > 0 && unread > 0 && together
    }

    /// Returns the verdict on a loss; `None` if the guard has nothing to hold or report. In a full sync, the part of a
    /// loss that an earlier run saw passes once the wait is over, and the rest is judged separately. Instances that
    /// could not be read may be lost too, so they count if there is any other loss.
    pub fn judge(
        self,
        run: &Circumstances,
        losses: &Losses,
        sightings: &Sightings,
    ) -> Option<Verdict> {
        if self.extent == Extent::Part {
            return self.judge_targeted_sync(run, losses, sightings);
        }
        if !self.may_exceed_limits(run, losses) {
            return None;
        }
        let instances = self.instances;
        let last_seen = |of: &Losses| {
            let seen = of.keys().filter_map(|service| sightings.get(service));
            seen.map(|sighting| sighting.first_seen).max()
        };
        if self.extent == Extent::Confirmed {
            let first_seen = last_seen(losses);
            return Some(Verdict::new(
                GuardState::Confirmed,
                losses.clone(),
                instances,
                first_seen,
            ));
        }
        let mut passed = Losses::new();
        let mut rest = Losses::new();
        for (service, loss) in losses {
            let sighting = sightings.get(service);
            let ripe = sighting.filter(|sighting| sighting.age(run.guard, run.now) == Age::Ripe);
            let passes = ripe.map_or(0, |sighting| sighting.passing_part(*loss));
            if passes > 0 {
                let left = loss.left + loss.lost - passes;
                passed.insert(service.clone(), Loss { lost: passes, left, ..*loss });
            }
            if passes < loss.lost {
                rest.insert(service.clone(), Loss { lost: loss.lost - passes, ..*loss });
            }
        }
        let base_of_rest = Self { instances: instances.saturating_sub(total(&passed)), ..self };
        if base_of_rest.exceeds_limits(run, &rest) {
            let is_early = |service: &&ServiceRef| {
                let sighting = sightings.get(*service);
                sighting.is_some_and(|sighting| sighting.age(run.guard, run.now) == Age::Early)
            };
            let new: BTreeSet<ServiceRef> =
                rest.keys().filter(|service| !is_early(service)).cloned().collect();
            let first_seen = if new.is_empty() { last_seen(&rest) } else { Some(run.now) };
            let held = Verdict::new(GuardState::Held, rest, base_of_rest.instances, first_seen);
            return Some(Verdict { passed, new, ..held });
        }
        if base_of_rest.may_exceed_limits(run, &rest) {
            // The loss gets no note: a part of it is unknown, so a later run could not recognize it.
            let held = Verdict::new(GuardState::HeldUntilRead, rest, base_of_rest.instances, None);
            return Some(Verdict { passed, unread: self.unread, ..held });
        }
        Some(Verdict::new(GuardState::Lifted, losses.clone(), instances, last_seen(losses)))
    }

    /// Returns the verdict on the loss of a targeted sync. Several Services together may not exceed the limits. A
    /// Service may lose nothing while a note says that a full sync holds its loss, or if no instance of the Service has
    /// room for a note. Every loss is left to the full sync if this run relies on an earlier run's read of a part of
    /// Cloud Map.
    ///
    /// The limits alone are not enough: if a full sync holds the loss of 200 Services, 200 messages, each about one of
    /// them, would carry the loss out, because a message about a single Service may remove all its instances.
    fn judge_targeted_sync(
        self,
        run: &Circumstances,
        losses: &Losses,
        sightings: &Sightings,
    ) -> Option<Verdict> {
        let instances = self.instances;
        if self.exceeds_limits(run, losses) || self.has_earlier_reads && total(losses) > 0 {
            return Some(Verdict::new(GuardState::LeftToFullSync, losses.clone(), instances, None));
        }
        let mut held = losses.clone();
        held.retain(|service, loss| {
            let sighting = sightings.get(service);
            let is_noted =
                sighting.is_some_and(|sighting| sighting.age(run.guard, run.now) != Age::Stale);
            !loss.has_room || is_noted
        });
        let seen = held.keys().filter_map(|service| sightings.get(service));
        let first_seen = seen.map(|sighting| sighting.first_seen).max();
        let verdict = Verdict::new(GuardState::HeldByFullSync, held, instances, first_seen);
        (!verdict.held.is_empty()).then_some(verdict)
    }
}

impl Verdict {
    fn new(
        state: GuardState,
        losses: Losses,
        instances: usize,
        first_seen: Option<Timestamp>,
    ) -> Self {
        let none = Losses::default();
        let (held, passed) = if state.holds() { (losses, none) } else { (none, losses) };
        Self { state, held, passed, instances, unread: 0, first_seen, new: BTreeSet::new() }
    }

    /// Returns the losses that the state is about: the held ones, or the passed ones if the guard holds nothing.
    pub fn losses(&self) -> &Losses {
        if self.state.holds() { &self.held } else { &self.passed }
    }

    /// Returns the verdict in the form that people read.
    pub fn status(self, run: Circumstances) -> GuardStatus {
        GuardStatus { run, verdict: self, without_note: BTreeSet::new() }
    }
}
