//! The exporter has addresses of both families, the importer has those of one.

use super::{Members, exported, imported, sources, web};

const CREATED: &str = "2026-01-01T00:00:00Z";

#[tokio::test]
async fn import_has_the_families_that_its_cluster_has_and_asks_for_others_once() {
    let members = Members::start().await;
    let Members { blue, green, .. } = &members;
    blue.set_families(&["IPv4", "IPv6"]);
    let both = web().families(&["IPv4", "IPv6"]);
    exported(blue, both, &["10.0.0.1"], CREATED);

    members.converge().await;

    for (cluster, count) in [(blue, 2), (green, 1)] {
        let import = cluster.service_import("shop", "web").expect("an import");
        assert_eq!(import["spec"]["ips"].as_array().map(Vec::len), Some(count), "{import:#}");
        assert_eq!(import["status"]["conditions"][0]["status"], "True", "{import:#}");
        assert_eq!(imported(cluster, "web"), sources([("blue", &["10.0.0.1:8080"])]));
    }
}

#[tokio::test]
async fn import_without_a_family_of_its_cluster_has_no_ip_and_says_so() {
    let members = Members::start().await;
    let Members { blue, green, .. } = &members;
    blue.set_families(&["IPv6", "IPv4"]);
    exported(blue, web().families(&["IPv6"]), &["fd00::1"], CREATED);

    members.converge().await;

    let import = green.service_import("shop", "web").expect("an import");
    assert_eq!(import["spec"]["ips"], serde_json::Value::Null);
    assert_eq!(import["status"]["conditions"][0]["reason"], "IPFamilyNotSupported", "{import:#}");
}
