//! The failures of AWS's controller (github.com/aws/aws-cloud-map-mcs-controller-for-k8s, `mcs` and the number of an
//! issue), each as a test of this function. Others have theirs where the behaviour is: no conditions (mcs 196) in
//! `story`, conflicts and the type by the age of an export (mcs 196) in the tables of `clusterset::merge`, the calls of many exports
//! (mcs 128) in `growth`, attributes of others (mcs 312) in the tables of the plan, stale endpoints of a dead cluster
//! (mcs 140) in `purge`.

use super::moving::Moving;
use super::{Members, exported, imported, slices, sources, web};
use testbed::kubernetes::Pod;

const CREATED: &str = "2026-01-01T00:00:00Z";

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
    for cluster in [&members.blue, &members.green] {
        exported(cluster, web(), &["10.0.0.1"], CREATED);
    }

    members.converge().await;

    assert_eq!(members.fleet.values("shop", "web", "CLUSTER_ID"), ["blue", "green"]);
    let both = sources([("blue", &["10.0.0.1:8080"]), ("green", &["10.0.0.1:8080"])]);
    for cluster in [&members.blue, &members.green] {
        assert_eq!(imported(cluster, "web"), both);
    }
    members.blue.unexport("shop", "web");
    members.converge().await;
    assert_eq!(members.fleet.values("shop", "web", "CLUSTER_ID"), ["green"]);
}

/// Its ids have no port of the Service, so of two ports with one target it registers the last.
#[tokio::test]
async fn two_ports_with_one_target_are_both_registered_and_adopted_without_a_loss() {
    let two = || web().port_of("TCP", "also", 81, 8080);
    let moving = Moving::new(two()).await;
    let Moving { members, aws, .. } = &moving;
    aws.export();
    assert_eq!(members.fleet.values("shop", "web", "SERVICE_PORT").len(), 2, "one for each pod");
    members.fleet.cloud_map.keep_ready("shop", "web", "amber");
    moving.take_finalizers_off();
    moving.allow_adoption("web");

    assert!(moving.adopt().await.ok);
    moving.converge(&moving.function).await;

    let ports = members.fleet.values("shop", "web", "SERVICE_PORT");
    assert_eq!(ports, ["80", "80", "81", "81"]);
    let import = members.green.service_import("shop", "web").expect("an import");
    let ports: Vec<_> = import["spec"]["ports"].as_array().expect("ports").clone();
    assert_eq!(ports.iter().map(|it| it["port"].clone()).collect::<Vec<_>>(), [80, 81]);
}
