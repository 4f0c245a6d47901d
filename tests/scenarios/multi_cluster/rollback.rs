//! Other writers of the same things: a release without exports, or `MULTI_CLUSTER` off, in a world that has them, and
//! the failures of AWS's controller (github.com/aws/aws-cloud-map-mcs-controller-for-k8s, `mcs` and the number of the
//! issue), which the function does not have.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::moving::Moving;
use super::{Members, RECORD, exported, imported, in_full, pods, slices, web};
use crate::fleet::Attributes;
use crate::run::{report, sync, sync_of};
use testbed::clock::StandInClock;
use testbed::kubernetes::{KubernetesServer, Pod};

/// All instances by namespace, service and id.
fn instances(members: &Members) -> BTreeMap<String, Attributes> {
    let cloud_map = &members.fleet.cloud_map;
    let mut all = BTreeMap::new();
    for (namespace, service) in members.fleet.all_services() {
        for (id, attributes) in cloud_map.instances(&service.id) {
            all.insert(format!("{namespace}/{}/{id}", service.name), attributes);
        }
    }
    all
}

fn objects(cluster: &KubernetesServer) -> Vec<Vec<Value>> {
    let kinds = ["serviceexports", "serviceimports", "services"];
    kinds.into_iter().map(|kind| cluster.objects(kind, "shop")).collect()
}

#[tokio::test]
async fn first_flow_alone_leaves_exports_their_records_and_imports_as_they_are() {
    let members = Members::start().await;
    let Members { fleet, blue, green, .. } = &members;
    fleet.web("api", "prod", &["10.0.9.1"]);
    exported(blue, web(), &["10.0.0.1", "10.0.0.2"]);
    exported(green, web(), &["10.1.0.1"]);
    members.converge().await;
    let before = instances(&members);
    let of_green = objects(green);
    let exported = before.values().filter(|it| it.contains_key("cloud-map-sync/exporter"));
    assert_eq!(exported.count(), 7, "{before:#?}");
    // What is different by now is left to the release that knows exports.
    pods(blue, "web", &["10.0.0.3"]);
    green.unexport("shop", "web");
    let of_blue = objects(blue);

    let clock = StandInClock::new();
    let old = fleet.function_with(&[("CLUSTERS", "blue,green")]).await.with_clock(clock.clock());
    for _ in 0..2 {
        clock.advance(Duration::from_hours(24 * 30));
        let synced = sync(&old).await;
        assert!(synced.ok && synced.orphans.is_empty(), "{}", in_full(&synced));
        let targeted = report(&old, &sync_of("blue", "web")).await;
        assert!(targeted.ok, "{}", in_full(&targeted));
    }

    assert_eq!(instances(&members), before);
    assert_eq!(objects(blue), of_blue);
    assert_eq!(objects(green)[1..], of_green[1..]);
    members.converge().await;
    assert_eq!(imported(green, "web"), "blue 10.0.0.3:8080");
}

