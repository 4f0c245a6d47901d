//! Joins the clusters of a run to their clustersets: reads the member id of each cluster, and the objects of its
//! imports.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use tokio::time::Instant;

use crate::function::{Function, Selections};
use crate::model::{Line, Selection};
use crate::publish::shuffle;
use crate::reconcile::{CONCURRENT_CLUSTERS, Invocation, JoinedCluster};
use crate::report::Mode;

/// The index of a cluster in the settings, and the joined cluster or the reason why it did not join.
pub(super) type Join<'a> = (usize, Result<JoinedCluster<'a>, Box<Line>>);

impl Function {
    /// Joins the clusters that take part and that `is_included` selects, in the order in which they answer. Does not
    /// contact a silent cluster, unless the run is about this cluster or is a plan.
    pub(super) fn joins<'a>(
        &'a self,
        invocation: &'a Invocation<'a>,
        selections: &'a Selections,
        is_included: impl Fn(usize) -> bool,
    ) -> impl Stream<Item = Join<'a>> {
        let importers = self.importers(selections).into_iter();
        let importers = importers.filter(|(index, _)| is_included(*index)).collect();
        let joins = shuffle(invocation.now, importers).into_iter().map(
            move |(index, selection)| async move {
                let may_wait = selections.of(index).is_some() || invocation.mode == Mode::Plan;
                if let Some(obstacle) = self.silent.obstacle(index).filter(|_| !may_wait) {
                    return Some((index, Err(obstacle)));
                }
                let cluster = &self.settings.clusters[index];
                let contacted = Instant::now();
                let joined = invocation.join(cluster, &selection).await?;
                // A read has failed. Any other obstacle shows that the cluster answered, for example that it has no
                // multi-cluster API.
                let has_failed = joined.as_ref().is_err_and(|obstacle| obstacle.is_unfinished());
                self.silent.record(index, contacted, has_failed);
                Some((index, joined))
            },
        );
        let joins = stream::iter(joins).buffer_unordered(CONCURRENT_CLUSTERS);
        joins.filter_map(|joined| async { joined })
    }
}

// The silent clusters: those that recently failed after a long wait. A sync of another cluster's exports does not wait
// for them again. They import these exports in their next full sync, as if they had failed in this run. Only this
// process knows the silent clusters, for some minutes, and no plan depends on them.

/// The shortest time until a failure that makes a cluster silent. A faster failure delays nothing, so a cluster that
/// denies a permission is contacted in each run.
const SLOW_FAILURE: Duration = Duration::from_secs(2);
/// How long a cluster stays silent, unless a run about this cluster, or a plan, contacts it before.
const RETRY_AFTER: Duration = Duration::from_mins(5);

/// The time of the last failure of each silent cluster, by its index in the settings.
#[derive(Debug, Default)]
pub(in crate::function) struct UnresponsiveClusters(Mutex<BTreeMap<usize, Instant>>);

impl UnresponsiveClusters {
    /// Records whether a cluster failed that was contacted at the time `contacted`.
    fn record(&self, index: usize, contacted: Instant, has_failed: bool) {
        let mut silent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if has_failed && contacted.elapsed() >= SLOW_FAILURE {
            silent.insert(index, Instant::now());
        } else {
            silent.remove(&index);
        }
    }

    /// Returns the reason not to contact a cluster now. `None` if it is not silent.
    fn obstacle(&self, index: usize) -> Option<Box<Line>> {
        let silent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ago = silent.get(&index)?.elapsed();
        (ago < RETRY_AFTER).then(|| {
            Box::new(Line::unreadable(format!(
                "it did not answer {} s ago; a sync of its own asks it again, and others {} minutes after that failure",
                ago.as_secs(),
                RETRY_AFTER.as_secs() / 60
            )))
        })
    }
}

// The clusters that import the names of a run. Every run imports into all served clusters, even a sync of a few
// Services, so that their endpoints reach the other clusters in the same invocation. Only an adoption imports nothing
// (`Invocation::takes_part`).

impl Function {
    /// Returns the names that each cluster imports in this invocation, by its index in the settings.
    pub(in crate::function) fn importers(
        &self,
        selections: &Selections,
    ) -> BTreeMap<usize, Selection> {
        let Some(all) = selections.union() else { return BTreeMap::new() };
        (0..self.settings.clusters.len()).map(|index| (index, all.clone())).collect()
    }
}
