//! The rules of the guard against mass deletion, for both flows: the limits of a loss ([`Guard`], from the settings),
//! the loss of each name ([`Losses`]), the memory of a loss as one line of text ([`Sighting`]), and the verdict
//! ([`Measure::judge`]) with its sentence ([`GuardStatus`]). Pure, and without a word about changes: `publish::plan`
//! counts the instances that a plan would deregister, `import` the endpoints that would leave the imports, and each
//! takes the held ones out of its plan. The time is a value here, so every case is a row of a table.

mod sighting;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::model::{ClusterArn, GuardState, ServiceRef, Timestamp};

pub use crate::model::Guard;

pub use sighting::{Age, Sighting};
pub use status::{GuardStatus, LossSubject};

/// The part of a cluster that a plan covers; it decides the rules of the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The whole cluster: a full sync.
    Everything,
    /// The whole cluster, and a person has confirmed every loss.
    Confirmed,
    /// The Services that an event names.
    Part,
    /// The changes that a judged plan has left open.
    Remainder,
}

impl Extent {
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Everything | Self::Confirmed)
    }
}

/// The circumstances of a run that a verdict depends on.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    pub guard: Guard,
    pub now: Timestamp,
    /// The cluster that would lose something.
    pub cluster: &'a ClusterArn,
    /// What it would lose.
    pub subject: LossSubject,
}

/// The loss of one Service or import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// The number of instances or endpoints lost.
    pub lost: usize,
    /// The number of those left.
    pub left: usize,
    /// Whether this run read that the name itself still stands, so that its loss is no accident of a read.
    pub was_read: bool,
    /// Whether the first look of this run held the loss of the name.
    pub was_held: bool,
}

/// Every Service or import that would lose something.
pub type Losses = BTreeMap<ServiceRef, Loss>;

/// The number lost by all together.
pub fn total(losses: &Losses) -> usize {
    losses.values().map(|loss| loss.lost).sum()
}

/// Whether a single name loses something and was itself read in this run. Then a read error is not the cause, and
/// no other name is concerned.
fn is_of_one_that_was_read(losses: &Losses) -> bool {
    losses.len() == 1 && losses.values().all(|loss| loss.was_read)
}

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// The part of the cluster that the run covers.
    pub extent: Extent,
    /// The number of instances when the run began.
    pub instances: usize,
    /// The number of instances that could not be read.
    pub unread: usize,
    /// In a targeted sync: whether a full sync may have stored a sighting that was not read.
    pub may_be_noted: bool,
}

impl Measure {
    /// Whether a loss exceeds the limits. A single Service that was read may lose all its instances.
    pub fn is_past(self, run: &Circumstances<'_>, losses: &Losses) -> bool {
        let guard = run.guard;
        let excused = match self.extent {
            Extent::Part => losses.len() <= 1,
            _ => is_of_one_that_was_read(losses),
        };
        guard.is_passed_by(total(losses), self.instances) && !excused
    }

    /// Whether a loss exceeds the limits, or would if all instances that could not be read were lost too.
    fn may_be_past(self, run: &Circumstances<'_>, losses: &Losses) -> bool {
        let (lost, unread) = (total(losses), self.unread);
        let guard = run.guard;
        let together = guard.is_passed_by(lost + unread, self.instances + unread);
        self.is_past(run, losses) || lost > 0 && unread > 0 && together
    }

    pub fn judge(
        self,
        run: &Circumstances<'_>,
        losses: &Losses,
        sighting: Option<&Sighting>,
    ) -> Option<Verdict> {
        match self.extent {
            Extent::Part => self.of_a_part(run, losses, sighting),
            _ => self.of_everything(run, losses, sighting),
        }
    }

    /// The verdict on a full sync. If a loss that was seen before is let pass, the rest is judged by itself. Instances
    /// that could not be read may be lost as well: they are added if another loss exists.
    fn of_everything(
        self,
        run: &Circumstances<'_>,
        losses: &Losses,
        sighting: Option<&Sighting>,
    ) -> Option<Verdict> {
        let instances = self.instances;
        if !self.may_be_past(run, losses) {
            return None;
        }
        let first_seen = sighting.map(|sighting| sighting.first_seen);
        if self.extent == Extent::Confirmed {
            let passed = Verdict::pass(GuardState::Confirmed, losses, instances);
            return Some(Verdict { first_seen, ..passed });
        }
        let aged = sighting.map(|sighting| (sighting, sighting.age(run.guard, run.now)));
        let (seen, new) = match aged {
            Some((_, Age::Early)) if self.is_past(run, losses) => {
                let losses = losses.clone();
                return Some(Verdict::hold(GuardState::Held, losses, instances, first_seen));
            }
            Some((sighting, Age::Ripe)) => losses
                .clone()
                .into_iter()
                .partition(|(service, loss)| sighting.has_seen(service, *loss)),
            _ => (Losses::default(), losses.clone()),
        };
        let rest = Self { instances: instances.saturating_sub(total(&seen)), ..self };
        if rest.is_past(run, &new) {
            let held = Verdict::hold(GuardState::Held, new, rest.instances, Some(run.now));
            return Some(Verdict { passed: seen, is_new: true, ..held });
        }
        if rest.may_be_past(run, &new) {
            // No sighting: the complete loss is unknown, so a later look could not recognize it.
            let held = Verdict::hold(GuardState::HeldUntilRead, new, rest.instances, None);
            return Some(Verdict { passed: seen, unread: self.unread, ..held });
        }
        Some(Verdict { first_seen, ..Verdict::pass(GuardState::Lifted, losses, instances) })
    }

    /// The verdict on a targeted sync. Several Services together may not exceed the limits. No Service may lose an
    /// instance that a full sync holds, by its sighting or in this run, which may not have written it yet.
    ///
    /// The limits alone are not enough: if a full sync holds the loss of 200 Services, 200 messages about one of them each
    /// would carry it out, since a message about a single Service may remove all that it has.
    fn of_a_part(
        self,
        run: &Circumstances<'_>,
        losses: &Losses,
        sighting: Option<&Sighting>,
    ) -> Option<Verdict> {
        let instances = self.instances;
        if self.is_past(run, losses) || self.may_be_noted && total(losses) > 0 {
            let losses = losses.clone();
            return Some(Verdict::hold(GuardState::LeftToFullSync, losses, instances, None));
        }
        let sighting = sighting.filter(|sighting| sighting.age(run.guard, run.now) != Age::Stale);
        let mut held = losses.clone();
        held.retain(|service, loss| loss.was_held || sighting.is_some_and(|it| it.has(service)));
        let first_seen = sighting.map(|sighting| sighting.first_seen);
        let verdict = Verdict::hold(GuardState::HeldByFullSync, held, instances, first_seen);
        (!verdict.held.is_empty()).then_some(verdict)
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
    pub fn status(&self, run: &Circumstances<'_>) -> GuardStatus {
        let about = if self.state.holds() { &self.held } else { &self.passed };
        GuardStatus {
            subject: run.subject,
            state: self.state,
            losses: about.clone(),
            instances: self.instances,
            unread: self.unread,
            guard: run.guard,
            first_seen: self.first_seen,
            later_look: self.first_seen.is_some_and(|first_seen| first_seen < run.now),
            cluster: run.cluster.clone(),
            no_note: None,
        }
    }
}
