//! Several Cloud Map namespaces of one name, to which a Service refers: of another VPC, or shared by another account.

use cloud_map_sync::report::Report;

use crate::fleet::{Attributes, Fleet, annotated};
use crate::run::{converge, held_back, said_of, settled, sync, sync_service};
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

/// The id of a service in a namespace, which is created as Terraform does if there is none.
fn service(fleet: &Fleet, namespace: &str, name: &str) -> String {
    let services = fleet.cloud_map.services(namespace).into_iter();
    let found = services.filter(|view| view.name == name).map(|view| view.id).next();
    let kind = ServiceKind::Dns { records: vec![(A, 60)], custom_health: false };
    found.unwrap_or_else(|| fleet.cloud_map.service(namespace, name, kind))
}

/// The addresses under a name in a namespace, sorted.
fn addresses(fleet: &Fleet, namespace: &str, name: &str) -> Vec<String> {
    let services = fleet.cloud_map.services(namespace).into_iter();
    let services = services.filter(|view| view.name == name);
    let instances = services.flat_map(|view| fleet.cloud_map.instances(&view.id).into_values());
    let mut all: Vec<String> = instances.map(|it| it["AWS_INSTANCE_IPV4"].clone()).collect();
    all.sort();
    all
}

/// Puts an instance that this release has registered for `shop/<name>` into a namespace.
fn registered(fleet: &Fleet, namespace: &str, name: &str, address: &str) {
    let attributes: Attributes = fleet.ours(name, address);
    fleet.put(&service(fleet, namespace, name), &format!("of-{namespace}"), &attributes);
}

#[tokio::test]
async fn second_namespace_of_the_name_neither_stops_nor_moves_what_is_registered() {
    for is_shared in [false, true] {
        let fleet = Fleet::start().await;
        fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]);
        fleet.web("cart", "prod", &["10.0.2.1"]);
        converge(&fleet, &fleet.function().await).await;
        let other = second(&fleet, is_shared);
        service(&fleet, &other, "web");

        // A process without a memory: what the first sync has seen is gone.
        fleet.pods("web", &["10.0.1.2", "10.0.1.3"]);
        let report = converge(&fleet, &fleet.function().await).await;
        assert_eq!(held_back(&report), [""; 0], "{report}");
        assert_eq!(addresses(&fleet, &fleet.dns, "web"), ["10.0.1.2", "10.0.1.3"]);

        fleet.pods("web", &["10.0.1.4"]);
        let report = sync_service(&fleet.function().await, "web").await;
        assert_eq!((held_back(&report).len(), report.ok), (0, true), "{report}");
        assert_eq!(addresses(&fleet, &fleet.dns, "web"), ["10.0.1.4"]);
        assert_eq!(addresses(&fleet, &other, "web"), [""; 0]);
    }
}