/// What a release wrote, word for word: another name or spelling of a mark, and the rollback would take it for its own.
#[tokio::test]
async fn recorded_instances_of_an_export_are_foreign_to_the_first_flow() {
    let members = Members::start().await;
    let Members { fleet, blue, .. } = &members;
    let arn = fleet.sandbox.cluster_arn("blue");
    let marks = [
        ("cloud-map-sync/cluster", &*arn),
        ("cloud-map-sync/exporter", "cloud-map-sync"),
        ("cloud-map-sync/namespace", "shop"),
        ("cloud-map-sync/schema", "1"),
        ("cloud-map-sync/service", "web"),
    ];
    let endpoint = [
        ("AWS_INSTANCE_IPV4", "10.0.0.1"),
        ("AWS_INSTANCE_PORT", "8080"),
        ("CLUSTERSET_ID", "shop-set"),
        ("CLUSTER_ID", "blue"),
        ("ENDPOINT_PORT_NAME", "http"),
        ("ENDPOINT_PROTOCOL", "TCP"),
        ("READY", "true"),
        ("SERVICE_EXPORT_CREATION_TIMESTAMP", "1767225600000"),
        ("SERVICE_PORT", "80"),
        ("SERVICE_PORT_NAME", "http"),
        ("SERVICE_PROTOCOL", "TCP"),
        ("SERVICE_TARGET_PORT", "8080"),
        ("SERVICE_TYPE", "ClusterSetIP"),
        ("cloud-map-sync/pod", "web-1"),
    ];
    let cluster = [
        ("cloud-map-sync/clusterset", "shop-set"),
        ("cloud-map-sync/heartbeat", "2026-01-01T00:00:00Z"),
    ];
    let record = [(
        "cloud-map-sync/export",
        r#"{"annotations":{},"created":"2026-01-01T00:00:00Z","ipFamilies":["IPv4"],"labels":{},"ports":[],"type":"ClusterSetIP"}"#,
    )];
    let recorded = [
        ("shop", "web", "tcp-10-0-0-1-8080-0123456789", [&endpoint[..], &marks].concat()),
        ("clusterset.shop-set", "blue", RECORD, [&record[..], &marks].concat()),
        ("clusterset.shop-set", "blue", "cluster", [&cluster[..], &marks[..4]].concat()),
    ];
    fleet.web("web", "shop", &["10.0.0.1"]);
    for (namespace, service, id, map) in &recorded {
        let service = fleet.cloud_map.ensure_service(namespace, service);
        fleet.cloud_map.instance(&service, id, map);
    }
    let before = instances(&members);
    let old = fleet.function_with(&[("CLUSTERS", "blue")]).await;

    // The same pod is annotated under the same name: it has an instance of its own beside that of the export.
    let synced = sync(&old).await;
    assert!(synced.ok && synced.counts.registered == 1, "{}", in_full(&synced));
    blue.delete_service("shop", "web");
    assert!(sync(&old).await.ok);

    assert_eq!(instances(&members), before);
}

/// An endpoint stays in its slices as it was when it came (mcs 192, 270, 273).
#[tokio::test]
async fn readiness_of_an_endpoint_follows_in_the_slices_both_ways() {
    let moving = Moving::new(web()).await;
    let Moving { members, amber, aws, .. } = &moving;
    let pods = [Pod::new("web-1", "10.2.0.1"), Pod::new("web-2", "10.2.0.2")];
    let ready = || {
        let slices = slices(&members.green, "web");
        let endpoints = slices[0]["endpoints"].as_array().cloned().unwrap_or_default();
        let state = |it: &serde_json::Value| it["conditions"]["ready"] == true;
        endpoints.iter().map(state).collect::<Vec<_>>()
    };
    aws.run();
    members.converge().await;
    assert_eq!(ready(), [true, true]);

    amber.pods("shop", "web", &[pods[0].clone().not_ready(), pods[1].clone()]);
    aws.run();
    members.converge().await;
    assert_eq!(ready(), [false, true]);

    amber.pods("shop", "web", &pods);
    aws.run();
    members.converge().await;
    assert_eq!(ready(), [true, true]);
}

/// Its ids have no cluster, so two clusters with one pod network overwrite each other's instances in turn.
#[tokio::test]
async fn clusters_with_overlapping_pod_networks_keep_an_instance_each() {
    let members = Members::start().await;
    for cluster in members.clusters() {
        exported(cluster, web(), &["10.0.0.1"]);
    }

    members.converge().await;

    assert_eq!(members.fleet.values("shop", "web", "CLUSTER_ID"), ["blue", "green"]);
    members.assert_imported("web", "blue 10.0.0.1:8080, green 10.0.0.1:8080", "");
    members.blue.unexport("shop", "web");
    members.converge().await;
    assert_eq!(members.fleet.values("shop", "web", "CLUSTER_ID"), ["green"]);
}

/// Its ids have no port of the Service, so of two ports with one target it registers the last.
#[tokio::test]
async fn two_ports_with_one_target_are_both_registered() {
    let members = Members::start().await;
    exported(&members.blue, web().port_of("TCP", "also", 81, 8080), &["10.0.0.1"]);

    members.converge().await;

    assert_eq!(members.fleet.values("shop", "web", "SERVICE_PORT"), ["80", "81"]);
    let import = members.green.service_import("shop", "web").expect("an import");
    let ports = [0, 1, 2].map(|it| import["spec"]["ports"][it]["port"].as_u64());
    assert_eq!(ports, [Some(80), Some(81), None]);
}
