//! The clustersets of a run: every cluster that takes part in one joins while the annotated Services are published,
//! since the objects of its imports are read before the exports. Then the exports of the selected clusters are
//! published side by side. Each offers them to importers once ([`exports::Offer`]): as soon as they are read, or
//! published if the guard may hold a loss among them. With all offers those of all members are imported into every
//! served cluster of the clusterset (`imports`). Imports that another writer changed meanwhile get a second look.
//! Clusters that are [`Silent`] delay a run once. `report` adds the outcome to the reports of the clusters.

mod imports;
mod report;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::time::Instant;

use super::run::{CONCURRENT_CLUSTERS, Registries, Runs};
use super::{Function, OwnQueue, Selections, clusters};
use crate::clients::RegistryKey;
use crate::error::chain;
use crate::model::{ClustersetId, Selection, ServiceRef};
use crate::publish::{exports, observe};
use crate::reconcile::{Invocation, Joined};
use crate::report::{Mode, Obstacle};

/// The clusters that take part in a clusterset, by their index in the settings.
pub(super) type JoinedMembers<'a> = BTreeMap<usize, Result<Joined<'a>, Obstacle>>;

/// The exports of a run by the cluster's index, or the reason why they were not published.
type ExportResults = BTreeMap<usize, Result<exports::PublishedExports, Obstacle>>;

/// What each cluster offered to importers, by its index. One that was not read offers nothing.
type Offered = BTreeMap<usize, exports::Offer>;

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
    /// Publishes the exports of the selected clusters, imports into all members, and adds both to the reports.
    pub(super) async fn run(self, runs: &mut Runs) {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let imports = async {
            let mut offered = Offered::new();
            while let Some((index, offer)) = receiver.recv().await {
                offered.insert(index, offer);
            }
            self.import_all(offered).await
        };
        let (exports, mut imports) =
            tokio::join!(Box::pin(self.export_all(sender)), Box::pin(imports));
        self.hand_imports_on(&exports).await;
        Box::pin(self.look_again(&mut imports)).await;
        self.report(exports, imports, runs).await;
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
            stream::iter(of_id).then(|it| it).collect::<Vec<_>>().await
        });
        let exports: Vec<_> = exports.collect();
        let exports = stream::iter(exports).buffer_unordered(CONCURRENT_CLUSTERS);
        exports.flat_map(stream::iter).filter_map(|it| async { it }).collect().await
    }

    /// The clusters that joined.
    fn joined(&self) -> impl Iterator<Item = (usize, &'a Joined<'a>)> {
        self.members.iter().filter_map(|(index, it)| Some((*index, it.as_ref().ok()?)))
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
        let importers = self.importers(selections, invocation.adoption.is_some()).into_iter();
        let joins = importers.map(|(index, selection)| async move {
            let may_wait = selections.are_about(index) || invocation.mode == Mode::Plan;
            if let Some(obstacle) = self.silent.obstacle(index).filter(|_| !may_wait) {
                return Some((index, Err(obstacle)));
            }
            let (cluster, asked) = (&self.settings.clusters[index], Instant::now());
            let joined = invocation.join(cluster, &selection).await?;
            let has_failed = joined.as_ref().is_err_and(|obstacle| obstacle.failed);
            self.silent.note(index, asked, has_failed);
            Some((index, joined))
        });
        let joins = stream::iter(joins).buffer_unordered(CONCURRENT_CLUSTERS);
        joins.filter_map(|it| async { it }).collect().await
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
    fn obstacle(&self, index: usize) -> Option<Obstacle> {
        let silent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ago = silent.get(&index)?.elapsed();
        (ago < ASKED_AGAIN_AFTER).then(|| {
            Obstacle::unreadable(format!(
                "it did not answer {} s ago; it is asked again by its full sync, or after {} minutes",
                ago.as_secs(),
                ASKED_AGAIN_AFTER.as_secs() / 60
            ))
        })
    }
}

// The clusters that import what a run is about. A full sync imports into every served cluster, and so does a sync of a
// few Services: their endpoints reach the other clusters in the same invocation. With `FAN_OUT`, or more than
// `TOGETHER` clusters, each of the others gets a message `{"cluster","namespace","service","import":true}` for what
// has changed. The invocation for it imports that name into that cluster, and sends nothing.

