//! Exports of Services that are gone, or cannot be exported.

use serde_json::{Value, json};

use super::{Members, condition, exported, imported, in_full, web};
use crate::run::{report, sync};
use testbed::kubernetes::{ClusterIp, Export, KubernetesServer};

const CREATED: &str = "2026-01-01T00:00:00Z";

pub fn conditions(cluster: &KubernetesServer, name: &str) -> [String; 2] {
    ["Valid", "Ready"].map(|kind| condition(cluster, name, kind))
}

/// So many addresses.
fn addresses(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("10.0.{}.{}", index / 250, index % 250 + 1)).collect()
}

pub fn export_of_many(members: &Members, name: &str, count: usize) {
    let service = ClusterIp::new("shop", name).port_of("TCP", "http", 80, 8080);
    let addresses = addresses(count);
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    exported(&members.blue, service, &addresses, CREATED);
}

/// Makes a Service of any type into one of type ExternalName.
fn to_external_name(service: &mut Value) {
    service["spec"] = json!({ "type": "ExternalName", "externalName": "example.com" });
}

#[tokio::test]
async fn derived_service_is_never_exported() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    members.converge().await;
    members.blue.put(Export::new("shop", "derived-isrlchlhrq").created(CREATED).into());

    members.converge().await;

    let expected = ["False InvalidServiceType", "False Failed"];
    assert_eq!(conditions(&members.blue, "derived-isrlchlhrq"), expected);
    assert_eq!(members.green.service_import("shop", "derived-isrlchlhrq"), None);
}

#[tokio::test]
async fn service_that_is_deleted_or_becomes_an_external_name_ends_its_export() {
    for (is_deleted, expected) in [
        (true, ["False NoService", "False Pending"]),
        (false, ["False InvalidServiceType", "False Failed"]),
    ] {
        let members = Members::start().await;
        let Members { blue, green, fleet, .. } = &members;
        exported(blue, web(), &["10.0.0.1"], CREATED);
        members.converge().await;
        if is_deleted {
            blue.delete_service("shop", "web");
        } else {
            blue.edit_service("shop", "web", to_external_name);
        }

        members.converge().await;

        assert_eq!(conditions(blue, "web"), expected);
        assert_eq!(fleet.addresses("shop", "web"), [""; 0]);
        assert_eq!(fleet.instances("clusterset.shop-set", "blue").len(), 1, "its own record");
        for cluster in [blue, green] {
            assert_eq!(cluster.service_import("shop", "web"), None);
        }
    }
}

#[tokio::test]
async fn services_that_are_deleted_before_their_exports_are_held_by_the_guard() {
    let members = Members::start().await;
    for name in ["api", "cart"] {
        export_of_many(&members, name, 8);
    }
    members.converge().await;
    let before = ["api", "cart"].map(|name| imported(&members.green, name));
    for name in ["api", "cart"] {
        members.blue.delete_service("shop", name);
    }

    let held = sync(&members.function).await;

    let guard = held.clusters[0].guard.as_ref();
    assert!(guard.is_some_and(|guard| guard.state.holds()), "{}", in_full(&held));
    assert_eq!(condition(&members.blue, "api", "Valid"), "False NoService");
    assert_eq!(members.fleet.addresses("shop", "api").len(), 8);
    assert_eq!(["api", "cart"].map(|name| imported(&members.green, name)), before);

    let confirmed = report(&members.function, &json!({ "action": "confirm" })).await;
    assert!(confirmed.ok, "{}", in_full(&confirmed));
    assert_eq!(members.fleet.addresses("shop", "api"), [""; 0]);
    assert_eq!(members.green.service_import("shop", "api"), None);
    members.assert_settled().await;
}
