//! The cleanup after all clusters were read, by a full sync or by the action `cleanup` (`claims`): orphans, the instances
//! of clusters that are gone or no longer configured (`dead_clusters`, `existences`), and our empty Cloud Map services
//! (`empty_services`).

pub mod dead_clusters;
mod empty_services;

use crate::model::Selection;
use crate::publish;
use crate::publish::observe::SharedRegistry;
use crate::publish::plan::Claimed;
use crate::reconcile::{Error, Invocation};
use crate::report::ClusterReport;
use crate::settings::Cluster;

impl Invocation<'_> {
    /// Reads the claims of a cluster, those of its exports among them, and sets the TTLs of names that it shares.
    ///
    /// # Errors
    /// Returns an error if the cluster, its exports or the registry could not be read completely.
    pub async fn clean_up_cluster(
        &self,
        cluster: &Cluster,
        registry: &SharedRegistry,
    ) -> Result<(ClusterReport, Claimed), Error> {
        let of_exports = self.claims_of_exports(cluster, registry).await?;
        let shared = self.connected(cluster, async |connection| {
            let world = self.world(cluster, connection, registry);
            if let Some(account) = cluster.registry_account(&world.owner.cluster) {
                registry.set_account(account);
            }
            Ok(publish::share_ttls(&world, self.options()).await?)
        });
        let (report, claimed) = shared.await?;
        Ok((report, claimed.and(of_exports)))
    }

    async fn claims_of_exports(
        &self,
        cluster: &Cluster,
        registry: &SharedRegistry,
    ) -> Result<Claimed, Error> {
        // The objects of its imports claim nothing.
        let joined = match self.join(cluster, &Selection::nothing()).await {
            Some(Ok(joined)) if joined.exports() => joined,
            Some(Err(obstacle)) if obstacle.failed => return Err(Error::Exports(obstacle.detail)),
            Some(_) | None => return Ok(Claimed::default()),
        };
        let world = joined.exporting(registry);
        Ok(publish::claims(&world, self.deadline).await?)
    }
}
