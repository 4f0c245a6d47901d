//! Apply: carries a plan out, several Kubernetes Services side by side, each in a turn of its own or
//! of those that wait for one another (`turn`), each change by one call (`change`, with `service` and
//! `instance`), and once (`record`). Who waits for room in Cloud Map that others make gets another turn (`room`). One
//! Service's failure stops no other, and near the deadline nothing new begins.

mod change;
mod deletion;
mod instance;
mod record;
mod room;
mod service;
mod task;
mod turn;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};

use crate::cloud_map::Urgency;
use crate::deadline::Deadline;
use crate::model::ServiceRef;
use crate::plan::{Again, Change, Extent, HeldBack, Holders, Observation, Reason, in_turns};

pub use deletion::delete;
use record::Identity;
pub use task::Task;
use turn::{NO_TIME, Turn};

/// Why an instance that waited for room is not registered.
const NO_ROOM: &str = "there is no room for it yet";
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
    /// What waits for room that the Service itself cannot make, and all that follows it.
    waiting: BTreeMap<ServiceRef, Vec<Change>>,
}

impl Outcome {
    /// What becomes of a change that waits when nothing more is done; `open` is whether there is time.
    fn of_waiting(change: &Change, open: bool) -> Self {
        match change {
            Change::Deregister { instance, waits_for: Some(wait), .. } if open => {
                let (instance, waits_for) = (instance.clone(), wait.to_string());
                Self::HeldBack(Reason::Waiting { instance, waits_for })
            }
            _ if open => Self::Undone(NO_ROOM.to_owned()),
            _ => Self::Undone(NO_TIME.to_owned()),
        }
    }
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
    let announced = room::removals(&changes);
    let mut results = take_turns(task, observation, changes, terms, &BTreeSet::new()).await;
    if !results.waiting.is_empty() {
        // Whether a loss is too large was judged on the plan of all.
        let observation = Observation { extent: Extent::Again, ..observation.clone() };
        results = room::take_more_turns(task, observation, results, &announced, terms).await;
    }
    results.applied.sort_by(|a, b| a.change.order().cmp(&b.change.order()));
    results
}

/// Lets every Service take its turn; changes that are `settled` are made no more.
async fn take_turns(
    task: &Task<'_>,
    observation: &Observation,
    changes: BTreeMap<ServiceRef, Vec<Change>>,
    terms: Terms,
    settled: &BTreeSet<Identity>,
) -> Results {
    let left = &observation.room_left_by(changes.values().flatten());
    let changes_in_all = changes.values().map(Vec::len).sum();
    let mut turns = in_turns(changes);
    let count = turns.len().max(1);
    turns.rotate_left(terms.rotation % count);
    let holders = &Holders::decide(observation);
    let turns = turns.into_iter().map(|changes| {
        let all = changes.values().flatten().cloned().collect::<Vec<_>>();
        let again = Again::of(holders, changes.keys(), &all);
        let mut narrow = again.narrow(observation, holders);
        narrow.leave_room_for(&all, left);
        let terms = Terms { urgency: terms.urgency(all.len()), ..terms };
        Turn::new(task, narrow, terms, settled).take(changes)
    });
    let mut results = Results::default();
    results.applied.reserve(changes_in_all);
    let mut turns = stream::iter(turns).buffer_unordered(SIDE_BY_SIDE);
    while let Some(of_turn) = turns.next().await {
        results.applied.extend(of_turn.applied);
        results.held_back.extend(of_turn.held_back);
        results.waiting.extend(of_turn.waiting);
    }
    results
}
