//! A cluster in its clusterset, checked step by step: the API that it serves and the fields that the API declares, the
//! rights of the enabled directions (`rights`) and their limit (`admission`), who the cluster is, and what its exports need
//! in Cloud Map (`exports`).
//! Only for a cluster that takes part; of another one only what it left behind is named.

mod admission;
mod exports;
mod rights;

use super::Check;
use crate::clients::Connection;
use crate::clusterset::members;
use crate::error::chain;
use crate::kubernetes::Kubernetes;
use crate::model::clusterset::Member;
use crate::model::{ClusterArn, Flow, Owner, Registry, Selection};
use crate::publish::exports::INSTALL;
use crate::publish::observe::SharedRegistry;
use crate::reconcile::Invocation;
use crate::report::Obstacle;
use crate::settings::{Cluster, MultiCluster};

/// The version of the API that is needed.
const NEEDED: &str = "multicluster.x-k8s.io/v1beta1";

impl Invocation<'_> {
    /// Checks a cluster in its clusterset.
    pub(super) async fn check_multi_cluster(
        &self,
        cluster: &Cluster,
        connection: &Connection,
        registry: &SharedRegistry,
        checks: &mut Vec<Check>,
    ) {
        let direction = self.settings.multi_cluster_of(cluster);
        if direction == MultiCluster::Off {
            checks.extend(self.left_behind(&connection.cluster.arn, registry).await);
            return;
        }
        let kubernetes = &connection.kubernetes;
        let Some(has_properties) = check_api(kubernetes, checks).await else { return };
        rights::check(kubernetes, direction, has_properties, checks).await;
        if direction.imports() {
            checks.push(admission::check(kubernetes).await);
        }
        let joined = match self.join(cluster, &Selection::Everything).await {
            Some(Ok(joined)) => joined,
            Some(Err(obstacle)) => return checks.push(failed("clusterset", &obstacle)),
            None => return,
        };
        checks.extend(check_member(&joined.member));
        if let Some(imports) = joined.imports() {
            checks.push(Check::ok("imports", format!("has {}", count(imports, "ServiceImport"))));
        }
        if joined.exports() {
            match joined.export(registry, &Selection::Everything, drop).await {
                Ok(Some(exported)) => exports::check(&exported, &joined, checks),
                Ok(None) => {}
                Err(refused) => checks.push(failed("exports", &refused)),
            }
        }
        if let Some(read) = registry.known().await {
            exports::check_registry(&joined, &read, checks);
        }
    }

    /// A note about what a cluster that takes no part any more left in Cloud Map.
    async fn left_behind(&self, arn: &ClusterArn, registry: &SharedRegistry) -> Option<Check> {
        let read: Registry = registry.known().await?;
        let id = &self.settings.owner_id;
        let is_ours =
            |owner: &Owner| owner.id == *id && owner.cluster == *arn && owner.flow == Flow::Exports;
        let all = members::clustersets(&read);
        let mut members = all.values().flatten();
        let (member, view) = members.find(|(_, view)| view.owner().is_some_and(is_ours))?;
        let detail = format!(
            "MULTI_CLUSTER is off for this cluster, and its records under the id {member} stay in Cloud Map, with {}: other clusters still import them",
            count(view.exports(), "export")
        );
        let fix = format!(
            "switch it on again, or end it: {{\"action\":\"purge\",\"cluster\":\"{arn}\"}}"
        );
        Some(Check::note("clusterset", detail, fix))
    }
}

/// Checks the API. Returns whether it has ClusterProperties; `None` if it cannot be used.
async fn check_api(kubernetes: &Kubernetes, checks: &mut Vec<Check>) -> Option<bool> {
    let versions = match kubernetes.multi_cluster_versions().await {
        Ok(versions) => versions,
        Err(error) => {
            let fix = "allow the function to read /apis: system:discovery for authenticated users";
            checks.push(Check::failed("crds", chain(&error), fix));
            return None;
        }
    };
    let served = if versions.is_empty() { "neither".to_owned() } else { versions.join(", ") };
    if !versions.iter().any(|version| version == NEEDED) {
        let detail = format!("{NEEDED} is not served (of it and about.k8s.io: {served})");
        checks.push(Check::failed("crds", detail, INSTALL));
        return None;
    }
    checks.push(Check::ok("crds", format!("serves {served}")));
    match kubernetes.declares_slice_objects().await {
        Ok(true) => checks.push(Check::ok("crds", "ServiceImports declare endpointSliceObjects")),
        Ok(false) => {
            let detail = "ServiceImports do not declare status.endpointSliceObjects (mcs-api before v0.5.1), so it is not written";
            checks.push(Check::note("crds", detail, INSTALL));
        }
        Err(error) => {
            let fix =
                "allow the function to read /openapi: system:discovery for authenticated users";
            checks.push(Check::failed("crds", chain(&error), fix));
        }
    }
    Some(versions.iter().any(|version| version.starts_with("about.k8s.io/")))
}

fn check_member(member: &Member) -> Vec<Check> {
    let Member { cluster, clusterset } = member;
    let is = Check::ok("clusterset", format!("member {cluster} of {clusterset}"));
    let has_two_labels = cluster.as_str().contains('.').then(|| {
        let detail = format!("the cluster id {cluster} has two labels: CoreDNS has no names of single pods under it");
        let fix = "if clients need the names of a StatefulSet's pods, purge the cluster and give it an id of one label";
        Check::note("clusterset", detail, fix)
    });
    [is].into_iter().chain(has_two_labels).collect()
}

/// The failed check of an obstacle. Its detail has the remedy, except for an error.
fn failed(name: &'static str, Obstacle { reason, detail, failed }: &Obstacle) -> Check {
    let fix = if *failed {
        "fix the failed checks above, or try again"
    } else {
        "docs/multi-cluster.md, section \"What stops it\""
    };
    Check::failed(name, format!("{reason}: {detail}"), fix)
}

fn count(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
