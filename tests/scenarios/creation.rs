//! Cloud Map services that are created: only with a first registration, fitting the namespace, and
//! marked as ours.

use crate::fleet::{Fleet, OWNER, annotated};
use crate::run::{converge, sync, writes};
use testbed::cloud_map::NamespaceKind;
use testbed::cloud_map::RecordType::{self, A, Aaaa, Srv};
use testbed::kubernetes::Pod;

async fn created(families: &[&'static str], port: &str) -> Vec<(RecordType, i64)> {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod.local", "web").families(families));
    fleet.annotate("web", "port", port);
    let pod = Pod::new("web-0", "10.0.1.1").address("fd00::1");
    fleet.cluster.pods("shop", "web", &[pod]);
    converge(&fleet, &fleet.function().await).await;
    fleet.view("prod.local", "web").dns.expect("DNS records").records
}

#[tokio::test]
async fn records_follow_the_families_and_the_port() {
    assert_eq!(created(&["IPv4"], "").await, [(A, 60)]);
    assert_eq!(created(&["IPv6"], "").await, [(Aaaa, 60)]);
    assert_eq!(created(&["IPv4", "IPv6"], "").await, [(A, 60), (Aaaa, 60)]);
    assert_eq!(created(&["IPv6", "IPv4"], "http").await, [(Srv, 60)]);
}

#[tokio::test]
async fn service_is_tagged_described_and_has_the_annotated_ttl() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    fleet.annotate("web", "ttl", "15");
    converge(&fleet, &fleet.function().await).await;

    let view = fleet.view("prod.local", "web");
    let dns = view.dns.expect("DNS records");
    assert_eq!(
        (dns.routing_policy.as_str(), dns.records.as_slice()),
        ("MULTIVALUE", &[(A, 15)][..])
    );
    assert!(view.description.expect("a description").starts_with("cloud-map-sync"));
    assert_eq!(view.tags["cloud-map-sync/owner"], "cloud-map-sync");
}

#[tokio::test]
async fn what_is_created_has_the_tags_of_the_settings_beside_ours() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    fleet.web("cart", "team", &["10.0.1.2"]);
    let settings = [("CREATE_NAMESPACES", "true"), ("CREATE_TAGS", "team=shop, cost-center=4711")];
    let function = fleet.function_with(&settings).await;
    converge(&fleet, &function).await;

    let tags = [("cloud-map-sync/owner", OWNER), ("cost-center", "4711"), ("team", "shop")];
    let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let namespace = fleet.cloud_map.namespace_view("team");
    assert_eq!([&fleet.view("prod.local", "web").tags, &namespace.tags], [&tags, &tags]);
    assert_eq!(fleet.view("team", "cart").tags, tags);
}

#[tokio::test]
async fn service_in_an_http_namespace_has_no_records_and_the_same_marks() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web").families(&["IPv4", "IPv6"]));
    fleet.pods("web", &["10.0.1.1"]);
    converge(&fleet, &fleet.function().await).await;

    let view = fleet.view("prod", "web");
    assert_eq!(view.dns, None);
    assert!(view.description.expect("a description").starts_with("cloud-map-sync"));
    assert_eq!(view.tags["cloud-map-sync/owner"], "cloud-map-sync");
}

#[tokio::test]
async fn public_namespaces_are_served_like_private_ones() {
    let fleet = Fleet::start().await;
    fleet.cloud_map.namespace("example.com", NamespaceKind::DnsPublic);
    fleet.web("web", "example.com", &["10.0.1.1"]);
    converge(&fleet, &fleet.function().await).await;
    assert_eq!(fleet.addresses("example.com", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn nothing_is_created_for_a_service_without_ready_pods() {
    let fleet = Fleet::start().await;
    fleet.web("empty", "prod", &[]);
    fleet.service(annotated("starting", "prod", "starting"));
    fleet.cluster.pods("shop", "starting", &[Pod::new("starting-0", "10.0.1.1").not_ready()]);
    fleet.web("unusable", "prod", &["127.0.0.1"]);
    fleet.web("portless", "prod", &["10.0.1.1"]);
    fleet.annotate("portless", "port", "absent");

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(report.counts.created, 0, "{report}");
    assert!(fleet.cloud_map.services(&fleet.http).is_empty());
}

#[tokio::test]
async fn existing_service_keeps_its_records_ttl_and_tags() {
    let fleet = Fleet::start().await;
    fleet.dns_service("web", &[A]);
    fleet.service(annotated("web", "prod.local", "web").families(&["IPv6", "IPv4"]));
    fleet.annotate("web", "ttl", "5");
    fleet.pods("web", &["10.0.1.1"]);
    let before = fleet.view("prod.local", "web");

    let report = sync(&fleet.function().await).await;

    assert!(report.ok, "{report}");
    assert_eq!(writes(&fleet), ["RegisterInstance web"]);
    assert_eq!(fleet.view("prod.local", "web"), before);
}

#[tokio::test]
async fn existing_service_whose_name_differs_in_case_is_used_in_dns_and_not_in_http() {
    let fleet = Fleet::start().await;
    fleet.dns_service("Web", &[A]);
    fleet.cloud_map.service(&fleet.http, "Web", testbed::cloud_map::ServiceKind::Http);
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    fleet.service(annotated("web2", "prod", "web"));
    fleet.pods("web2", &["10.0.1.2"]);

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(report.counts.created, 1, "{report}");
    assert_eq!(fleet.addresses("prod.local", "Web"), ["10.0.1.1"]);
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.2"]);
}
