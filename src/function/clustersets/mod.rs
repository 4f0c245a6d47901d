//! The clustersets of a run:
//!
//! ```text
//! join: the objects of each cluster's imports ─> read the exports of each served cluster ─┬─> publish selected exports
//!                    other members: their records and instances in Cloud Map ─> merge <───┘
//!                                                                                └─> import into each served cluster
//! ```
//!
//! All of this runs while the annotated Services are published. Every cluster that takes part joins first (`join`): the
//! objects of its imports are read before the exports. The exports of each served cluster are read once, even if the
//! run is not about that cluster, and offered to importers ([`exports::Offer`]) before anything is published. When all
//! clusters have made their offers, the exports of all members are imported into every served cluster of the clusterset
//! (`imports`).
//!
//! A cluster that does not join, or does not offer its exports, in time is [late](PATIENCE). The others go on without
//! it, and its part of their imports stays unchanged. When it has joined and made its offer, a second pass repeats the
//! steps with all clusters. `report` adds the outcome to the reports of the clusters.

mod imports;
mod join;
mod report;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::timeout;

use super::run::Registries;
use super::{Function, Selections};
use crate::clients::RegistryKey;
use crate::model::{ClustersetId, Line, Selection};
use crate::publish::{exports, observe, shuffle};
use crate::reconcile::{CONCURRENT_CLUSTERS, Invocation, JoinedCluster};
use crate::report::Mode;

pub(super) use join::UnresponsiveClusters;

/// How long the first pass of a sync waits for clusters to join, and then for their offers. Without this limit, an API
/// server that hangs would delay the imports of all other clusters by up to half of the run's time. The limit is not
/// shorter, since the lists of a large cluster take seconds, and each second pass reads every cluster again.
const PATIENCE: Duration = Duration::from_secs(10);

/// The clusters that have joined, or the reason why they did not, by their index in the settings.
pub(super) type JoinedMembers<'a> = BTreeMap<usize, Result<JoinedCluster<'a>, Box<Line>>>;

/// The published exports of each cluster, or the reason why they were not published, by its index in the settings.
type ExportResults = BTreeMap<usize, Result<exports::PublishedExports, exports::Obstacle>>;

/// The index of a cluster in the settings, and the offer of its exports.
type ClusterOffer = (usize, exports::Offer);

/// The offer of each cluster, by its index in the settings. A cluster that was not read has no offer.
type Offered = BTreeMap<usize, exports::Offer>;

/// The exports and imports of a run.
pub(super) struct Synced {
    exports: ExportResults,
    imports: imports::Imports,
    /// Whether exports were offered too late to be imported.
    lacks_exports: bool,
}

/// One of the two passes of a run.
#[derive(Clone, Copy)]
struct Pass {
    /// How long it waits for the exports of the clusters that joined.
    patience: Duration,
    /// Whether clusters have not joined yet that may do so in a second pass.
    awaits_joins: bool,
}

/// The key of a clusterset: its Cloud Map and its id.
type ClustersetKey = (RegistryKey, ClustersetId);

/// A run over the clustersets of the joined `members`.
#[derive(Clone, Copy)]
pub(super) struct Clustersets<'a> {
    pub(super) function: &'a Function,
    pub(super) invocation: &'a Invocation<'a>,
    pub(super) registries: &'a Registries,
    pub(super) selections: &'a Selections,
    pub(super) members: &'a JoinedMembers<'a>,
}

impl Function {
    /// Syncs the clustersets of a run. The first pass covers the clusters that join in time. If a late cluster joins or
    /// offers its exports afterwards, a second pass covers all clusters. So it does if the guard held a loss in the
    /// first pass until the late clusters are read, and none of them was.
    pub(super) async fn sync_clustersets<'a>(
        &'a self,
        invocation: &'a Invocation<'a>,
        registries: &Registries,
        selections: &'a Selections,
    ) -> (JoinedMembers<'a>, Synced) {
        let mut members = JoinedMembers::new();
        let mut joins = Box::pin(self.joins(invocation, selections, |_| true));
        let in_time = async {
            while let Some((index, joined)) = joins.next().await {
                members.insert(index, joined);
            }
        };
        // A plan is always about all clusters, since a person waits for it.
        let patience = if invocation.mode == Mode::Sync { PATIENCE } else { Duration::MAX };
        let awaits_joins = timeout(patience, in_time).await.is_err();
        let run = async |members: &JoinedMembers<'_>, published: &ExportResults, pass: Pass| {
            let function = self;
            let clustersets = Clustersets { function, invocation, registries, selections, members };
            Box::pin(clustersets.run(published, pass)).await
        };
        let none = ExportResults::new();
        let first = run(&members, &none, Pass { patience, awaits_joins });
        let (synced, late) = tokio::join!(first, joins.collect::<JoinedMembers<'_>>());
        let is_partial = synced.lacks_exports
            || synced.imports.needs_second_pass()
            || late.values().any(Result::is_ok);
        if is_partial {
            let is_early = |index| members.get(&index).is_some_and(Result::is_ok);
            // The early clusters join again, since the objects of their imports must be read before the late exports.
            let joins = self.joins(invocation, selections, is_early);
            let mut again: JoinedMembers<'_> = Box::pin(joins.collect()).await;
            for (index, joined) in &mut again {
                if let (Ok(joined), Some(Ok(first))) = (joined, members.get(index)) {
                    joined.imports_before = first.imports_before;
                }
            }
            members.extend(again);
        }
        members.extend(late);
        if !is_partial {
            return (members, synced);
        }
        let pass = Pass { patience: Duration::MAX, awaits_joins: false };
        let second = run(&members, &synced.exports, pass).await;
        (members, synced.followed_by(second))
    }
}

