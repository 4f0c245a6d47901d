//! The clustersets of a run:
//!
//! ```text
//! join: the objects of each cluster's imports ─> read the exports of each served cluster ─┬─> publish those of the run
//!                    other members: their records and instances in Cloud Map ─> merge <───┘
//!                                                                                └─> import into each served cluster
//! ```
//!
//! All of it goes on while the annotated Services are published. Every cluster that takes part joins first: the objects of
//! its imports are read before the exports. The exports of each served cluster are read once, also if the run is not about
//! that cluster, and offered to importers ([`exports::Offer`]) before anything is published. When all clusters have offered
//! theirs, the exports of all members are imported into every served cluster of the clusterset (`imports`). Clusters that are [`Silent`] delay a run once.
//! `report` adds the outcome to the reports of the clusters.

mod imports;
mod report;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::time::Instant;

use super::run::Registries;
use super::{Function, Selections};
use crate::clients::RegistryKey;
use crate::model::{ClustersetId, Line, Selection};
use crate::publish::{exports, observe, shuffle};
use crate::reconcile::{CONCURRENT_CLUSTERS, Invocation, Joined};
use crate::report::Mode;

/// The clusters that take part in a clusterset, by their index in the settings.
pub(super) type JoinedMembers<'a> = BTreeMap<usize, Result<Joined<'a>, Box<Line>>>;

/// The exports of a run by the cluster's index, or the reason why they were not published.
type ExportResults = BTreeMap<usize, Result<exports::PublishedExports, exports::Refused>>;

/// What each cluster offered to importers, by its index. One that was not read offers nothing.
type Offered = BTreeMap<usize, exports::Offer>;

/// The exports and imports of a run.
pub(super) struct Synced {
    exports: ExportResults,
    imports: imports::Imports,
}

/// A clusterset in one Cloud Map.
type ClustersetKey = (RegistryKey, ClustersetId);

/// A run over clustersets.
#[derive(Clone, Copy)]
pub(super) struct Clustersets<'a> {
    pub(super) function: &'a Function,
    pub(super) invocation: &'a Invocation<'a>,
    pub(super) registries: &'a Registries,
    pub(super) selections: &'a Selections,
    pub(super) members: &'a JoinedMembers<'a>,
}

impl<'a> Clustersets<'a> {
    /// Publishes the exports of the selected clusters, and imports into all members.
    pub(super) async fn run(self) -> Synced {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let imports = async {
            let mut offered = Offered::new();
            while let Some((index, offer)) = receiver.recv().await {
                let offer = match (offered.remove(&index), offer) {
                    (Some(exports::Offer::Exports(read)), exports::Offer::Exports(more)) => {
                        exports::Offer::Exports(Box::new(read.with(*more)))
                    }
                    (_, offer) => offer,
                };
                offered.insert(index, offer);
            }
            self.import_all(offered).await
        };
        let read = self.read_others(sender.clone());
        let (exports, imports, ()) =
            tokio::join!(Box::pin(self.export_all(sender)), Box::pin(imports), Box::pin(read));
        Synced { exports, imports }
    }

    /// Publishes the exports of the selected clusters. The offers end when none is left to come. Clusters that state one id
    /// go one after the other: side by side, each would register the record that Cloud Map does not show yet.
    async fn export_all(&self, offers: UnboundedSender<(usize, exports::Offer)>) -> ExportResults {
        let mut by_id: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (index, joined) in self.joined() {
            let Some(selection) = self.selections.of(index) else { continue };
            let offers = offers.clone();
            let offer = move |offer| _ = offers.send((index, offer));
            let export = Box::pin(joined.export(self.registry(joined), selection, offer));
            let id = (self.key(joined), &joined.member.cluster);
            by_id
                .entry(id)
                .or_default()
                .push(async move { Some((index, export.await.transpose()?)) });
        }
        drop(offers);
        let exports = by_id.into_values().map(|of_id| async move {
            stream::iter(of_id).then(|export| export).collect::<Vec<_>>().await
        });
        let exports = shuffle(self.invocation.now, exports.collect());
        let exports = stream::iter(exports).buffer_unordered(CONCURRENT_CLUSTERS);
        exports.flat_map(stream::iter).filter_map(|exported| async { exported }).collect().await
    }

    /// Reads the names of the run that a served cluster's own run does not cover: the cluster is the only source of what it
    /// exports.
    async fn read_others(&self, offers: UnboundedSender<(usize, exports::Offer)>) {
        let Some(all) = &self.selections.union() else { return };
        let reads = self.joined().filter_map(|(index, joined)| {
            let own = self.selections.of(index).cloned().unwrap_or_else(Selection::nothing);
            Some((index, joined, all.without(&own)?))
        });
        let reads = reads.map(async |(index, joined, rest)| {
            if let Some(read) = joined.exports_in_cluster(self.registry(joined), &rest).await {
                // The importers may have ended with the run.
                _ = offers.send((index, exports::Offer::Exports(Box::new(read))));
            }
        });
        let reads = stream::iter(reads).buffer_unordered(CONCURRENT_CLUSTERS);
        Box::pin(reads.collect::<()>()).await;
    }

    /// The clusters that joined.
    fn joined(&self) -> impl Iterator<Item = (usize, &'a Joined<'a>)> {
        self.members.iter().filter_map(|(index, joined)| Some((*index, joined.as_ref().ok()?)))
    }

    fn registry(&self, joined: &Joined<'_>) -> &'a observe::SharedRegistry {
        &self.registries[&self.function.clients.registry_of(joined.cluster)]
    }

    fn key(&self, joined: &Joined<'_>) -> ClustersetKey {
        let registry = self.function.clients.registry_of(joined.cluster);
        (registry, joined.member.clusterset.clone())
    }
}

impl Function {
    /// Joins the clusters that import in this invocation. One that the run is not about is not asked if it has just not
    /// answered.
    pub(super) async fn join<'a>(
        &'a self,
        invocation: &'a Invocation<'a>,
        selections: &Selections,
    ) -> JoinedMembers<'a> {
        let importers = self.importers(selections).into_iter().collect();
        let joins =
            shuffle(invocation.now, importers).into_iter().map(|(index, selection)| async move {
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
            });
        let joins = stream::iter(joins).buffer_unordered(CONCURRENT_CLUSTERS);
        joins.filter_map(|joined| async { joined }).collect().await
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
    pub(super) fn importers(&self, selections: &Selections) -> BTreeMap<usize, Selection> {
        let Some(all) = selections.union() else { return BTreeMap::new() };
        (0..self.settings.clusters.len()).map(|index| (index, all.clone())).collect()
    }
}
