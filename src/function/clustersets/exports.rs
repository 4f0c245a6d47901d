//! The exports of a run: those of each selected cluster that joined are published side by side. Each offers its exports
//! to importers once ([`Offer`]), and [`Overlays`] are all of them.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use tokio::sync::oneshot;

use super::{CONCURRENT_CLUSTERS, Clustersets};
use crate::import::OwnRecord;
use crate::model::clusterset::Overlay;
use crate::publish::exports::{Exported, Offer};
use crate::report::Obstacle;

/// The exports of a run, by the cluster's index in the settings.
#[derive(Default)]
pub(super) struct Exports {
    pub(super) published: BTreeMap<usize, Exported>,
    /// The clusters whose exports were not published.
    pub(super) refused: BTreeMap<usize, Obstacle>,
}

/// The exports that this invocation read, by the cluster's index in the settings.
#[derive(Default)]
pub(super) struct Overlays {
    pub(super) by_cluster: BTreeMap<usize, Overlay>,
    /// The exports that the guard could not judge, since Cloud Map could not be read.
    pub(super) unregistered: BTreeMap<usize, Overlay>,
    /// The clusters that nothing is imported into.
    pub(super) left: BTreeSet<usize>,
    /// Whether a cluster got its own record, if it was asked for it.
    pub(super) own_records: BTreeMap<usize, OwnRecord>,
}

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
    /// Waits for all of them. A cluster that was not read offers nothing.
    pub(super) async fn overlays(self) -> Overlays {
        let mut overlays = Overlays::default();
        for (index, offer) in self.0 {
            match offer.await {
                Ok(Offer::Exports { overlay, has_cluster_record }) => {
                    let stands = has_cluster_record.then_some((index, OwnRecord::Stands));
                    overlays.own_records.extend(stands);
                    overlays.by_cluster.insert(index, overlay);
                }
                Ok(Offer::Unregistered(overlay)) => {
                    overlays.unregistered.insert(index, overlay);
                }
                Ok(Offer::Unrecorded) => {
                    overlays.own_records.insert(index, OwnRecord::Refused);
                }
                Ok(Offer::Nothing) => _ = overlays.left.insert(index),
                Err(_) => {}
            }
        }
        overlays
    }
}
