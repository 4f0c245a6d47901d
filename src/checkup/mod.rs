//! Whether the function can do its work for a cluster: from its identity over the way to the cluster
//! (`cluster`) to each read of Cloud Map (`cloud_map`) and the room there, each check only where those before
//! it leave something to check. Nothing is written.

mod cloud_map;
mod cluster;

use crate::clients::Connection;
use crate::model::Selection;
use crate::observe::SharedRegistry;
use crate::plan::{self, Peak};
use crate::reconcile::Invocation;
use crate::report::chain;
use crate::report::checkup::Check;
use crate::settings::Cluster;

impl Invocation<'_> {
    /// Checks a cluster and the Cloud Map that its Services are kept in.
    pub async fn check_up(&self, cluster: &Cluster, registry: &SharedRegistry) -> Vec<Check> {
        let mut checks = vec![self.identity(cluster).await];
        let reached = self.way_to(cluster, &mut checks).await;
        let read = cloud_map::check(registry, self.settings.dry_run, &mut checks).await;
        if let (Some(connection), true) = (reached, read) {
            checks.extend(self.room(cluster, &connection, registry).await);
        }
        checks
    }

    async fn identity(&self, cluster: &Cluster) -> Check {
        match self.clients.identity(cluster).await {
            Ok(arn) => Check::ok("identity", arn),
            Err(problem) => Check::failed(
                "identity",
                problem,
                "give the function a role, and where CLUSTERS names one, let the function assume it",
            ),
        }
    }

    /// What the next full sync needs, against the quotas.
    async fn room(
        &self,
        cluster: &Cluster,
        connection: &Connection,
        registry: &SharedRegistry,
    ) -> Vec<Check> {
        let world = self.world(cluster, connection, registry);
        match world.observe(&Selection::Everything).await {
            Ok((observation, affected)) => {
                let plan = plan::plan(&observation, &affected);
                plan::peaks(&observation, &plan).iter().map(check_room).collect()
            }
            Err(error) => {
                vec![Check::failed("read", chain(&error), "see the checks before, or try again")]
            }
        }
    }
}

fn check_room(Peak { of, count, quota }: &Peak) -> Check {
    let said = format!("{of} has {count} instances at the most, of {quota}");
    if count > quota {
        let fix = "split the name or the namespace, or lower max-instances; AWS raises the quota of a namespace (tell the function with NAMESPACE_INSTANCE_LIMIT), and that of a service never";
        return Check::failed("quota", said, fix);
    }
    Check::ok("quota", said)
}
