//! The action `doctor`: whether the function can work for each cluster. It checks its identity, the connection to the
//! cluster (`cluster`), each read of Cloud Map (`cloud_map`) and the quotas there, and what a clusterset needs
//! (`multi_cluster`). A check runs only if the checks that it depends on passed. Write permissions cannot be tested:
//! `cloud_map` prints the command that simulates them in IAM. Nothing is written.

mod answer;
mod cloud_map;
mod cluster;
mod multi_cluster;

use crate::clients::Connection;
use crate::error::chain;
use crate::model::{Guard, Selection};
use crate::publish::observe::SharedRegistry;
use crate::publish::plan::{self, Peak};
use crate::reconcile::Invocation;
use crate::settings::Cluster;

pub use answer::{Check, CheckOutcome, Checkup, ClusterCheckup};

impl Invocation<'_> {
    /// Checks a cluster and its Cloud Map.
    pub async fn check_cluster(&self, cluster: &Cluster, registry: &SharedRegistry) -> Vec<Check> {
        let mut checks = vec![self.identity(cluster).await];
        checks.extend(
            self.settings
                .warnings()
                .into_iter()
                .map(|it| check_warning(it, self.settings.rules.guard)),
        );
        checks.extend(self.settings.rules.allow_every_name().then(note_every_name));
        let connection = self.check_connection(cluster, &mut checks).await;
        let read = cloud_map::check(registry, self.settings, &mut checks).await;
        if let (Some(connection), true) = (connection, read) {
            self.check_plan(cluster, &connection, registry, &mut checks).await;
            let of_clusterset =
                self.check_multi_cluster(cluster, &connection, registry, &mut checks);
            Box::pin(of_clusterset).await;
        }
        checks
    }

    async fn identity(&self, cluster: &Cluster) -> Check {
        match self.clients.identity(cluster).await {
            Ok(arn) => Check::ok("identity", arn),
            Err(problem) => Check::failed(
                "identity",
                problem,
                "give the function a role; if CLUSTERS names a role, allow the function to assume it",
            ),
        }
    }

    /// Plans a full sync, and checks its unreadable services, its instance counts against the quotas and its DNS
    /// rights.
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
                let plan = plan::plan(&observed);
                cloud_map::check_unread(&plan, checks);
                checks.extend(plan::peaks(&observed, &plan).iter().map(check_capacity));
                checks.extend(cloud_map::check_dns_rights(&plan));
                let registry = &observed.registry;
                checks.extend(cloud_map::note_health_checks(&plan, registry));
            }
            Err(error) => {
                let fix = "fix the failed checks above, or try again";
                checks.push(Check::failed("read", chain(&error), fix));
            }
        }
    }
}

/// A note about settings that do not fit together, although the function works with them. But for the guard's, it says
/// what to set.
fn check_warning(warning: String, guard: Guard) -> Check {
    let is_of_guard = guard.mismatch().is_some_and(|it| it == warning);
    let fix = "set GUARD_WAIT to at least a sixth of SCHEDULE_MINUTES";
    let fix = is_of_guard.then(|| fix.to_owned());
    Check { fix, ..Check::note("settings", warning, "") }
}

fn note_every_name() -> Check {
    let detail = "NAME_POLICY allows every Service every name, those of ECS tasks too";
    let fix = "limit it: docs/security.md#name-policy has a policy to start with";
    Check::note("names", detail, fix)
}

fn check_capacity(Peak { of, count, quota, is_fixed }: &Peak) -> Check {
    let default = if *is_fixed || count <= quota { "" } else { "default " };
    let detail = format!("{of} needs up to {count} instances; the {default}quota is {quota}");
    if count <= quota {
        Check::ok("quota", detail)
    } else if *is_fixed {
        let fix = "use more than one name, or lower max-instances: AWS does not raise this quota";
        Check::failed("quota", detail, fix)
    } else {
        let fix = "check \"instances per namespace\" of this account in Service Quotas; if it is too low, request an increase, use more than one namespace, or lower max-instances";
        Check::note("quota", detail, fix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SignedDuration;

    #[test]
    fn warning_has_the_fix_of_the_guard_if_it_is_the_guards() {
        let guard = Guard { period: SignedDuration::from_hours(2), ..Guard::default() };
        let of_guard = guard.mismatch().expect("the schedule is too slow");
        assert!(check_warning(of_guard, guard).fix.is_some());
        assert_eq!(check_warning("REGISTRY_READ is ignored".to_owned(), guard).fix, None);
    }
}
