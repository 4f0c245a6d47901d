//! The guard against mass deletion. If a full sync would lose most of a cluster's instances at once, the cause may be
//! an accident: the instances of the losing Services stay, and all other changes are made, until a later full sync sees
//! the same loss or a person confirms it.
//!
//! ```text
//! changes ──> loss (per Service) ─────────┐
//! registry ─> memory (the sighting) ──────┴─> verdict ─> the plan without the held removals
//!                                                └─────> memory (remember or forget)
//! ```
//!
//! The plan of a run is judged. If the verdict depends on registrations, the plan is judged once more between the pass
//! that adds and the pass that removes (`judged`). Removals that only the second look finds are not made in that run,
//! since only announced removals are.

mod judged;
mod loss;
mod memory;
mod sighting;
mod status;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::unread::instances_unread;
use super::{Basis, Change, HeldBack, Holders, Observation, Place, Plan, Reason};
use crate::model::{ServiceRef, SignedDuration};
use loss::{Losses, Offset};
use verdict::Measure;

pub use judged::Judged;
pub use status::{GuardStatus, ServiceLoss};

/// `GUARD_SHARE`, `GUARD_MINIMUM`, `GUARD_WAIT` and `SCHEDULE_MINUTES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// A loss of up to this percentage of a cluster's instances is let pass.
    pub share: u8,
    /// A loss of up to this number of instances is let pass.
    pub minimum: usize,
    /// A loss that is seen again after this time is let pass.
    pub wait: SignedDuration,
    /// The longest time between two full syncs of the schedule.
    pub period: SignedDuration,
}

impl Default for Guard {
    fn default() -> Self {
        let (wait, period) = (SignedDuration::from_mins(10), SignedDuration::from_mins(1));
        Self { share: 50, minimum: 10, wait, period }
    }
}

impl Guard {
    /// Whether a loss is past both limits.
    fn is_passed_by(self, lost: usize, instances: usize) -> bool {
        lost > self.minimum && lost * 100 > usize::from(self.share) * instances
    }
}

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

/// Takes the removals that the guard holds out of a finished plan, and adds the reason.
pub fn restrain(basis: Basis<'_>, plan: &mut Plan) {
    let observation = basis.observation;
    let judged = observation.judged.as_deref();
    let (measure, losses, sighting) = match (observation.extent, judged) {
        (Extent::Remainder, None) => return,
        (Extent::Remainder, Some(judged)) => {
            let losses = Losses::of(observation, plan, Offset::Registered(&judged.before));
            (Measure::again(judged, basis), losses, judged.sighting.clone())
        }
        _ => {
            let losses = Losses::of(observation, plan, Offset::Planned);
            (Measure::of(basis), losses, memory::recall(observation))
        }
    };
    let verdict = measure.judge(observation, &losses, sighting.as_ref());
    let held = verdict.as_ref().map(|verdict| take_out(&verdict.held, plan)).unwrap_or_default();
    // A run that read only a part does not remove the note.
    let forgets = measure.unread == 0 || verdict.as_ref().is_some_and(|verdict| verdict.is_new);
    match (measure.extent, observation.extent) {
        (Extent::Part, _) => {}
        (_, Extent::Remainder) => memory::remember(observation, verdict.as_ref(), &held, plan),
        // The second judgement of this run may hold the noted loss.
        _ if verdict.is_none() && Judged::of(basis, plan).is_some() => {}
        _ if forgets => memory::keep(observation, verdict.as_ref(), &held, plan),
        _ => {}
    }
    if let Some(verdict) = verdict {
        let status = Arc::new(verdict.status(observation));
        hold_back(&held, &status, plan);
        plan.guard = Some(status);
    }
}

/// Whether a plan would lose instances, so that the removals held by a full sync matter.
pub fn would_lose(basis: Basis<'_>) -> bool {
    let unjudged = Observation { extent: Extent::Remainder, ..basis.observation.clone() };
    let plan = super::plan(Basis { observation: &unjudged, ..basis });
    Losses::of(basis.observation, &plan, Offset::Planned).services() > 0
}

/// Whether everything was read and no instance carries a sighting.
pub fn is_quiet(observation: &Observation, holders: &Holders) -> bool {
    memory::recall(observation).is_none() && instances_unread(observation, holders) == 0
}

/// Whether a full sync holds the instances of a Service, as far as its note was read.
pub fn holds(observation: &Observation, service: &ServiceRef) -> bool {
    let sighting = memory::recall(observation);
    sighting.is_some_and(|it| it.age(observation) != sighting::Age::Stale && it.has(service))
}

/// Takes the removals of the Services that are held out of the plan.
fn take_out(held: &Losses, plan: &mut Plan) -> Vec<Change> {
    let is_held = |change: &mut Change| change.loses().is_some_and(|service| held.has(service));
    let changes = plan.changes.values_mut();
    changes.flat_map(|changes| changes.extract_if(.., is_held)).collect()
}

/// One line for each Service and Cloud Map service.
fn hold_back(held: &[Change], status: &Arc<GuardStatus>, plan: &mut Plan) {
    let mut stay: BTreeMap<(ServiceRef, Place), usize> = BTreeMap::new();
    for change in held {
        if let Some(service) = change.loses() {
            *stay.entry((service.clone(), change.place().clone())).or_default() += 1;
        }
    }
    plan.held_back.extend(stay.into_iter().map(|((service, place), instances)| {
        let reason = Reason::Guard { instances, status: status.clone() };
        HeldBack { service, place: Some(place), reason }
    }));
}
