//! The rights of the enabled directions, each verb by a review: a line for each resource, and one for the verbs that
//! are missing.

use crate::actions::doctor::Check;
use crate::clusterset::identity::{CLUSTER_PROPERTY, CLUSTERSET_PROPERTY};
use crate::error::chain;
use crate::kubernetes::access::{Right, Rights, TO_EXPORT, TO_IMPORT, cluster_property};
use crate::kubernetes::{self, Kubernetes};
use crate::settings::MultiCluster;

const FIX: &str =
    "kubectl apply -k deploy/multi-cluster, and name its group cloud-map-sync in the access entry";

/// Checks all rights of a direction.
pub(super) async fn check(
    kubernetes: &Kubernetes,
    direction: MultiCluster,
    has_properties: bool,
    checks: &mut Vec<Check>,
) {
    for rights in needed(direction, has_properties) {
        match check_one(kubernetes, rights).await {
            Ok(found) => checks.extend(found),
            Err(error) => {
                checks.push(Check::failed("rbac", chain(&error), "try again"));
                return;
            }
        }
    }
}

fn needed(direction: MultiCluster, has_properties: bool) -> Vec<Rights> {
    let exports = TO_EXPORT.into_iter().filter(|_| direction.exports());
    let imports = TO_IMPORT.into_iter().filter(|_| direction.imports());
    let properties = [CLUSTER_PROPERTY, CLUSTERSET_PROPERTY].map(cluster_property);
    let properties = properties.into_iter().filter(|_| has_properties);
    exports.chain(imports).chain(properties).collect()
}

async fn check_one(
    kubernetes: &Kubernetes,
    (verbs, resource): Rights,
) -> Result<Vec<Check>, kubernetes::Error> {
    let (mut allowed, mut missing) = (Vec::new(), Vec::new());
    for verb in verbs {
        let may = kubernetes.may(Right { verb, resource }).await?;
        if may { allowed.push(*verb) } else { missing.push(*verb) }
    }
    let text = |verbs: Vec<&str>| (!verbs.is_empty()).then(|| verbs.join(", "));
    let allowed = text(allowed).map(|it| Check::ok("rbac", format!("may {it} {resource}")));
    let missing =
        text(missing).map(|it| Check::failed("rbac", format!("may not {it} {resource}"), FIX));
    Ok(allowed.into_iter().chain(missing).collect())
}
