//! Which Cloud Map namespace a Service means, and what happens where that cannot be told.

use crate::fleet::{Fleet, annotated, give_pods, namespace_arn};
use crate::run::{converge, held_back, said_of};
use testbed::cloud_map::NamespaceKind;
use testbed::kubernetes::Headless;

#[tokio::test]
async fn namespace_is_named_by_name_id_or_arn() {
    let fleet = Fleet::start().await;
    let arn = namespace_arn(&fleet.dns);
    for (service, namespace) in [("by-name", "prod.local"), ("by-id", &fleet.dns), ("by-arn", &arn)]
    {
        fleet.web(service, namespace, &["10.0.1.1"]);
    }

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(report.counts.registered, 3, "{report}");
    for service in ["by-name", "by-id", "by-arn"] {
        assert_eq!(fleet.addresses("prod.local", service), ["10.0.1.1"], "{service}");
    }
}

fn without_namespace(name: &str) -> Headless {
    Headless::new("shop", name).annotate("cloudmap.controller/hostname", name)
}

#[tokio::test]
async fn without_the_annotation_the_kubernetes_namespaces_name_counts() {
    let fleet = Fleet::start().await;
    fleet.cloud_map.namespace("shop", NamespaceKind::Http);
    fleet.service(without_namespace("web"));
    fleet.pods("web", &["10.0.1.1"]);
    converge(&fleet, &fleet.function().await).await;
    assert_eq!(fleet.addresses("shop", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn clusters_default_namespace_comes_before_the_kubernetes_namespaces_name() {
    let fleet = Fleet::start().await;
    let green = fleet.green().await;
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

#[tokio::test]
async fn missing_namespace_is_held_back_with_those_that_are_visible() {
    let fleet = Fleet::start().await;
    fleet.web("web", "typo", &["10.0.1.1"]);
    fleet.web("cart", "prod", &["10.0.2.1"]);

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(held_back(&report), ["NamespaceMissing"], "{report}");
    let said = said_of(&report, "NamespaceMissing");
    assert!(said.contains("typo") && said.contains("prod.local"), "{said}");
    assert_eq!(fleet.addresses("prod", "cart"), ["10.0.2.1"]);
}

#[tokio::test]
async fn service_whose_namespace_became_unclear_keeps_what_is_registered() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    fleet.annotate("web", "namespace", "typo");
    fleet.pods("web", &["10.0.1.1"]);
    let report = converge(&fleet, &function).await;
    assert_eq!(held_back(&report), ["NamespaceMissing"], "{report}");
    assert_eq!(fleet.instances("prod.local", "web").len(), 2, "{report}");
}

#[tokio::test]
async fn bad_annotations_keep_what_is_registered_and_stop_nobody_else() {
    for (annotation, value) in [
        ("hostname", "we b"),
        ("namespace", "a b"),
        ("ttl", "soon"),
        ("port", "0"),
        ("hostname", ","),
    ] {
        let fleet = Fleet::start().await;
        fleet.web("web", "prod", &["10.0.1.1"]);
        let function = fleet.function().await;
        converge(&fleet, &function).await;
        fleet.annotate("web", annotation, value);
        fleet.pods("web", &["10.0.1.2"]);
        fleet.service(annotated("cart", "prod", "cart"));
        fleet.pods("cart", &["10.0.2.1"]);

        let report = converge(&fleet, &function).await;

        assert_eq!(held_back(&report), ["BadAnnotation"], "{report}");
        assert!(said_of(&report, "BadAnnotation").contains(annotation), "{report}");
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"], "{annotation}");
        assert_eq!(fleet.addresses("prod", "cart"), ["10.0.2.1"], "{annotation}");
    }
}