/// The number of clusters that one invocation imports into for a few Services.
const TOGETHER: usize = 8;
/// With more Services changed, the other clusters follow on their schedule.
const MOST_SERVICES: usize = 40;
/// The number of messages that are sent at once.
const MESSAGES_SIDE_BY_SIDE: usize = 8;

impl Function {
    /// What each cluster imports in this invocation, by its index in the settings.
    pub(super) fn importers(
        &self,
        selections: &Selections,
        is_adoption: bool,
    ) -> BTreeMap<usize, Selection> {
        let mut importers = BTreeMap::new();
        if let Some(all) = selections.all() {
            // With `FAN_OUT` each full sync is for its own cluster, and takes the others from Cloud Map, as does an
            // adoption.
            let is_own = is_adoption
                || self.full_sync_queue.is_some()
                || self.queue_for_imports(&all).is_some();
            let clusters = self.configured();
            let clusters = clusters.indexes().filter(|it| !is_own || selections.of(*it).is_some());
            importers.extend(clusters.map(|index| (index, all.clone())));
        }
        for (index, selection) in selections.imported() {
            clusters::add(&mut importers, index, selection);
        }
        importers
    }

    /// The queue, if other clusters import by messages.
    fn queue_for_imports(&self, all: &Selection) -> Option<&OwnQueue> {
        if *all == Selection::Everything {
            return None;
        }
        let imports = |index: &usize| {
            self.settings.multi_cluster_of(&self.settings.clusters[*index]).imports()
        };
        let are_many = || self.configured().indexes().filter(imports).count() > TOGETHER;
        self.queue.as_ref().filter(|_| self.full_sync_queue.is_some() || are_many())
    }

    async fn send_import(&self, queue: &OwnQueue, importer: usize, service: &ServiceRef) {
        let cluster = &self.name_in_messages(&self.settings.clusters[importer]);
        let ServiceRef { namespace, name } = service;
        let message =
            json!({ "cluster": cluster, "namespace": namespace, "service": name, "import": true });
        if let Err(error) = queue.send(&message).await {
            tracing::error!(
                cluster,
                "{service} is imported there on its schedule: {}",
                chain(&error)
            );
        }
    }
}

impl Clustersets<'_> {
    /// Sends a message for each other cluster and each export that was changed in Cloud Map. If one is lost, that
    /// cluster follows on its schedule.
    pub(super) async fn hand_imports_on(&self, exports: &ExportResults) {
        let Self { function, members, .. } = self;
        let Some(all) = self.selections.all() else { return };
        let Some(queue) = function.queue_for_imports(&all) else { return };
        let mut messages = Vec::new();
        for (source, joined) in self.joined() {
            let Some(Ok(published)) = exports.get(&source) else { continue };
            let mut changed = published.changed();
            changed.retain(|service| all.contains(service));
            if changed.len() > MOST_SERVICES {
                tracing::info!(
                    exports = changed.len(),
                    "other clusters import these exports on their schedule"
                );
                continue;
            }
            let others = function.configured();
            let others = others.indexes().filter(|it| !members.contains_key(it));
            for importer in others.filter(|it| self.may_import_from(*it, joined)) {
                messages.extend(changed.iter().map(|service| (importer, service.clone())));
            }
        }
        let sends = messages.iter();
        let sends = sends.map(|(importer, name)| function.send_import(queue, *importer, name));
        stream::iter(sends).buffer_unordered(MESSAGES_SIDE_BY_SIDE).collect::<()>().await;
        if !messages.is_empty() {
            tracing::info!(messages = messages.len(), "other clusters import by messages");
        }
    }

    /// Whether a cluster may be a member of the clusterset of another one.
    fn may_import_from(&self, importer: usize, source: &Joined<'_>) -> bool {
        let Function { settings, clients, .. } = self.function;
        let importer = &settings.clusters[importer];
        let (registry, clusterset) = self.key(source);
        settings.multi_cluster_of(importer).imports()
            && clients.registry_of(importer) == registry
            && importer.membership.clusterset.as_ref().is_none_or(|it| *it == clusterset)
    }
}
