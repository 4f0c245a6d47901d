//! A cluster that is kept in another Cloud Map now: what it left behind is told, and a purge can be told where.

use cloud_map_sync::function::Function;
use serde_json::{Value, json};

use crate::fleet::{Fleet, OWNER, web_of};
use crate::run::{converge, report, sync};
use testbed::cloud_map::{CloudMap, Fault, FaultKind, NamespaceKind};
use testbed::function::invoke;
use testbed::{ACCOUNT, REGION};

const WEST: &str = "eu-west-1";
const WEEK: (&str, &str) = ("PURGE_DEAD_CLUSTERS_AFTER", "7d");

/// `green` was kept where `blue` is, and is kept in `eu-west-1` now.
async fn moved() -> (Fleet, CloudMap, Value) {
    let fleet = Fleet::start().await;
    let green = fleet.green().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    web_of(&green, "web", "prod", &["10.0.2.1", "10.0.2.2"]);
    converge(&fleet, &fleet.function().await).await;
    let west = fleet.sandbox.cloud_map_of(WEST, ACCOUNT);
    west.watch_over(OWNER, &[&fleet.sandbox.cluster_arn("green")]);
    west.namespace("prod", NamespaceKind::Http);
    fleet.cloud_map.forget_calls();
    (fleet, west, json!(["blue", { "cluster": "green", "registryRegion": WEST }]))
}

fn count(cloud_map: &CloudMap) -> usize {
    let service = cloud_map.find_service("prod", "web");
    service.map_or(0, |service| cloud_map.instances(&service).len())
}

async fn function(fleet: &Fleet, clusters: &Value) -> Function {
    fleet.function_with(&[("CLUSTERS", &clusters.to_string()), WEEK]).await
}

#[tokio::test]
async fn nothing_is_judged_while_the_new_cloud_map_cannot_be_read() {
    let (fleet, west, clusters) = moved().await;
    west.inject(Fault::on("ListServices", FaultKind::AccessDenied).always());
    let report = sync(&function(&fleet, &clusters).await).await;
    assert_eq!((report.ok, report.orphans.len()), (false, 0), "{report}");
    assert_eq!(count(&fleet.cloud_map), 3);
}

/// The same account and Region by another role.
#[tokio::test]
async fn what_the_new_cloud_map_shows_too_is_no_orphan() {
    let (fleet, _, _) = moved().await;
    let role = format!("arn:aws:iam::{ACCOUNT}:role/registry-writer");
    fleet.sandbox.role(&role, None);
    let clusters = json!(["blue", { "cluster": "green", "registryRoleArn": role }]);
    let report = sync(&function(&fleet, &clusters).await).await;
    assert_eq!((report.ok, report.orphans.len()), (true, 0), "{report}");
}

#[tokio::test]
async fn purge_of_one_cloud_map_leaves_the_other_alone() {
    let (fleet, west, clusters) = moved().await;
    let function = function(&fleet, &clusters).await;
    sync(&function).await;
    let purge = |registry: &str| json!({ "action": "purge", "cluster": "green", "registry": registry, "confirm": true });

    let answer = invoke(&function, &purge("444455556666/eu-west-1")).await;
    let error = answer.response.expect_err("no such Cloud Map").to_string();
    assert!(error.contains(&format!("{ACCOUNT}/{REGION}, {ACCOUNT}/{WEST}")), "{error}");
    assert_eq!((count(&fleet.cloud_map), count(&west)), (3, 2));

    let report = report(&function, &purge(&format!("{ACCOUNT}/{REGION}"))).await;
    assert_eq!((report.ok, report.counts.deregistered), (true, 2), "{report}");
    assert_eq!(report.clusters[0].warnings, [""; 0], "nothing comes back: {report}");
    assert_eq!((count(&fleet.cloud_map), count(&west)), (1, 2));
}
