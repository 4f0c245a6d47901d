//! The clusters of a run join their clustersets: each says who it is, and the objects of its imports are read.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use tokio::time::Instant;

use crate::function::{Function, Selections};
use crate::model::{Line, Selection};
use crate::publish::shuffle;
use crate::reconcile::{CONCURRENT_CLUSTERS, Invocation, Joined};
use crate::report::Mode;

/// A cluster by its index in the settings, as it joined, or the reason why it did not.
pub(super) type Join<'a> = (usize, Result<Joined<'a>, Box<Line>>);

impl Function {
    /// Joins some of the clusters that take part, in the order in which they answer. One that the run is not about is not
    /// asked if it has just not answered.
    pub(super) fn joins<'a>(
        &'a self,
        invocation: &'a Invocation<'a>,
        selections: &'a Selections,
        is_meant: impl Fn(usize) -> bool,
    ) -> impl Stream<Item = Join<'a>> {
        let importers = self.importers(selections).into_iter();
        let importers = importers.filter(|(index, _)| is_meant(*index)).collect();
        let joins = shuffle(invocation.now, importers).into_iter().map(
            move |(index, selection)| async move {
                let may_wait = selections.of(index).is_some() || invocation.mode == Mode::Plan;
                if let Some(obstacle) = self.silent.obstacle(index).filter(|_| !may_wait) {
                    return Some((index, Err(obstacle)));
                }
                let cluster = &self.settings.clusters[index];
                let asked = Instant::now();
                let joined = invocation.join(cluster, &selection).await?;
                let has_failed = joined.as_ref().is_err_and(|obstacle| obstacle.is_open());
                self.silent.note(index, asked, has_failed);
                Some((index, joined))
            },
        );
        let joins = stream::iter(joins).buffer_unordered(CONCURRENT_CLUSTERS);
        joins.filter_map(|joined| async { joined })
    }
}

// The clusters that have just not answered. A change of another cluster's exports does not wait for them again: they
// import it in their next full sync, as if they had failed in this run. Only this process knows of them, for some
// minutes, and no plan rests on that.

/// A failure that takes less time is no delay: a cluster that denies a right is asked in each run.
const LONG: Duration = Duration::from_secs(2);
/// The time after which such a cluster is asked again if no full sync has asked it before.
const ASKED_AGAIN_AFTER: Duration = Duration::from_mins(5);

/// When each of them failed, by the cluster's index in the settings.
#[derive(Debug, Default)]
pub(in crate::function) struct Silent(Mutex<BTreeMap<usize, Instant>>);

impl Silent {
    /// Notes that a cluster answered, or failed, after it was asked at `asked`.
    fn note(&self, index: usize, asked: Instant, has_failed: bool) {
        let mut silent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if has_failed && asked.elapsed() >= LONG {
            silent.insert(index, Instant::now());
        } else {
            silent.remove(&index);
        }
    }

    /// The reason not to ask a cluster now.
    fn obstacle(&self, index: usize) -> Option<Box<Line>> {
        let silent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ago = silent.get(&index)?.elapsed();
        (ago < ASKED_AGAIN_AFTER).then(|| {
            Box::new(Line::unreadable(format!(
                "it did not answer {} s ago; it is asked again by its full sync, or after {} minutes",
                ago.as_secs(),
                ASKED_AGAIN_AFTER.as_secs() / 60
            )))
        })
    }
}

// The clusters that import what a run is about. A full sync imports into every served cluster, and so does a sync of a
// few Services: their endpoints reach the other clusters in the same invocation. An adoption imports only into the
// clusters that it names.

impl Function {
    /// What each cluster imports in this invocation, by its index in the settings.
    pub(in crate::function) fn importers(
        &self,
        selections: &Selections,
    ) -> BTreeMap<usize, Selection> {
        let Some(all) = selections.union() else { return BTreeMap::new() };
        (0..self.settings.clusters.len()).map(|index| (index, all.clone())).collect()
    }
}
