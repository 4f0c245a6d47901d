//! What the installation allows, and what it looks at.

use crate::fleet::{Fleet, annotated, attributes, namespace_arn};
use crate::run::{converge, held_back, settled, sync};
use testbed::kubernetes::Headless;

/// A world that asks for every kind of change: `cart` and a pod of `web` are new, a pod of `web`
/// is gone, one has drifted, and `gone` is deleted.
async fn every_change() -> Fleet {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1", "10.0.1.2"]);
    fleet.web("gone", "prod", &["10.0.3.1"]);
    converge(&fleet, &fleet.function().await).await;
    fleet.cluster.delete_service("shop", "gone");
    fleet.pods("web", &["10.0.1.1", "10.0.1.3"]);
    fleet.web("cart", "prod", &["10.0.2.1"]);
    let web = fleet.cloud_map.find_service("prod", "web").expect("created");
    let instances = fleet.cloud_map.instances(&web).into_iter();
    for (id, mut drifted) in instances.filter(|(_, it)| it["AWS_INSTANCE_IPV4"] == "10.0.1.1") {
        drifted.extend(attributes(&[("REGION", "us-east-1")]));
        fleet.put(&web, &id, &drifted);
    }
    fleet
}

#[tokio::test]
async fn sync_does_it_all() {
    let fleet = every_change().await;
    let counts = converge(&fleet, &fleet.function().await).await.counts;
    assert_eq!((counts.created, counts.registered), (1, 2));
    assert_eq!((counts.rewritten, counts.deregistered), (1, 2));
}

#[tokio::test]
async fn create_only_creates_and_registers_and_does_nothing_else() {
    let fleet = every_change().await;
    let function = fleet.function_with(&[("POLICY", "create-only")]).await;

    let report = converge(&fleet, &function).await;

    assert_eq!(held_back(&report), ["Policy"; 3], "{report}");
    assert_eq!((report.counts.created, report.counts.registered), (1, 2), "{report}");
    assert_eq!((report.counts.rewritten, report.counts.deregistered), (0, 0), "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2", "10.0.1.3"]);
}

#[tokio::test]
async fn renamed_service_stays_under_both_names_where_no_claim_may_be_ended() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    let function = fleet.function_with(&[("POLICY", "upsert-only")]).await;
    converge(&fleet, &function).await;
    fleet.annotate("web", "hostname", "www");
    converge(&fleet, &function).await;
    for name in ["web", "www"] {
        assert_eq!(fleet.addresses("prod", name), ["10.0.1.1"], "{name}");
    }
}

#[tokio::test]
async fn namespaces_that_are_not_named_are_neither_read_nor_changed() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    fleet.web("cart", "prod.local", &["10.0.2.1"]);
    converge(&fleet, &fleet.function().await).await;
    fleet.cluster.delete_service("shop", "cart");
    fleet.pods("web", &["10.0.1.2"]);
    let arn = namespace_arn(&fleet.http);
    for named in ["prod", &fleet.http, &arn] {
        let function = fleet.function_with(&[("CLOUD_MAP_NAMESPACES", named)]).await;
        fleet.cloud_map.forget_calls();
        sync(&function).await;
        assert_eq!(fleet.cloud_map.count("ListServices"), 1, "{named}");
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.2"], "{named}");
        assert_eq!(fleet.addresses("prod.local", "cart"), ["10.0.2.1"], "{named}");
    }
}

#[tokio::test]
async fn claim_in_a_namespace_that_is_not_looked_at_is_held_back_and_keeps_what_it_has() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    converge(&fleet, &fleet.function().await).await;
    fleet.pods("web", &[]);
    let function = fleet.function_with(&[("CLOUD_MAP_NAMESPACES", "prod")]).await;
    let report = converge(&fleet, &function).await;
    assert_eq!(held_back(&report), ["NamespaceMissing"], "{report}");
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn other_owner_id_makes_the_instances_of_before_foreign() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    converge(&fleet, &fleet.function().await).await;
    let (id, before) = fleet.instance("prod", "web");
    let arn = fleet.sandbox.cluster_arn("blue");
    fleet.cloud_map.watch_over("team-a", &[&arn]);
    let function = fleet.function_with(&[("OWNER_ID", "team-a")]).await;

    let report = converge(&fleet, &function).await;
    assert_eq!((report.counts.registered, report.counts.foreign), (1, 1), "{report}");
    fleet.cluster.delete_service("shop", "web");
    converge(&fleet, &function).await;

    assert_eq!(fleet.instance("prod", "web"), (id, before));
}

#[tokio::test]
async fn services_created_for_another_owner_carry_its_tag() {
    let fleet = Fleet::start().await;
    fleet.cloud_map.watch_over("team-a", &[&fleet.sandbox.cluster_arn("blue")]);
    fleet.web("web", "prod", &["10.0.1.1"]);
    let function = fleet.function_with(&[("OWNER_ID", "team-a")]).await;
    converge(&fleet, &function).await;
    assert_eq!(fleet.view("prod", "web").tags["cloud-map-sync/owner"], "team-a");
}

#[tokio::test]
async fn other_annotation_prefix_reads_other_annotations() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    let other = Headless::new("shop", "cart")
        .annotate("discovery.example.com/hostname", "cart")
        .annotate("discovery.example.com/namespace", "prod");
    fleet.service(other);
    fleet.pods("cart", &["10.0.2.1"]);
    let function = fleet.function_with(&[("ANNOTATION_PREFIX", "discovery.example.com/")]).await;

    converge(&fleet, &function).await;

    assert_eq!(fleet.addresses("prod", "cart"), ["10.0.2.1"]);
    assert!(fleet.addresses("prod", "web").is_empty());
}

#[tokio::test]
async fn two_installations_side_by_side_never_touch_each_others_instances() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web").annotate("b.example.com/hostname", "web"));
    fleet.cluster.edit_service("shop", "web", |service| {
        service["metadata"]["annotations"]["b.example.com/namespace"] = "prod".into();
    });
    fleet.pods("web", &["10.0.1.1"]);
    let settings = [("OWNER_ID", "cloud-map-sync2"), ("ANNOTATION_PREFIX", "b.example.com/")];
    let (one, two) = (fleet.function().await, fleet.function_with(&settings).await);
    let arn = fleet.sandbox.cluster_arn("blue");
    converge(&fleet, &one).await;
    fleet.cloud_map.watch_over("cloud-map-sync2", &[&arn]);
    converge(&fleet, &two).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.1"]);
    fleet.cluster.delete_service("shop", "web");
    converge(&fleet, &two).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
    fleet.cloud_map.watch_over("cloud-map-sync", &[&arn]);
    settled_after_removal(&fleet, &one).await;
}

async fn settled_after_removal(fleet: &Fleet, function: &cloud_map_sync::function::Function) {
    let report = sync(function).await;
    assert_eq!(report.counts.deregistered, 1, "{report}");
    settled(fleet, function).await;
}
