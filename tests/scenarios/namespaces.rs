//! Which Cloud Map namespace a Service means, and what happens where that cannot be told.

use crate::fleet::{Fleet, give_pods, namespace_arn};
use crate::run::converge;
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
