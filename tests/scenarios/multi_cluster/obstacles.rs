//! What keeps a cluster out of its clusterset takes nothing away from anybody.

use super::{Members, condition, exported, imported, in_full, sources, web};
use crate::run::sync;
use crate::sandbox::kubernetes::{Export, Fault, FaultKind};

const CREATED: &str = "2026-01-01T00:00:00Z";

/// The codes of the obstacles of a cluster in a report.
fn obstacles(report: &cloud_map_sync::report::Report, cluster: &str) -> Vec<String> {
    let found = report.clusters.iter().find(|it| it.cluster.ends_with(cluster));
    let report = found.and_then(|it| it.multi_cluster.as_ref()).expect("a report");
    report.obstacles.iter().map(|it| it.reason.to_string()).collect()
}

#[tokio::test]
async fn absent_api_or_identity_is_told_and_removes_nothing() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    members.converge().await;
    members.blue.serve_multi_cluster_versions(&[]);
    let function = members.fleet.function_with(&[
        ("CLUSTERS", "blue,green"),
        ("MULTI_CLUSTER", "on"),
        ("CREATE_NAMESPACES", "true"),
    ]);

    let report = sync(&function.await).await;

    assert_eq!(obstacles(&report, "blue"), ["NoMultiClusterApi"], "{}", in_full(&report));
    assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.1"]);
    assert_eq!(imported(&members.green, "web"), sources([("blue", &["10.0.0.1:8080"])]));
}

#[tokio::test]
async fn forbidden_list_of_exports_is_never_an_empty_one() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    members.converge().await;
    members.blue.fail(Fault::always(
        "/apis/multicluster.x-k8s.io/v1beta1/serviceexports",
        FaultKind::Status(403),
    ));

    let report = sync(&members.function).await;

    assert!(!report.ok, "{}", in_full(&report));
    assert_eq!(obstacles(&report, "blue"), ["Unreadable"]);
    assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.1"]);
    assert_eq!(imported(&members.green, "web"), sources([("blue", &["10.0.0.1:8080"])]));
    members.blue.clear_faults();
    members.converge().await;
}

#[tokio::test]
async fn cluster_id_of_another_cluster_exports_nothing() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    members.converge().await;
    members.green.cluster_property("cluster.clusterset.k8s.io", "blue");
    exported(&members.green, web(), &["10.1.0.1"], CREATED);

    let report = sync(&members.function).await;

    assert_eq!(obstacles(&report, "green"), ["ClusterIdTaken"], "{}", in_full(&report));
    assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.1"]);
}

#[tokio::test]
async fn foreign_objects_under_the_names_of_an_import_stay() {
    let members = Members::start().await;
    let foreign = serde_json::json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"type": "Headless", "ports": []},
    });
    let before = members.green.put(foreign);
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);

    let report = sync(&members.function).await;

    let green = report.clusters.iter().find(|it| it.cluster.ends_with("green")).expect("green");
    let lines = &green.multi_cluster.as_ref().expect("a report").held_back;
    assert_eq!(lines[0].reason, "ForeignObject", "{}", in_full(&report));
    assert_eq!(members.green.service_import("shop", "web"), Some(before));
    assert_eq!(members.green.service_object("shop", "derived-isrlchlhrq"), None);
}

#[tokio::test]
async fn cluster_of_awss_controller_is_left_to_it() {
    let members = Members::start().await;
    members.blue.service(web());
    let export =
        Export::new("shop", "web").finalizer("multicluster.k8s.aws/service-export-finalizer");
    members.blue.put(export.into());

    let report = sync(&members.function).await;

    assert_eq!(obstacles(&report, "blue"), ["AnotherController"], "{}", in_full(&report));
    assert!(members.fleet.instances("clusterset.shop-set", "blue").is_empty());
    assert_eq!(condition(&members.blue, "web", "Valid"), "none");
}

#[tokio::test]
async fn records_need_their_namespace() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    let settings = [("CLUSTERS", "blue,green"), ("MULTI_CLUSTER", "on")];
    let function = members.fleet.function_with(&settings).await;

    let report = sync(&function).await;

    assert_eq!(obstacles(&report, "blue"), ["Namespace"], "{}", in_full(&report));
    assert_eq!(members.fleet.cloud_map.find_namespace("clusterset.shop-set"), None);
}

#[tokio::test]
async fn definitions_that_are_installed_later_are_found_by_the_same_process() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    members.green.serve_multi_cluster_versions(&[]);
    let report = sync(&members.function).await;
    assert_eq!(obstacles(&report, "green"), ["NoMultiClusterApi"], "{}", in_full(&report));

    members.green.serve_multi_cluster();
    members.converge().await;

    assert_eq!(imported(&members.green, "web"), sources([("blue", &["10.0.0.1:8080"])]));
}
