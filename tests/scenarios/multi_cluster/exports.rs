//! The instances of exports in Cloud Map.

use super::{Members, exported, web};
use crate::fleet::annotated;

const CREATED: &str = "2026-01-01T00:00:00Z";

#[tokio::test]
async fn exported_instances_have_the_attributes_of_awss_controller_and_marks_of_their_own() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);

    members.converge().await;

    let (id, attributes) = members.fleet.instance("shop", "web");
    assert!(id.starts_with("tcp-10-0-0-1-8080-"), "{id}");
    let expected = [
        ("AWS_INSTANCE_IPV4", "10.0.0.1"),
        ("AWS_INSTANCE_PORT", "8080"),
        ("CLUSTER_ID", "blue"),
        ("CLUSTERSET_ID", "shop-set"),
        ("ENDPOINT_PORT_NAME", "http"),
        ("ENDPOINT_PROTOCOL", "TCP"),
        ("READY", "true"),
        ("SERVICE_PORT", "80"),
        ("SERVICE_PORT_NAME", "http"),
        ("SERVICE_PROTOCOL", "TCP"),
        ("SERVICE_TARGET_PORT", "8080"),
        ("SERVICE_TYPE", "ClusterSetIP"),
        ("cloud-map-sync/exporter", "cloud-map-sync"),
    ];
    for (key, value) in expected {
        assert_eq!(attributes.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert!(!attributes.contains_key("cloud-map-sync/owner"));
}

#[tokio::test]
async fn annotated_service_and_export_under_one_name_leave_each_other_alone() {
    let members = Members::start().await;
    members.fleet.service(annotated("api", "shop", "web"));
    members.fleet.pods("api", &["10.0.0.9"]);
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);

    members.converge().await;

    assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.1", "10.0.0.9"]);
    members.blue.unexport("shop", "web");
    members.converge().await;
    assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.9"]);
}
