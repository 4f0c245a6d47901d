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

use std::collections::BTreeMap;
use std::sync::Arc;

use super::unread::instances_unread;
use super::{Basis, Change, HeldBack, Holders, Observation, Place, Plan, Reason, mark};
use crate::guard::{Age, Circumstances, Extent, Guard, GuardStatus, Losses, Measure, Subject};
use crate::model::{ClusterArn, ServiceRef, Timestamp};
use loss::{Offset, losses};

pub use judged::Judged;

impl Circumstances for Observation {
    fn guard(&self) -> Guard {
        self.rules.guard
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn cluster(&self) -> &ClusterArn {
        &self.owner.cluster
    }

    fn subject(&self) -> Subject {
        Subject::Instances
    }

    fn was_read(&self, service: &ServiceRef) -> bool {
        self.desired.was_read(service)
    }
}

/// All instances of the cluster; in a targeted sync, those of the Services that the sync covers.
fn measure(basis: Basis<'_>) -> Measure {
    let Basis { observation, holders, affected } = basis;
    let extent = observation.extent;
    let counts = |service: &ServiceRef| extent != Extent::Part || affected.contains(service);
    let marked = observation.all_marked_services().filter(|(_, service)| counts(service));
    let instances = marked.count();
    Measure { extent, instances, unread: instances_unread(observation, holders) }
}

/// The same as at the first judgement of the run.
fn again(judged: &Judged, basis: Basis<'_>) -> Measure {
    let Judged { extent, instances, .. } = *judged;
    Measure { extent, instances, unread: instances_unread(basis.observation, basis.holders) }
}

/// Takes the removals that the guard holds out of a finished plan, and adds the reason.
pub fn restrain(basis: Basis<'_>, plan: &mut Plan) {
    let observation = basis.observation;
    let judged = observation.judged.as_deref();
    let (measure, losses, sighting) = match (observation.extent, judged) {
        (Extent::Remainder, None) => return,
        (Extent::Remainder, Some(judged)) => {
            let losses = losses(observation, plan, Offset::Registered(&judged.before));
            (again(judged, basis), losses, judged.sighting.clone())
        }
        _ => {
            let losses = losses(observation, plan, Offset::Planned);
            (measure(basis), losses, memory::recall(observation))
        }
    };
    let verdict = measure.judge(observation, &losses, sighting.as_ref());
    let held = verdict.as_ref().map(|verdict| take_out(&verdict.held, plan)).unwrap_or_default();
    // A run that read only a part does not remove the note.
    let forgets = measure.unread == 0 || verdict.as_ref().is_some_and(|verdict| verdict.is_new);
    let is_noted = match (measure.extent, observation.extent) {
        (Extent::Part, _) => true,
        (_, Extent::Remainder) => memory::remember(observation, verdict.as_ref(), &held, plan),
        // The second judgement of this run may hold the noted loss.
        _ if verdict.is_none() && Judged::of(basis, plan).is_some() => true,
        _ if forgets => memory::keep(observation, verdict.as_ref(), &held, plan),
        _ => true,
    };
    if let Some(verdict) = verdict {
        let status = verdict.status(observation);
        let status =
            if is_noted { status } else { status.without_note(mark::unreadable(observation)) };
        let status = Arc::new(status);
        hold_back(&held, &status, plan);
        plan.guard = Some(status);
    }
}

/// Whether a plan would lose instances, so that the removals held by a full sync matter.
pub fn would_lose(basis: Basis<'_>) -> bool {
    let unjudged = Observation { extent: Extent::Remainder, ..basis.observation.clone() };
    let plan = super::plan(Basis { observation: &unjudged, ..basis });
    losses(basis.observation, &plan, Offset::Planned).services() > 0
}

/// Whether everything was read and no instance carries a sighting.
pub fn is_quiet(observation: &Observation, holders: &Holders) -> bool {
    memory::recall(observation).is_none() && instances_unread(observation, holders) == 0
}

/// Whether a full sync holds the instances of a Service, as far as its note was read.
pub fn holds(observation: &Observation, service: &ServiceRef) -> bool {
    let sighting = memory::recall(observation);
    sighting.is_some_and(|it| {
        it.age(observation.rules.guard, observation.now) != Age::Stale && it.has(service)
    })
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
