//! The guard against mass deletion. A full sync that would lose most of a cluster's instances at once
//! may be looking at an accident: what the losing Services have stays, and everything else goes on,
//! until a later look sees the same loss or somebody confirms it.
//!
//! ```text
//! changes ──> loss (who loses how much) ──┐
//! registry ─> memory (the sighting) ──────┴─> verdict ─> the plan without what is held
//!                                                └─────> memory (remember or forget)
//! ```
//!
//! Only the first plan of a run is judged. What a second look finds besides is not taken out in that
//! run anyhow, since only announced removals are.

mod loss;
mod memory;
mod sighting;
mod told;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Change, HeldBack, Observation, Place, Plan, Reason};
use crate::model::{ServiceRef, SignedDuration};
use loss::Losses;

pub use told::{Losing, Stand, Told};

/// `GUARD_SHARE`, `GUARD_MINIMUM` and `GUARD_WAIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// A loss of up to so many per cent of a cluster's instances is let pass.
    pub share: u8,
    /// A loss of up to so many instances is let pass.
    pub minimum: usize,
    /// A loss that is seen again after this time is let pass.
    pub wait: SignedDuration,
}

impl Default for Guard {
    fn default() -> Self {
        Self { share: 50, minimum: 10, wait: SignedDuration::from_mins(10) }
    }
}

impl Guard {
    /// Whether a loss is past both limits.
    fn is_passed_by(self, lost: usize, instances: usize) -> bool {
        lost > self.minimum && lost * 100 > usize::from(self.share) * instances
    }
}

/// How much of a cluster a plan is about, and so what the guard has to say to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it: a full sync.
    Everything,
    /// All of it, and somebody has confirmed whatever is lost.
    Confirmed,
    /// What an event names.
    Part,
    /// What a plan that was judged already has left open.
    Again,
}

impl Extent {
    /// Whether the plan is about all of a cluster.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Everything | Self::Confirmed)
    }
}

/// Takes out of a finished plan the removals that the guard holds, and says so.
pub fn restrain(observation: &Observation, affected: &BTreeSet<ServiceRef>, plan: &mut Plan) {
    if observation.extent == Extent::Again {
        return;
    }
    let losses = Losses::of(observation, plan);
    let sighting = memory::recall(observation);
    let verdict = match observation.extent {
        Extent::Part => verdict::of_a_part(observation, affected, &losses, sighting.as_ref()),
        _ => verdict::of_everything(observation, &losses, sighting.as_ref()),
    };
    let held = verdict.as_ref().map(|verdict| take_out(&verdict.held, plan)).unwrap_or_default();
    if observation.extent != Extent::Part {
        memory::keep(observation, verdict.as_ref(), &held, plan);
    }
    if let Some(verdict) = verdict {
        let told = Arc::new(verdict.told(observation));
        say(&held, &told, plan);
        plan.guard = Some(told);
    }
}

/// Whether a plan for these Services would lose instances, so that it matters what a full sync holds.
pub fn loses(observation: &Observation, affected: &BTreeSet<ServiceRef>) -> bool {
    let unjudged = Observation { extent: Extent::Again, ..observation.clone() };
    Losses::of(observation, &super::plan(&unjudged, affected)).services() > 0
}

/// Whether there is no sighting on anything that was read.
pub fn is_quiet(observation: &Observation) -> bool {
    memory::recall(observation).is_none()
}

/// Takes the removals of the Services that are held out of the plan.
fn take_out(held: &Losses, plan: &mut Plan) -> Vec<Change> {
    let is_held = |change: &mut Change| change.marked().is_some_and(|service| held.has(service));
    let changes = plan.changes.values_mut();
    changes.flat_map(|changes| changes.extract_if(.., is_held)).collect()
}

/// One line for each Service and Cloud Map service.
fn say(held: &[Change], told: &Arc<Told>, plan: &mut Plan) {
    let mut stay: BTreeMap<(ServiceRef, Place), usize> = BTreeMap::new();
    for change in held {
        if let Some(service) = change.marked() {
            *stay.entry((service.clone(), change.place().clone())).or_default() += 1;
        }
    }
    plan.held_back.extend(stay.into_iter().map(|((service, place), instances)| {
        let reason = Reason::Guard { instances, told: told.clone() };
        HeldBack { service, place: Some(place), reason }
    }));
}
