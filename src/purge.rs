//! All of ours for one cluster in one Cloud Map, top to bottom: read, plan, apply, report. Wiring only.
//! The cluster is not asked for anything, since it may be gone.

use tokio::time::Instant;

use crate::apply::Task;
use crate::cloud_map::Urgency;
use crate::model::ClusterArn;
use crate::observe::SharedRegistry;
use crate::plan::DeregisterReason;
use crate::reconcile::{Error, Invocation};
use crate::report::ClusterReport;

impl Invocation<'_> {
    /// Takes out, or plans to, all that carries this installation's owner id and the cluster's ARN.
    ///
    /// # Errors
    /// Where namespaces or services could not be listed to the end.
    pub async fn purge(
        &self,
        cluster: &ClusterArn,
        registry: &SharedRegistry,
        because: &DeregisterReason,
    ) -> Result<ClusterReport, Error> {
        let read = self.in_time(registry.read()).await?;
        let observed = self.of_cluster(cluster.clone(), &read);
        let task = Task::Purge(registry, because);
        let terms = (Urgency::Bulk, Instant::now());
        Ok(self.carry_out(&task, observed.basis(), terms).await.report)
    }
}
