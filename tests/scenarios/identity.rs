//! The same address and port is the same instance, under whatever id it has.

use crate::fleet::{Fleet, annotated};
use crate::run::{converge, sync, writes};
use testbed::cloud_map::{RecordType, ServiceKind};
use testbed::kubernetes::Pod;

#[tokio::test]
async fn instance_of_ours_keeps_an_id_that_was_made_by_another_scheme() {
    let fleet = Fleet::start().await;
    let service = fleet.dns_service("web", &[RecordType::A]);
    fleet.put(&service, "4c1b7f6d-web-0", &fleet.ours("web", "10.0.1.1"));
    fleet.web("web", "prod.local", &["10.0.1.1"]);

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!((report.counts.unchanged, report.counts.registered), (1, 0), "{report}");
    assert_eq!(fleet.instance("prod.local", "web").0, "4c1b7f6d-web-0");
}

#[tokio::test]
async fn address_that_moves_to_another_service_of_ours_is_rewritten_in_place() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    let (id, _) = fleet.instance("prod.local", "web");
    fleet.cluster.delete_service("shop", "web");
    fleet.service(annotated("web2", "prod.local", "web"));
    fleet.pods("web2", &["10.0.1.1"]);
    fleet.cloud_map.forget_calls();

    let report = sync(&function).await;

    assert!(report.ok, "{report}");
    assert_eq!(writes(&fleet), ["RegisterInstance web"]);
    let (same_id, attributes) = fleet.instance("prod.local", "web");
    assert_eq!(same_id, id);
    assert_eq!(attributes["cloud-map-sync/service"], "web2");
    assert_eq!(attributes["cloud-map-sync/pod"], "web2-10-0-1-1");
}

#[tokio::test]
async fn pod_replaced_by_another_with_its_address_is_rewritten_in_place() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web"));
    fleet.cluster.pods("shop", "web", &[Pod::new("web-a", "10.0.1.1")]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    fleet.cluster.pods("shop", "web", &[Pod::new("web-b", "10.0.1.1").zone("eu-central-1c")]);

    let report = converge(&fleet, &function).await;

    assert_eq!((report.counts.rewritten, report.counts.deregistered), (1, 0), "{report}");
    let (_, attributes) = fleet.instance("prod", "web");
    assert_eq!(attributes["cloud-map-sync/pod"], "web-b");
    assert_eq!(attributes["AVAILABILITY_ZONE"], "eu-central-1c");
}

#[tokio::test]
async fn same_pod_has_another_id_in_another_name_and_another_service() {
    let fleet = Fleet::start().await;
    for service in ["web", "admin"] {
        fleet.web(service, "prod", &["10.0.1.1"]);
    }
    converge(&fleet, &fleet.function().await).await;
    let ids = ["web", "admin"].map(|name| fleet.instance("prod", name).0);
    assert_ne!(ids[0], ids[1]);
}

/// Whoever may write to Cloud Map can write marks, so they may name what cannot be asked for.
#[tokio::test]
async fn instances_of_ours_that_name_no_possible_service_are_repaired_or_taken_out() {
    for name in ["", "../nodes", "Web shop"] {
        let fleet = Fleet::start().await;
        let service = fleet.cloud_map.service(&fleet.http, "web", ServiceKind::Http);
        for (id, address) in [("wanted", "10.0.1.1"), ("unwanted", "10.0.1.9")] {
            let mut instance = fleet.ours("web", address);
            instance.insert("cloud-map-sync/service".into(), name.into());
            fleet.put(&service, id, &instance);
        }
        fleet.web("web", "prod", &["10.0.1.1"]);

        let report = converge(&fleet, &fleet.function().await).await;

        assert_eq!((report.counts.rewritten, report.counts.deregistered), (1, 1), "{report}");
        let expected = fleet.ours("web", "10.0.1.1");
        assert_eq!(fleet.instance("prod", "web"), ("wanted".to_owned(), expected));
    }
}
