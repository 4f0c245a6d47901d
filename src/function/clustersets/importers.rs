//! The clusters that import what a run is about. A full sync imports into every served cluster, and so does a sync of a
//! few Services: their endpoints reach the other clusters in the same invocation. With `FAN_OUT`, or more than
//! [`TOGETHER`] clusters, each of the others gets a message `{"cluster","namespace","service","import":true}` for what
//! has changed. The invocation for it imports that name into that cluster, and sends nothing.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use serde_json::json;

use super::{Clustersets, Exports};
use crate::error::chain;
use crate::function::Function;
use crate::function::own_queue::OwnQueue;
use crate::function::scope::{self, Selections};
use crate::model::{Selection, ServiceRef};
use crate::reconcile::Joined;

/// The number of clusters that one invocation imports into for a few Services.
const TOGETHER: usize = 8;
/// With more Services changed, the other clusters follow on their schedule.
const MOST_SERVICES: usize = 40;
/// The number of messages that are sent at once.
const SIDE_BY_SIDE: usize = 8;

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
            scope::add(&mut importers, index, selection);
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
    pub(super) async fn hand_imports_on(&self, exports: &Exports) {
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
        stream::iter(sends).buffer_unordered(SIDE_BY_SIDE).collect::<()>().await;
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
