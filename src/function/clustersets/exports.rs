//! The exports of a run: those of each selected cluster that joined are published side by side. Each offers its exports
//! to importers once ([`Offer`]).

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use tokio::sync::oneshot;

use super::{CONCURRENT_CLUSTERS, Clustersets};
use crate::publish::exports::{Exported, Offer};
use crate::report::Obstacle;

/// The exports of a run, by the cluster's index in the settings.
#[derive(Default)]
pub(super) struct Exports {
    pub(super) published: BTreeMap<usize, Exported>,
    /// The clusters whose exports were not published.
    pub(super) refused: BTreeMap<usize, Obstacle>,
}

/// What each cluster offered to importers, by its index in the settings. One that was not read offers nothing.
pub(super) type Offered = BTreeMap<usize, Offer>;

/// The offers to come.
pub(super) struct Offers(BTreeMap<usize, oneshot::Receiver<Offer>>);

impl Clustersets<'_> {
    /// A place for the offer of each selected cluster that joined.
    pub(super) fn offers(&self) -> (BTreeMap<usize, oneshot::Sender<Offer>>, Offers) {
        let exporters = self.selections.iter().map(|(index, _)| index);
        let exporters = exporters.filter(|index| matches!(self.members.get(index), Some(Ok(_))));
        let pairs = exporters.map(|index| {
            let (sender, receiver) = oneshot::channel();
            ((index, sender), (index, receiver))
        });
        let (senders, offers) = pairs.unzip();
        (senders, Offers(offers))
    }

    /// Publishes the exports of the selected clusters.
    pub(super) async fn export_all(
        &self,
        mut offers: BTreeMap<usize, oneshot::Sender<Offer>>,
    ) -> Exports {
        let Self { function, invocation, registries, selections, members } = *self;
        let exports = selections.iter().filter_map(|(index, selection)| {
            let joined = members.get(&index)?.as_ref().ok()?;
            let cluster = (&function.settings.clusters[index], joined);
            let registry = &registries[&function.clients.registry_of(cluster.0)];
            let offer = offers.remove(&index)?;
            Some(async move {
                let export = invocation.export(cluster, registry, selection, offer);
                (index, Box::pin(export).await)
            })
        });
        let exports: Vec<_> = exports.collect();
        let mut exports = stream::iter(exports).buffer_unordered(CONCURRENT_CLUSTERS);
        let mut all = Exports::default();
        while let Some((index, exported)) = exports.next().await {
            match exported {
                Ok(Some(exported)) => _ = all.published.insert(index, exported),
                Ok(None) => {}
                Err(refused) => _ = all.refused.insert(index, refused),
            }
        }
        all
    }
}

impl Offers {
    /// Waits for all of them.
    pub(super) async fn all(self) -> Offered {
        let mut all = Offered::new();
        for (index, offer) in self.0 {
            all.extend(offer.await.ok().map(|offer| (index, offer)));
        }
        all
    }
}
