//! Apply: carries a plan out, several turns side by side, each as `passes` says, each change by one call (`change`, with
//! `service` and `instance`). One Service's failure stops no other, and near the deadline nothing new begins.

mod change;
mod deletion;
mod instance;
mod lead;
mod order;
mod service;
mod task;
mod turn;

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use crate::cloud_map::Urgency;
use crate::deadline::Deadline;
use crate::model::ServiceRef;
use crate::passes;
use crate::plan::{Basis, Change, Judged};

pub use crate::passes::{Applied, Outcome, Results};
pub use deletion::delete;
pub use order::Order;
pub use task::Task;

/// How many Services are served side by side, and how many changes of each. Most of them wait for an operation
/// to end; the calls themselves are bounded by the client.
const SIDE_BY_SIDE: usize = 256;
/// A Service with no more changes than these is not made to wait for those with many.
const FEW: usize = 10;

/// The terms on which a plan is carried out.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// When nothing new may begin any more.
    pub deadline: Deadline,
    /// In which order the turns begin.
    pub order: Order,
    /// Whether all of it goes before what others want of Cloud Map.
    pub urgency: Urgency,
    /// When the reading began that the plan rests on.
    pub observed: Instant,
}

impl Terms {
    /// Who goes first: if there is much to do, the Services with few changes.
    fn urgency(&self, changes: usize) -> Urgency {
        if changes <= FEW { Urgency::Urgent } else { self.urgency }
    }
}

/// Carries out the changes of a plan that was made from `basis`; `judged` if the guard judges again between the passes.
pub async fn apply(
    task: &Task<'_>,
    basis: Basis<'_>,
    changes: BTreeMap<ServiceRef, Vec<Change>>,
    judged: Option<Judged>,
    terms: Terms,
) -> Results {
    let mut results = Results::default();
    results.applied.reserve(changes.values().map(Vec::len).sum());
    let turns = passes::turns(task.intent(), basis, changes, judged);
    let turns = terms.order.apply(turns).into_iter().map(|turn| turn::take(task, turn, terms));
    let mut turns = stream::iter(turns).buffer_unordered(SIDE_BY_SIDE);
    while let Some(of_turn) = turns.next().await {
        results.extend(of_turn);
    }
    results.applied.sort_by(|a, b| a.change.order().cmp(&b.change.order()));
    results
}
