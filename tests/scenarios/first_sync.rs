//! From an annotated Service to instances in Cloud Map, and then nothing more to do.

use std::collections::BTreeMap;

use crate::fleet::{Fleet, annotated};
use crate::run::sync;
use testbed::kubernetes::Pod;

#[tokio::test]
async fn annotated_service_becomes_instances_and_the_second_sync_writes_nothing() {
    let fleet = Fleet::start().await;
    let ecs = fleet.ecs_service("web", "10.0.9.1");
    fleet.service(annotated("web", "prod.local", "web"));
    fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);
    let before = fleet.cloud_map.instances(&ecs);
    let function = fleet.function().await;

    let report = sync(&function).await;

    assert!(report.ok, "{report}");
    assert_eq!((report.counts.registered, report.counts.foreign), (2, 1), "{report}");
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1", "10.0.1.2", "10.0.9.1"]);
    let foreign = before.keys().next().expect("the task");
    assert_eq!(fleet.cloud_map.instances(&ecs)[foreign], before[foreign]);

    fleet.cloud_map.forget_calls();
    let report = sync(&function).await;
    assert_eq!((report.counts.unchanged, fleet.cloud_map.writes()), (2, 0), "{report}");
}

#[tokio::test]
async fn instance_carries_marks_address_zone_and_region() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web").annotate("cloudmap.controller/port", "http"));
    fleet.cluster.pods("shop", "web", &[Pod::new("web-a", "10.0.1.1").zone("eu-central-1b")]);

    sync(&fleet.function().await).await;

    let instances = fleet.instances("prod", "web");
    let (id, attributes) = instances.first_key_value().expect("registered");
    assert!(id.starts_with("ip-10-0-1-1-8080-"), "{id}");
    let arn = fleet.sandbox.cluster_arn("blue");
    let expected = [
        ("AVAILABILITY_ZONE", "eu-central-1b"),
        ("AWS_INSTANCE_IPV4", "10.0.1.1"),
        ("AWS_INSTANCE_PORT", "8080"),
        ("REGION", "eu-central-1"),
        ("cloud-map-sync/cluster", &arn),
        ("cloud-map-sync/namespace", "shop"),
        ("cloud-map-sync/owner", "cloud-map-sync"),
        ("cloud-map-sync/pod", "web-a"),
        ("cloud-map-sync/schema", "1"),
        ("cloud-map-sync/service", "web"),
    ];
    let expected: BTreeMap<String, String> =
        expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    assert_eq!(*attributes, expected);
}