#[tokio::test]
async fn renamed_service_stays_in_the_namespace_of_its_instances() {
    let fleet = Fleet::start().await;
    let other = second(&fleet, false);
    fleet.web("web", &fleet.dns, &["10.0.1.1"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    service(&fleet, &other, "www");
    fleet.annotate("web", "namespace", "prod.local");
    fleet.annotate("web", "hostname", "www");

    converge(&fleet, &function).await;

    assert_eq!(addresses(&fleet, &fleet.dns, "www"), ["10.0.1.1"]);
    assert_eq!(addresses(&fleet, &fleet.dns, "web"), [""; 0]);
}

/// Both namespaces stay, and `shop/web` is published for the first time by the name that they have.
async fn first_sync(
    is_shared: bool,
    prepare: impl AsyncFnOnce(&Fleet, &str),
) -> (Fleet, String, Report) {
    let fleet = Fleet::start().await;
    let other = second(&fleet, is_shared);
    prepare(&fleet, &other).await;
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    let report = sync(&fleet.function().await).await;
    (fleet, other, report)
}

#[tokio::test]
async fn first_instance_goes_where_only_one_namespace_has_a_service_of_the_name() {
    for is_shared in [false, true] {
        let (fleet, other, report) = first_sync(is_shared, async |fleet, other| {
            service(fleet, other, "web");
            // The name counts before the other instances of the cluster.
            fleet.web("cart", &fleet.dns, &["10.0.2.1"]);
            sync(&fleet.function().await).await;
        })
        .await;
        assert_eq!(held_back(&report), [""; 0], "{report}");
        assert_eq!(addresses(&fleet, &other, "web"), ["10.0.1.1"]);
    }
}

#[tokio::test]
async fn first_instance_goes_where_all_others_of_the_cluster_are() {
    let (fleet, other, report) = first_sync(true, async |fleet, other| {
        registered(fleet, other, "cart", "10.0.2.1");
        fleet.web("cart", "prod.local", &["10.0.2.1"]);
    })
    .await;
    assert_eq!(held_back(&report), [""; 0], "{report}");
    assert_eq!(addresses(&fleet, &other, "web"), ["10.0.1.1"]);
    settled(&fleet, &fleet.function().await).await;
}

#[tokio::test]
async fn ambiguous_namespace_is_held_back_with_the_ids_to_choose_from() {
    let (fleet, other, report) = first_sync(false, async |fleet, other| {
        for namespace in [&fleet.dns, other] {
            service(fleet, namespace, "web");
        }
    })
    .await;
    assert_eq!(held_back(&report), ["NamespaceAmbiguous"], "{report}");
    let said = said_of(&report, "NamespaceAmbiguous");
    assert!(said.contains(&other) && said.contains(&fleet.dns), "{said}");

    fleet.annotate("web", "namespace", &other);
    converge(&fleet, &fleet.function().await).await;
    assert_eq!(addresses(&fleet, &other, "web"), ["10.0.1.1"]);
}

/// `shop/web` with an instance in each of two namespaces, the one with the smaller id first.
async fn in_both() -> (Fleet, [String; 2]) {
    let fleet = Fleet::start().await;
    let mut namespaces = [fleet.dns.clone(), second(&fleet, false)];
    namespaces.sort();
    for (namespace, address) in namespaces.iter().zip(["10.0.1.1", "10.0.1.2"]) {
        registered(&fleet, namespace, "web", address);
    }
    fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2", "10.0.1.3"]);
    (fleet, namespaces)
}

#[tokio::test]
async fn service_with_instances_in_both_has_its_name_in_that_of_the_smaller_id_and_nothing_moves() {
    let (fleet, [first, second]) = in_both().await;
    let function = fleet.function().await;

    let report = converge(&fleet, &function).await;

    assert_eq!(held_back(&report), ["Waiting"], "{report}");
    assert!(said_of(&report, "Waiting").contains("name one by id"), "{report}");
    let all = ["10.0.1.1", "10.0.1.2", "10.0.1.3"];
    assert_eq!(addresses(&fleet, &first, "web"), all);
    assert_eq!(addresses(&fleet, &second, "web"), ["10.0.1.2"]);

    // A pod that is gone leaves both.
    fleet.pods("web", &["10.0.1.1"]);
    sync(&function).await;
    assert_eq!(addresses(&fleet, &first, "web"), ["10.0.1.1"]);
    assert_eq!(addresses(&fleet, &second, "web"), [""; 0]);
}

#[tokio::test]
async fn service_in_both_that_names_one_by_id_leaves_the_other() {
    let (fleet, [first, second]) = in_both().await;
    fleet.annotate("web", "namespace", &second);

    converge(&fleet, &fleet.function().await).await;

    assert_eq!(addresses(&fleet, &second, "web"), ["10.0.1.1", "10.0.1.2", "10.0.1.3"]);
    assert_eq!(addresses(&fleet, &first, "web"), [""; 0]);
}

#[tokio::test]
async fn targeted_run_leaves_a_service_without_instances_to_the_full_sync() {
    for is_warm in [false, true] {
        let fleet = Fleet::start().await;
        second(&fleet, true);
        let function = fleet.function().await;
        if is_warm {
            sync(&function).await;
        }
        fleet.service(annotated("web", "prod.local", "web"));
        fleet.pods("web", &["10.0.1.1"]);

        let report = sync_service(&function, "web").await;
        assert_eq!(held_back(&report), ["NamespaceAmbiguous"], "{report}");
        let said = said_of(&report, "NamespaceAmbiguous");
        assert!(report.ok && said.contains("the next full sync decides"), "{said}");
        assert_eq!(addresses(&fleet, &fleet.dns, "web"), [""; 0]);

        sync(&function).await;
        assert_eq!(addresses(&fleet, &fleet.dns, "web"), ["10.0.1.1"]);
    }
}
