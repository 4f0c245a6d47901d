//! `FAN_OUT`: the schedule queues one message for each cluster. What the run for it does not finish is left to the next
//! one, which plans from the current state.

use futures_util::future::join_all;
use serde_json::json;

use super::own_queue::{self, OwnQueue};
use super::{Function, Reply};
use crate::clients;
use crate::error::chain;
use crate::settings::Cluster;

impl Function {
    /// Queues one message for each cluster, if there are several. `None` if the schedule has to sync them itself.
    pub(super) async fn fan_out(&self) -> Option<Reply> {
        let configured = self.configured();
        let queue = self.full_sync_queue.as_ref().filter(|_| configured.clusters().count() > 1)?;
        let clusters = self.settings.clusters.iter();
        let sent = join_all(clusters.map(|cluster| self.queue_full_sync(queue, cluster))).await;
        // The others failed for the same cause: they went to one queue at one time.
        if let Some(error) = sent.iter().find_map(|sent| sent.as_ref().err()) {
            tracing::error!(
                "cannot queue the clusters, so this run syncs all of them: {}",
                chain(error)
            );
        }
        let sent: Vec<bool> = sent.into_iter().collect::<Result<_, _>>().ok()?;
        let queued = sent.iter().filter(|sent| **sent).count();
        tracing::info!(clusters = queued, "every cluster is queued as a message");
        let response = Ok(json!({ "ok": true, "handedOn": queued }));
        Some(Reply::queued(self.awaited().await, response))
    }

    /// Queues the full sync of a cluster, unless it turns out that another entry of the settings serves it.
    async fn queue_full_sync(
        &self,
        queue: &OwnQueue,
        cluster: &Cluster,
    ) -> Result<bool, own_queue::Error> {
        if !cluster.namesakes.is_empty()
            && let Err(error @ clients::Error::NamedTwice { .. }) =
                self.clients.connect(cluster).await
        {
            tracing::warn!(cluster = cluster.label(), "{error}");
            return Ok(false);
        }
        let name = self.name_in_messages(cluster);
        queue.send(&json!({ "action": "sync", "cluster": name })).await.map(|()| true)
    }

    /// The ARNs of the clusters that page, under which their own runs write metrics. A cluster that EKS does not describe
    /// now is left out.
    async fn awaited(&self) -> Vec<String> {
        let configured = self.configured();
        let paging = configured.clusters().filter(|cluster| self.settings.pages(cluster));
        let arns = join_all(paging.map(|cluster| self.arn_of(cluster))).await;
        arns.into_iter().flatten().map(|arn| arn.to_string()).collect()
    }
}
