//! The clusters that import what a run is about. A full sync imports into every served cluster, and so does a sync of a
//! few Services: their endpoints reach the other clusters in the same invocation. With `FAN_OUT`, or more than
//! [`TOGETHER`] clusters, each of the others gets a message `{"cluster","namespace","service","import":true}` for what
//! has changed. The invocation for it imports that name into that cluster, and sends nothing.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use serde_json::json;

use super::Members;
use crate::error::chain;
use crate::function::Function;
use crate::function::own_queue::OwnQueue;
use crate::function::scope::{self, Selections};
use crate::model::{Selection, ServiceRef};
use crate::publish::exports::Exported;
use crate::reconcile::Invocation;
use crate::report::Mode;

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
            let selected: BTreeSet<usize> = selections.iter().map(|(index, _)| index).collect();
            // With `FAN_OUT` each full sync is for its own cluster, and takes the others from Cloud Map, as does an
            // adoption.
            let is_own = is_adoption
                || self.full_sync_queue.is_some()
                || self.queue_for_imports(&all).is_some();
            let clusters = self.configured();
            let clusters = clusters.indexes().filter(|it| !is_own || selected.contains(it));
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

    /// Sends a message for each other cluster and each export that was changed in Cloud Map. If one is lost, that
    /// cluster follows on its schedule.
    pub(super) async fn hand_imports_on(
        &self,
        invocation: &Invocation<'_>,
        selections: &Selections,
        (members, published): (&Members, &BTreeMap<usize, Exported>),
    ) {
        let all = selections.all().filter(|_| invocation.mode == Mode::Sync);
        let Some((queue, all)) =
            all.as_ref().and_then(|all| Some((self.queue_for_imports(all)?, all)))
        else {
            return;
        };
        let mut messages = Vec::new();
        for (source, published) in published {
            let mut changed = published.changed();
            changed.retain(|service| all.contains(service));
            if changed.len() > MOST_SERVICES {
                tracing::info!(
                    exports = changed.len(),
                    "other clusters import these exports on their schedule"
                );
                continue;
            }
            for importer in self.configured().indexes().filter(|it| !members.contains_key(it)) {
                if self.may_import_from(importer, (*source, members)) {
                    messages.extend(changed.iter().map(|service| (importer, service.clone())));
                }
            }
        }
        let sends =
            messages.iter().map(|(importer, service)| self.send_import(queue, *importer, service));
        stream::iter(sends).buffer_unordered(SIDE_BY_SIDE).collect::<()>().await;
        if !messages.is_empty() {
            tracing::info!(messages = messages.len(), "other clusters import by messages");
        }
    }

    /// Whether a cluster may be a member of the clusterset of another one.
    fn may_import_from(&self, importer: usize, (source, members): (usize, &Members)) -> bool {
        let [importer, source_cluster] =
            [importer, source].map(|index| &self.settings.clusters[index]);
        let registry = |cluster| self.clients.registry_of(cluster);
        let clusterset =
            members.get(&source).and_then(|it| Some(&it.as_ref().ok()?.member.clusterset));
        let is_of_other =
            importer.membership.clusterset.as_ref().is_some_and(|it| Some(it) != clusterset);
        self.settings.multi_cluster_of(importer).imports()
            && registry(importer) == registry(source_cluster)
            && !is_of_other
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
