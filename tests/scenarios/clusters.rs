//! Many clusters in one invocation: each is served for itself, and what is wrong with one stops no other.

use std::time::Duration;

use cloud_map_sync::deadline::Deadline;
use serde_json::{Value, json};

use crate::fleet::{Fleet, OWNER, annotated, give_pods};
use crate::run::{converge, problem, sync};
use crate::sandbox::cloud_map::NamespaceKind;
use crate::sandbox::function::event;
use crate::sandbox::kubernetes::{ClusterIdentity, Fault, FaultKind, KubernetesServer};
use crate::sandbox::{ACCOUNT, REGION, ROLE_ARN};

/// A cluster with a Service `web` that claims its name in `prod`, and one pod.
async fn cluster(fleet: &Fleet, name: &str, region: &str, pod: &str) -> (KubernetesServer, String) {
    let (name, region, account) = (name.to_owned(), region.to_owned(), ACCOUNT.to_owned());
    let identity = ClusterIdentity { name, region, account };
    let arn = identity.arn();
    let server = fleet.sandbox.add_cluster(identity, ROLE_ARN).await;
    server.service(annotated("web", "prod", "web"));
    give_pods(&server, "web", &[pod]);
    (server, arn)
}

/// Everything that these clusters register is ours.
fn watch_over(fleet: &Fleet, arns: &[String]) {
    fleet.cloud_map.watch_over(OWNER, &arns.iter().map(String::as_str).collect::<Vec<_>>());
}

#[tokio::test]
async fn schedule_serves_every_cluster_that_it_can_and_names_the_others_in_the_end() {
    let fleet = Fleet::start().await;
    let (forbidden, one) = cluster(&fleet, "forbidden", REGION, "10.0.1.1").await;
    let (slow, two) = cluster(&fleet, "slow", REGION, "10.0.2.1").await;
    let (_, three) = cluster(&fleet, "strange", REGION, "10.0.3.1").await;
    let (_, good) = cluster(&fleet, "good", REGION, "10.0.4.1").await;
    watch_over(&fleet, &[one.clone(), two.clone(), three.clone(), good.clone()]);
    forbidden.fail(Fault::always("/", FaultKind::Status(403)));
    slow.fail(Fault::always("/", FaultKind::Slow(Duration::from_mins(1))));
    let role = "arn:aws:iam::444455556666:role/reader";
    fleet.sandbox.role(role, Some("shared-secret"));
    let strange = json!({ "cluster": three, "roleArn": role, "externalId": "another" });
    let clusters = json!([one, two, strange, good]).to_string();
    let function = fleet.function_with(&[("CLUSTERS", &clusters)]).await;

    // Three seconds are kept for the end, so three are left to work in.
    let deadline = Deadline::after(Duration::from_secs(6));
    let answer = function.invoke(&event("schedule-eventbridge-scheduler"), deadline).await;

    let error = answer.response.expect_err("three were not served");
    assert_eq!(error.kind(), "SyncIncomplete");
    assert!(error.to_string().contains("3 clusters not read"), "{error}");
    let report = answer.report.expect("a report");
    let wrong = [("forbidden", "rbac.yaml"), ("slow", "time"), ("strange", "AssumeRole")];
    for (cluster, helps) in wrong {
        assert!(problem(&report, cluster).contains(helps), "{cluster}: {report}");
    }
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.4.1"]);
}

#[tokio::test]
async fn registry_that_cannot_be_reached_stops_only_the_clusters_that_are_kept_in_it() {
    let fleet = Fleet::start().await;
    let (_, here) = cluster(&fleet, "here", REGION, "10.0.1.1").await;
    let (_, there) = cluster(&fleet, "there", REGION, "10.0.2.1").await;
    watch_over(&fleet, std::slice::from_ref(&here));
    let role = "arn:aws:iam::444455556666:role/registry-writer";
    fleet.sandbox.role(role, Some("shared-secret"));
    let far = fleet.sandbox.cloud_map_of(REGION, "444455556666");
    far.watch_over(OWNER, &[&there]);
    far.namespace("prod", NamespaceKind::Http);
    let with = |external_id: &str| -> Value {
        json!([here, { "cluster": there, "registryRoleArn": role, "externalId": external_id }])
    };

    let function = fleet.function_with(&[("CLUSTERS", &with("wrong").to_string())]).await;
    let report = sync(&function).await;
    assert!(problem(&report, "there").contains("AssumeRole"), "{report}");
    assert_eq!((problem(&report, "here").as_str(), report.counts.registered), ("", 1), "{report}");

    let function = fleet.function_with(&[("CLUSTERS", &with("shared-secret").to_string())]).await;
    converge(&fleet, &function).await;
    let service = far.find_service("prod", "web").expect("created there");
    assert_eq!(far.instances(&service).len(), 1);
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn more_clusters_than_are_served_at_once_are_all_served() {
    let fleet = Fleet::start().await;
    let mut arns = Vec::new();
    for index in 0..12 {
        let pod = format!("10.0.{index}.1");
        arns.push(cluster(&fleet, &format!("c-{index}"), REGION, &pod).await.1);
    }
    watch_over(&fleet, &arns);
    let clusters = json!(arns).to_string();
    let function = fleet.function_with(&[("CLUSTERS", &clusters)]).await;

    let report = converge(&fleet, &function).await;

    assert_eq!((report.clusters.len(), report.counts.registered), (12, 12), "{report}");
    assert_eq!(fleet.cloud_map.services(&fleet.http).len(), 1, "one was created for all");
}

#[tokio::test]
async fn clusters_of_one_name_in_two_regions_are_told_apart() {
    let fleet = Fleet::start().await;
    let (_, east) = cluster(&fleet, "twin", REGION, "10.0.1.1").await;
    let (west_server, west) = cluster(&fleet, "twin", "eu-west-1", "10.0.2.1").await;
    watch_over(&fleet, &[east.clone(), west.clone()]);
    let clusters = json!([east, { "cluster": west, "registryRegion": REGION }]).to_string();
    let function = fleet.function_with(&[("CLUSTERS", &clusters)]).await;
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.2.1"]);

    west_server.delete_service("shop", "web");
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}
