//! What is not ours: it is left as it is, and ours stand beside it. The Cloud Map stand-in compares
//! every foreign instance after every call; these tests make the calls that could go wrong.

use crate::fleet::{Attributes, Fleet};
use crate::run::{converge, held_back};
use testbed::cloud_map::ServiceKind;

/// Ours but for one mark.
fn almost_ours(fleet: &Fleet, address: &str, mark: &str, value: &str) -> Attributes {
    let mut attributes = fleet.ours("web", address);
    match value {
        "" => _ = attributes.remove(mark),
        value => _ = attributes.insert(mark.to_owned(), value.to_owned()),
    }
    attributes
}

/// A service of an ECS task and four instances that look like ours in all but one mark.
fn crowded_service(fleet: &Fleet) -> String {
    let service = fleet.ecs_service("web", "10.0.9.1");
    let green = fleet.sandbox.cluster_arn("blue").replace("blue", "green");
    let owner = "cloud-map-sync/owner";
    for (id, attributes) in [
        ("of-green", almost_ours(fleet, "10.0.9.2", "cloud-map-sync/cluster", &green)),
        ("of-2", almost_ours(fleet, "10.0.9.3", owner, "cloud-map-sync2")),
        ("of-prefix", almost_ours(fleet, "10.0.9.4", owner, "cloud-map")),
        ("unmarked", almost_ours(fleet, "10.0.9.5", owner, "")),
    ] {
        fleet.put(&service, id, &attributes);
    }
    service
}

#[tokio::test]
async fn foreign_instances_survive_sync_scaling_renaming_and_deletion() {
    let fleet = Fleet::start().await;
    let service = crowded_service(&fleet);
    let before = fleet.cloud_map.instances(&service);
    let function = fleet.function().await;

    fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]);
    let report = converge(&fleet, &function).await;
    assert_eq!((report.counts.registered, report.counts.foreign), (2, 5), "{report}");
    fleet.pods("web", &[]);
    converge(&fleet, &function).await;
    fleet.pods("web", &["10.0.1.3"]);
    converge(&fleet, &function).await;
    fleet.annotate("web", "hostname", "other");
    converge(&fleet, &function).await;
    assert_eq!(fleet.cloud_map.instances(&service), before);
    fleet.annotate("web", "hostname", "web");
    converge(&fleet, &function).await;
    fleet.cluster.delete_service("shop", "web");
    converge(&fleet, &function).await;

    assert_eq!(fleet.cloud_map.instances(&service), before);
}

#[tokio::test]
async fn service_that_ecs_service_connect_manages_is_held_back() {
    let fleet = Fleet::start().await;
    let service = fleet.cloud_map.service(&fleet.http, "web", ServiceKind::Http);
    fleet.cloud_map.tag(&service, "AmazonECSManaged", "true");
    fleet.ecs_task(&service, "0123456789abcdef0123456789abcdef", "10.0.9.1");
    fleet.web("web", "prod", &["10.0.1.1"]);

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(held_back(&report), ["ServiceConnect"], "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.9.1"]);
}
