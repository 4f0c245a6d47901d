//! Exports of Services that are gone, or cannot be exported.

use serde_json::{Value, json};

use super::{Members, condition, exported, service, web};
use crate::fleet::refs;
use testbed::kubernetes::{Export, KubernetesServer};

const CREATED: &str = "2026-01-01T00:00:00Z";

pub fn conditions(cluster: &KubernetesServer, name: &str) -> [String; 2] {
    ["Valid", "Ready"].map(|kind| condition(cluster, name, kind))
}

/// So many addresses.
fn addresses(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("10.0.{}.{}", index / 250, index % 250 + 1)).collect()
}

pub fn export_of_many(members: &Members, name: &str, count: usize) {
    let service = service(name);
    let addresses = addresses(count);
    exported(&members.blue, service, &refs(&addresses), CREATED);
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