impl Synced {
    /// Joins the results of both passes of a run. The imports are as the second pass left them.
    fn followed_by(mut self, second: Self) -> Self {
        self.exports.extend(second.exports);
        let mut imports = second.imports;
        for (index, first) in self.imports.imported {
            let both = match imports.imported.remove(&index) {
                Some(second) => first.followed_by(second),
                None => first,
            };
            imports.imported.insert(index, both);
        }
        Self { exports: self.exports, imports, lacks_exports: second.lacks_exports }
    }
}

impl<'a> Clustersets<'a> {
    /// Publishes the exports of the selected clusters that are not `published` yet, and imports the exports that are
    /// offered in time into all joined clusters.
    async fn run(self, published: &ExportResults, Pass { patience, awaits_joins }: Pass) -> Synced {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let imports = async {
            let mut offered = Offered::new();
            let all = take_offers(&mut receiver, &mut offered);
            let is_late = timeout(patience, all).await.is_err();
            let may_read_more = is_late || awaits_joins;
            let imports = self.import_all(offered, published, may_read_more).await;
            (imports, is_late && receiver.recv().await.is_some())
        };
        let read = self.read_others(sender.clone(), published);
        let (exports, (imports, lacks_exports), ()) = tokio::join!(
            Box::pin(self.export_all(sender, published)),
            Box::pin(imports),
            Box::pin(read)
        );
        Synced { exports, imports, lacks_exports }
    }

    /// Publishes the exports of the selected clusters. The channel closes after the last offer. Clusters with the same
    /// cluster id are published one after the other: concurrently, each would register the record that Cloud Map does
    /// not show yet.
    async fn export_all(
        &self,
        offers: UnboundedSender<ClusterOffer>,
        published: &ExportResults,
    ) -> ExportResults {
        let mut by_id: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (index, joined) in self.joined() {
            let Some(selection) = self.still_to_publish(index, published) else { continue };
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
        let exports = by_id.into_values().map(|exports| async move {
            stream::iter(exports).then(|export| export).collect::<Vec<_>>().await
        });
        let exports = shuffle(self.invocation.now, exports.collect());
        let exports = stream::iter(exports).buffer_unordered(CONCURRENT_CLUSTERS);
        exports.flat_map(stream::iter).filter_map(|exported| async { exported }).collect().await
    }

    /// Reads the exports of each served cluster under those names of this run that `export_all` does not publish, since
    /// a served cluster is the only source of its exports.
    async fn read_others(&self, offers: UnboundedSender<ClusterOffer>, published: &ExportResults) {
        let Some(all) = &self.selections.union() else { return };
        let reads = self.joined().filter_map(|(index, joined)| {
            let published_here =
                self.still_to_publish(index, published).cloned().unwrap_or_else(Selection::nothing);
            Some((index, joined, all.without(&published_here)?))
        });
        let reads = reads.map(async |(index, joined, rest)| {
            if let Some(read) = joined.exports_in_cluster(self.registry(joined), &rest).await {
                // The receiver may be gone, since the imports may have ended.
                _ = offers.send((index, exports::Offer::Exports(Box::new(read))));
            }
        });
        let reads = stream::iter(reads).buffer_unordered(CONCURRENT_CLUSTERS);
        Box::pin(reads.collect::<()>()).await;
    }

    /// Returns the exports of a cluster that this run still has to publish.
    fn still_to_publish(&self, index: usize, published: &ExportResults) -> Option<&'a Selection> {
        self.selections.of(index).filter(|_| !published.contains_key(&index))
    }

    /// Returns the clusters that joined, by their index in the settings.
    fn joined(&self) -> impl Iterator<Item = (usize, &'a JoinedCluster<'a>)> {
        self.members.iter().filter_map(|(index, joined)| Some((*index, joined.as_ref().ok()?)))
    }

    fn registry(&self, joined: &JoinedCluster<'_>) -> &'a observe::SharedRegistry {
        &self.registries[&self.function.clients.registry_of(joined.cluster)]
    }

    fn key(&self, joined: &JoinedCluster<'_>) -> ClustersetKey {
        let registry = self.function.clients.registry_of(joined.cluster);
        (registry, joined.member.clusterset.clone())
    }
}

/// Takes offers until the channel closes. A second offer of exports by a cluster is added to its first one.
async fn take_offers(offers: &mut UnboundedReceiver<ClusterOffer>, offered: &mut Offered) {
    while let Some((index, offer)) = offers.recv().await {
        let offer = match (offered.remove(&index), offer) {
            (Some(exports::Offer::Exports(read)), exports::Offer::Exports(more)) => {
                exports::Offer::Exports(Box::new(read.with(*more)))
            }
            (_, offer) => offer,
        };
        offered.insert(index, offer);
    }
}
