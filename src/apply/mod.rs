//! Apply: carries a plan out, several Kubernetes Services side by side, each in a turn of its own or
//! of those that wait for one another (`turn`), each change by one call (`change`, with `service` and
//! `instance`). One Service's failure stops no other, and near the deadline nothing new begins.

mod change;
mod deletion;
mod instance;
mod service;
mod task;
mod turn;

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};

use crate::cloud_map::Urgency;
use crate::deadline::Deadline;
use crate::model::ServiceRef;
use crate::plan::{Again, Change, HeldBack, Holders, Observation, Reason, in_turns};

pub use deletion::delete;
pub use task::Task;
use turn::Turn;

/// How many Services are served side by side, and how many changes of each. Most of them wait for an operation
/// to end; the calls themselves are bounded by the client.
const SIDE_BY_SIDE: usize = 256;
/// A Service with no more changes than these is not made to wait for those with many.
const FEW: usize = 10;

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not tried: a plan, or a dry run.
    Planned,
    /// Cloud Map has carried it out.
    Applied,
    /// Not done, and a retry would not help.
    HeldBack(Reason),
    /// Tried, and failed.
    Failed(String),
    /// Not tried, since there was no time or something before it failed.
    Undone(String),
}

/// A change of one Kubernetes Service and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The Service whose turn it was.
    pub service: ServiceRef,
    /// The change.
    pub change: Change,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// Every change with its outcome.
    pub applied: Vec<Applied>,
    /// What turned out to be held back when it was decided a second time.
    pub held_back: Vec<HeldBack>,
}

impl Results {
    /// What Cloud Map refused for good.
    pub fn refused(&self) -> Vec<HeldBack> {
        let refused = self.applied.iter().filter_map(|applied| match &applied.outcome {
            Outcome::HeldBack(reason) => Some(HeldBack {
                service: applied.service.clone(),
                place: Some(applied.change.place().clone()),
                reason: reason.clone(),
            }),
            _ => None,
        });
        refused.collect()
    }
}

/// The terms on which a plan is carried out.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// When nothing new may begin any more.
    pub deadline: Deadline,
    /// Shifts which Service comes first, so that runs that are cut short do not starve the same ones.
    pub rotation: usize,
    /// Whether all of it goes before what others want of Cloud Map.
    pub urgency: Urgency,
}

impl Terms {
    /// Who goes first: where there is much to do, the Services with few changes.
    fn urgency(&self, changes: usize) -> Urgency {
        if changes <= FEW { Urgency::Urgent } else { self.urgency }
    }
}

/// Carries out the changes of a plan that was made from `observation`.
pub async fn apply(
    task: &Task<'_>,
    observation: &Observation,
    changes: BTreeMap<ServiceRef, Vec<Change>>,
    terms: Terms,
) -> Results {
    let mut turns = in_turns(changes);
    let count = turns.len().max(1);
    turns.rotate_left(terms.rotation % count);
    let holders = &Holders::decide(observation);
    let turns = turns.into_iter().map(|changes| {
        let all = changes.values().flatten().cloned().collect::<Vec<_>>();
        let observation = Again::of(holders, changes.keys(), &all).narrow(observation, holders);
        let terms = Terms { urgency: terms.urgency(all.len()), ..terms };
        Turn::new(task, observation, terms).take(changes)
    });
    let mut results = Results::default();
    let mut turns = stream::iter(turns).buffer_unordered(SIDE_BY_SIDE);
    while let Some(of_turn) = turns.next().await {
        results.applied.extend(of_turn.applied);
        results.held_back.extend(of_turn.held_back);
    }
    results.applied.sort_by(|a, b| a.change.order().cmp(&b.change.order()));
    results
}
