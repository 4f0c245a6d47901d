//! Several Cloud Map namespaces of one name, to which a Service refers: of another VPC, or shared by another account.

use crate::fleet::Fleet;
use crate::run::{converge, held_back, sync, sync_service};
use testbed::cloud_map::RecordType::A;
use testbed::cloud_map::{NamespaceKind, ServiceKind};

const OTHER_ACCOUNT: &str = "444455556666";

/// A second namespace `prod.local`, in another VPC or of another account.
fn second(fleet: &Fleet, is_shared: bool) -> String {
    let (name, kind) = ("prod.local", NamespaceKind::DnsPrivate);
    if is_shared {
        fleet.cloud_map.shared_namespace(name, kind, OTHER_ACCOUNT)
    } else {
        fleet.cloud_map.namespace(name, kind)
    }
}

/// Makes a service `web` in a namespace, as Terraform does.
fn service(fleet: &Fleet, namespace: &str) {
    let kind = ServiceKind::Dns { records: vec![(A, 60)], custom_health: false };
    fleet.cloud_map.service(namespace, "web", kind);
}

/// The addresses under `web` in a namespace, sorted.
fn addresses(fleet: &Fleet, namespace: &str) -> Vec<String> {
    let services = fleet.cloud_map.services(namespace).into_iter();
    let instances = services.flat_map(|view| fleet.cloud_map.instances(&view.id).into_values());
    let mut all: Vec<String> = instances.map(|it| it["AWS_INSTANCE_IPV4"].clone()).collect();
    all.sort();
    all
}

#[tokio::test]
async fn second_namespace_of_the_name_neither_stops_nor_moves_what_is_registered() {
    for is_shared in [false, true] {
        let fleet = Fleet::start().await;
        fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]);
        fleet.web("cart", "prod", &["10.0.2.1"]);
        converge(&fleet, &fleet.function().await).await;
        let other = second(&fleet, is_shared);
        service(&fleet, &other);

        // A process without a memory: what the first sync has seen is gone.
        fleet.pods("web", &["10.0.1.2", "10.0.1.3"]);
        let report = converge(&fleet, &fleet.function().await).await;
        assert_eq!(held_back(&report), [""; 0], "{report}");
        assert_eq!(addresses(&fleet, &fleet.dns), ["10.0.1.2", "10.0.1.3"]);

        fleet.pods("web", &["10.0.1.4"]);
        let report = sync_service(&fleet.function().await, "web").await;
        assert_eq!((held_back(&report).len(), report.ok), (0, true), "{report}");
        assert_eq!(addresses(&fleet, &fleet.dns), ["10.0.1.4"]);
        assert_eq!(addresses(&fleet, &other), [""; 0]);
    }
}

#[tokio::test]
async fn message_finds_the_namespace_in_which_another_process_has_published_the_service() {
    let fleet = Fleet::start().await;
    second(&fleet, false);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    fleet.web("web", &fleet.dns, &["10.0.1.1"]);
    converge(&fleet, &fleet.function().await).await;

    fleet.web("web", "prod.local", &["10.0.1.2"]);
    let report = sync_service(&function, "web").await;
    assert_eq!(held_back(&report), [""; 0], "{report}");
    assert_eq!(addresses(&fleet, &fleet.dns), ["10.0.1.2"]);
}

/// It has read the service in one of the two namespaces, which decides only once both are read.
#[tokio::test]
async fn process_that_knows_one_of_the_namespaces_does_not_choose_it_for_its_first_registrations() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    service(&fleet, &fleet.dns);
    let other = second(&fleet, false);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    service(&fleet, &other);
    fleet.annotate("web", "namespace", "prod.local");
    fleet.web("api", "prod", &["10.0.2.1"]);
    fleet.annotate("api", "hostname", "web");

    let report = sync(&function).await;

    assert_eq!(held_back(&report), ["DomainConflict", "NamespaceAmbiguous"], "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}
