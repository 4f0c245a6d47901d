//! Cloud Map services that are created: only with a first registration, fitting the namespace, and
//! marked as ours.

use crate::fleet::{Fleet, OWNER};
use crate::run::converge;
use testbed::cloud_map::RecordType::A;

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
