//! The exports that this invocation read, and what stands in place of them in the imports: known before the exports are
//! published ([`Told`]) unless the guard may hold a loss, else after it ([`Overlays::of`]). Exports that could not be
//! published since Cloud Map cannot be read stand in place of it only if nothing at all is read of it.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::oneshot;

use super::Members;
use super::exports::Exports;
use crate::function::scope::Selections;
use crate::import::sources::Overlay;
use crate::model::clusterset::ClusterId;
use crate::publish::exports::Early;

/// The exports that this invocation read.
#[derive(Default)]
pub(super) struct Overlays {
    /// By the cluster's index in the settings.
    pub(super) by_cluster: BTreeMap<usize, (ClusterId, Overlay)>,
    /// The exports that the guard could not judge, since Cloud Map could not be read.
    pub(super) unregistered: BTreeMap<usize, (ClusterId, Overlay)>,
    /// The clusters that were read, those whose losses the guard holds among them.
    pub(super) read: BTreeSet<usize>,
    /// The clusters that nothing is imported into.
    pub(super) left: BTreeSet<usize>,
    /// The clusters that have their own record by now.
    pub(super) recorded: BTreeSet<usize>,
}

/// What the clusters tell before their exports are published.
pub(super) struct Told(BTreeMap<usize, oneshot::Receiver<Early>>);

impl Overlays {
    /// After the exports were published. While the guard holds a loss of exports, nothing leaves their imports either.
    /// `left`: the clusters that nothing is imported into.
    pub(super) fn of(
        (members, selections): (&Members, &Selections),
        exports: &Exports,
        left: BTreeSet<usize>,
    ) -> Self {
        let Exports { published, refused } = exports;
        let selected = |index: &usize| {
            let joined = members.get(index)?.as_ref().ok()?;
            Some((joined, selections.of(*index)?.clone()))
        };
        let overlays = published.iter().filter_map(|(index, published)| {
            let (joined, covers) = selected(index)?;
            Some((*index, published.overlay(joined, covers)))
        });
        let recorded = published.iter().filter(|(_, it)| it.exported.has_cluster_record);
        let recorded = recorded.map(|(index, _)| *index).collect();
        let read = published.keys().copied().collect();
        let unregistered = refused.iter().filter_map(|(index, refused)| {
            let (joined, covers) = selected(index)?;
            Some((*index, joined.overlay(refused.exports.clone()?, covers)))
        });
        let (by_cluster, unregistered) = (overlays.collect(), unregistered.collect());
        Self { by_cluster, unregistered, read, left, recorded }
    }
}

impl Told {
    /// With the other end for each selected cluster.
    pub(super) fn by(
        selections: &Selections,
        members: &Members,
    ) -> (BTreeMap<usize, oneshot::Sender<Early>>, Self) {
        let exporters = selections.iter().map(|(index, _)| index);
        let exporters = exporters.filter(|index| matches!(members.get(index), Some(Ok(_))));
        let (mut senders, mut told) = (BTreeMap::new(), BTreeMap::new());
        for index in exporters {
            let (sender, receiver) = oneshot::channel();
            senders.insert(index, sender);
            told.insert(index, receiver);
        }
        (senders, Self(told))
    }

    /// What was read; `None` if it is not certain yet whether the guard holds a loss. A cluster that was not read tells
    /// nothing.
    pub(super) async fn overlays(
        self,
        selections: &Selections,
        members: &Members,
    ) -> Option<Overlays> {
        let mut overlays = Overlays::default();
        for (index, told) in self.0 {
            let (Some(Ok(joined)), Some(covers)) = (members.get(&index), selections.of(index))
            else {
                continue;
            };
            let overlay = |exports| joined.overlay(exports, covers.clone());
            match told.await {
                Ok(Early::Sure { exports, has_cluster_record }) => {
                    overlays.recorded.extend(has_cluster_record.then_some(index));
                    overlays.read.insert(index);
                    overlays.by_cluster.insert(index, overlay(exports));
                }
                Ok(Early::Unregistered(exports)) => {
                    overlays.unregistered.insert(index, overlay(exports));
                }
                Ok(Early::Unsure) => return None,
                Ok(Early::Nothing) => _ = overlays.left.insert(index),
                Err(_) => {}
            }
        }
        Some(overlays)
    }
}
