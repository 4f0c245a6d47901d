//! The exports of a run: those of each selected cluster that joined are published side by side.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use tokio::sync::oneshot;

use super::{CONCURRENT_CLUSTERS, Clustersets};
use crate::publish::exports::Early;
use crate::reconcile::{NotPublished, Published};

/// The exports of a run, by the cluster's index in the settings.
#[derive(Default)]
pub(super) struct Exports {
    pub(super) published: BTreeMap<usize, Published>,
    /// The clusters whose exports were not published.
    pub(super) refused: BTreeMap<usize, NotPublished>,
}

impl Exports {
    /// The clusters that nothing is imported into. If instances of another controller are adopted, imports are taken
    /// over after all exports were.
    pub(super) fn left(&self, is_adoption: bool) -> BTreeSet<usize> {
        let open = self.published.iter().filter(|(_, it)| is_adoption && !it.is_complete());
        let refused = self.refused.iter().filter(|(_, it)| it.leaves_the_cluster);
        open.map(|(index, _)| *index).chain(refused.map(|(index, _)| *index)).collect()
    }
}

impl Clustersets<'_> {
    /// Publishes the exports of the selected clusters. Each cluster offers its exports to importers before.
    pub(super) async fn export_all(
        &self,
        mut early: BTreeMap<usize, oneshot::Sender<Early>>,
    ) -> Exports {
        let Self { function, invocation, registries, selections, members } = *self;
        let exports = selections.iter().filter_map(|(index, selection)| {
            let joined = members.get(&index)?.as_ref().ok()?;
            let cluster = (&function.settings.clusters[index], joined);
            let registry = &registries[&function.clients.registry_of(cluster.0)];
            let early = early.remove(&index)?;
            Some(async move {
                let export = invocation.export(cluster, registry, selection, early);
                (index, Box::pin(export).await)
            })
        });
        let exports: Vec<_> = exports.collect();
        let mut exports = stream::iter(exports).buffer_unordered(CONCURRENT_CLUSTERS);
        let mut all = Exports::default();
        while let Some((index, exported)) = exports.next().await {
            match exported {
                Ok(Some(published)) => _ = all.published.insert(index, published),
                Ok(None) => {}
                Err(refused) => _ = all.refused.insert(index, refused),
            }
        }
        all
    }
}
