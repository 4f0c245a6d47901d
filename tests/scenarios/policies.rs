//! What the installation allows, and what it looks at.

use crate::fleet::{Fleet, give_pods, namespace_arn};
use crate::run::{converge, sync};
use testbed::cloud_map::NamespaceKind;
use testbed::kubernetes::Headless;

#[tokio::test]
async fn namespaces_that_are_not_named_are_neither_read_nor_changed() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
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
async fn other_annotation_prefix_reads_other_annotations() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
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

fn without_namespace(name: &str) -> Headless {
    Headless::new("shop", name).annotate("cloudmap.controller/hostname", name)
}

#[tokio::test]
async fn clusters_default_namespace_comes_before_the_kubernetes_namespaces_name() {
    let (fleet, green) = Fleet::with_green().await;
    fleet.cloud_map.namespace("shop", NamespaceKind::Http);
    fleet.service(without_namespace("web"));
    fleet.pods("web", &["10.0.1.1"]);
    green.service(without_namespace("web"));
    give_pods(&green, "web", &["10.0.2.1"]);
    let clusters = r#"["green", {"cluster": "blue", "defaultNamespace": "prod.local"}]"#;
    let function = fleet.function_with(&[("CLUSTERS", clusters)]).await;

    converge(&fleet, &function).await;

    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1"]);
    assert_eq!(fleet.addresses("shop", "web"), ["10.0.2.1"]);
}
