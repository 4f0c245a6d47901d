//! The virtual IPs of an import last as long as its ServiceImport, also if somebody deletes the Service that has them.

use serde_json::Value;

use super::{Members, exported, in_full, web};
use crate::run::sync;
use testbed::kubernetes::{Fault, FaultKind, KubernetesServer};

const CREATED: &str = "2026-01-01T00:00:00Z";
const DERIVED: &str = "derived-isrlchlhrq";

fn ips(cluster: &KubernetesServer) -> Vec<String> {
    let import = cluster.service_import("shop", "web").expect("an import");
    let ips = import["spec"]["ips"].as_array().cloned().unwrap_or_default();
    ips.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn ips_of_service(cluster: &KubernetesServer) -> Vec<String> {
    let service = cluster.service_object("shop", DERIVED).expect("a Service");
    let ips = service["spec"]["clusterIPs"].as_array().cloned().unwrap_or_default();
    ips.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

async fn imported_with_both_families() -> Members {
    let members = Members::start().await;
    members.green.set_families(&["IPv4", "IPv6"]);
    members.blue.set_families(&["IPv4", "IPv6"]);
    exported(&members.blue, web().families(&["IPv4", "IPv6"]), &["10.0.0.1"], CREATED);
    members.converge().await;
    members
}

#[tokio::test]
async fn service_that_somebody_deletes_is_made_again_with_its_ips_also_after_a_failure() {
    let members = imported_with_both_families().await;
    let before = ips(&members.green);
    assert_eq!(before.len(), 2);
    assert!(members.green.delete_service("shop", DERIVED));
    let path = "/api/v1/namespaces/shop/services";
    members.green.fail(Fault::always(path, FaultKind::Status(500)).of_method("POST"));

    sync(&members.function).await;

    assert_eq!(ips(&members.green), before, "they wait for the Service");
    members.green.clear_faults();
    members.converge().await;
    assert_eq!(ips(&members.green), before);
    assert_eq!(ips_of_service(&members.green), before);
    assert!(members.green.events("shop").iter().all(|it| it["reason"] != "ClusterSetIPChanged"));
}

#[tokio::test]
async fn ip_that_another_service_has_is_replaced_and_an_event_says_so() {
    for taken in [1, 0] {
        let members = imported_with_both_families().await;
        let before = ips(&members.green);
        assert!(members.green.delete_service("shop", DERIVED));
        members.green.take_cluster_ip(&before[taken]);

        let report = sync(&members.function).await;

        assert!(report.ok, "{}", in_full(&report));
        let after = ips(&members.green);
        assert_eq!(after, ips_of_service(&members.green));
        assert_eq!(after.len(), 2);
        assert_ne!(after[taken], before[taken]);
        assert_eq!(after[0] == before[0], taken == 1, "the primary one is kept alone");
        let events = members.green.events("shop");
        let event = events.iter().find(|it| it["reason"] == "ClusterSetIPChanged");
        let event = event.expect("an Event");
        assert_eq!(event["regarding"]["kind"], "ServiceImport");
        let note = event["note"].as_str().expect("a note");
        assert!(note.contains(&before[taken]) && note.contains(&after[taken]), "{note}");
        members.assert_settled().await;
    }
}
