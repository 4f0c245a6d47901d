//! What is not ours: it is left as it is, and ours stand beside it. The Cloud Map stand-in compares
//! every foreign instance after every call; these tests make the calls that could go wrong.

use crate::fleet::{Attributes, Fleet, annotated, attributes};
use crate::run::{converge, held_back, said_of, sync, writes};
use testbed::cloud_map::{RecordType, ServiceKind};

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
async fn foreign_instance_with_the_address_of_a_pod_stands_beside_ours() {
    let fleet = Fleet::start().await;
    let service = fleet.ecs_service("web", "10.0.1.1");
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    let function = fleet.function().await;

    let report = converge(&fleet, &function).await;
    assert_eq!((report.counts.registered, report.counts.foreign), (1, 1), "{report}");
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1", "10.0.1.1"]);

    fleet.pods("web", &[]);
    converge(&fleet, &function).await;
    assert_eq!(fleet.cloud_map.instances(&service).len(), 1);
}

#[tokio::test]
async fn id_that_a_foreign_instance_holds_is_never_registered_over() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    let (id, _) = fleet.instance("prod", "web");
    fleet.pods("web", &[]);
    converge(&fleet, &function).await;
    let service = fleet.cloud_map.find_service("prod", "web").expect("it stays");
    fleet.ecs_task(&service, &id, "10.0.9.1");
    fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);

    let report = converge(&fleet, &function).await;

    assert_eq!(held_back(&report), ["IdTaken"], "{report}");
    assert!(said_of(&report, "IdTaken").contains(&id));
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.2", "10.0.9.1"]);
}

#[tokio::test]
async fn two_clusters_and_ecs_share_a_name_and_each_takes_out_its_own() {
    let fleet = Fleet::start().await;
    let green = fleet.green().await;
    fleet.ecs_service("web", "10.0.9.1");
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    green.service(annotated("web", "prod.local", "web"));
    crate::fleet::give_pods(&green, "web", &["10.0.2.1"]);
    let function = fleet.function().await;

    let report = converge(&fleet, &function).await;
    assert_eq!((report.counts.registered, held_back(&report).len()), (2, 0), "{report}");
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1", "10.0.2.1", "10.0.9.1"]);

    green.delete_service("shop", "web");
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1", "10.0.9.1"]);
}

#[tokio::test]
async fn tasks_of_ecs_are_shown_as_such_in_each_form_that_was_recorded() {
    let fleet = Fleet::start().await;
    let service = fleet.dns_service("web", &[RecordType::A]);
    fleet.ecs_tasks(&service, ["10.0.1.1", "10.0.9.2", "10.0.9.3"]);
    // Another tool may use such ids, too.
    let unknown = attributes(&[("AWS_INSTANCE_IPV4", "10.0.9.4")]);
    fleet.put(&service, "7d444840-9dc0-11d1-b245-5ffdce74fad2", &unknown);
    let before = fleet.cloud_map.instances(&service);
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    let function = fleet.function().await;

    let report = converge(&fleet, &function).await;

    assert_eq!(report.counts.registered, 1, "{report}");
    let left = "left alone, not ours: 3 ECS, 1 of no known owner";
    assert!(report.to_string().contains(left), "{report}");
    fleet.cluster.delete_service("shop", "web");
    converge(&fleet, &function).await;
    assert_eq!(fleet.cloud_map.instances(&service), before);
}

#[tokio::test]
async fn registry_without_anything_of_ours_and_an_idle_cluster_are_left_alone() {
    let fleet = Fleet::start().await;
    let service = crowded_service(&fleet);
    let empty = fleet.cloud_map.service(&fleet.http, "empty", ServiceKind::Http);

    let report = sync(&fleet.function().await).await;

    assert!(report.ok && writes(&fleet).is_empty(), "{report}");
    assert_eq!(fleet.cloud_map.instances(&service).len(), 5);
    assert_eq!(fleet.cloud_map.instances(&empty).len(), 0);
}
