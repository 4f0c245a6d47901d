//! The action `doctor`: whether the function can do its work for each cluster. It checks its identity, the way to the
//! cluster (`cluster`), each read of Cloud Map (`cloud_map`) and the quotas there, each only if the checks before it
//! leave something to check. Rights to write cannot be tried: `simulation` has the command that asks IAM about them.
//! Nothing is written.

mod answer;
mod cloud_map;
mod cluster;
mod dns_rights;
mod simulation;

use crate::clients::Connection;
use crate::error::chain;
use crate::model::Selection;
use crate::publish::observe::SharedRegistry;
use crate::publish::plan::{self, Peak, Quota};
use crate::reconcile::Invocation;
use crate::settings::Cluster;

pub use answer::{Check, CheckOutcome, Checkup, ClusterCheckup};

impl Invocation<'_> {
    /// Checks a cluster and the Cloud Map that its Services are kept in.
    pub async fn check_up(&self, cluster: &Cluster, registry: &SharedRegistry) -> Vec<Check> {
        let mut checks = vec![self.identity(cluster).await];
        checks.extend(self.settings.warnings().into_iter().map(check_warning));
        let reached = self.way_to(cluster, &mut checks).await;
        let read = cloud_map::check(registry, self.settings, &mut checks).await;
        if let (Some(connection), true) = (reached, read) {
            self.check_plan(cluster, &connection, registry, &mut checks).await;
        }
        checks
    }

    async fn identity(&self, cluster: &Cluster) -> Check {
        match self.clients.identity(cluster).await {
            Ok(arn) => Check::ok("identity", arn),
            Err(problem) => Check::failed(
                "identity",
                problem,
                "give the function a role; if CLUSTERS names one, let the function assume it",
            ),
        }
    }

    /// What the next full sync could not read, and what it needs, against the quotas.
    async fn check_plan(
        &self,
        cluster: &Cluster,
        connection: &Connection,
        registry: &SharedRegistry,
        checks: &mut Vec<Check>,
    ) {
        let world = self.world(cluster, connection, registry);
        match world.observe(&Selection::Everything).await {
            Ok(observed) => {
                let plan = plan::plan(observed.basis());
                cloud_map::check_unread(&plan, checks);
                checks.extend(plan::peaks(&observed.observation, &plan).iter().map(check_room));
                checks.extend(dns_rights::check(&plan));
            }
            Err(error) => {
                let fix = "see the checks before, or try again";
                checks.push(Check::failed("read", chain(&error), fix));
            }
        }
    }
}

/// Settings that do not go together, and with which the function works nevertheless.
fn check_warning(warning: String) -> Check {
    Check::note("settings", warning, "set GUARD_WAIT to at least a sixth of SCHEDULE_MINUTES")
}

fn check_room(Peak { of, count, quota }: &Peak) -> Check {
    match quota {
        Quota::Service(quota) | Quota::Namespace(quota) if count <= quota => {
            Check::ok("quota", format!("{of} has {count} instances at the most, of {quota}"))
        }
        Quota::Service(quota) => {
            let found = format!("{of} has {count} instances at the most, of {quota}");
            let fix = "split the name, or lower max-instances: AWS does not raise this quota";
            Check::failed("quota", found, fix)
        }
        Quota::Namespace(quota) => {
            let found =
                format!("{of} has {count} instances at the most, and AWS's default is {quota}");
            let fix = "see Service Quotas whether AWS has raised \"instances per namespace\" for this account; if it has not, ask for it, split the namespace, or lower max-instances";
            Check::note("quota", found, fix)
        }
    }
}
