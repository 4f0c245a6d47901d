//! Addresses that are not imported: those that `NAME_POLICY` does not allow, and instances that are no endpoint.

use cloud_map_sync::report::Report;
use serde_json::json;

use super::{Members, condition, exported, imported, in_full, part, sources, web};
use crate::run::sync;

const CREATED: &str = "2026-01-01T00:00:00Z";

fn lines(report: &Report, cluster: &str) -> Vec<(String, String)> {
    let lines = part(report, cluster).held_back.iter();
    lines.map(|it| (it.reason.to_string(), it.detail.clone())).collect()
}

/// Rules that allow everything, with ranges of addresses for a cluster.
fn policy(cluster: &str, names: &str, cidrs: &[&str]) -> String {
    let rule = |clusters: &str, names: &str| json!({"clusters": [clusters], "kubernetesNamespaces": ["*"], "cloudMapNamespaces": ["*"], "names": [names]});
    let mut first = rule(cluster, names);
    first["cidrs"] = json!(cidrs);
    json!([first, rule("*", "*")]).to_string()
}

#[tokio::test]
async fn address_outside_the_ranges_of_the_importing_cluster_is_not_imported() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    members.amber("web", &["10.2.0.1", "192.168.7.1", "192.168.7.2"]);
    let policy = policy("green", "*", &["10.0.0.0/8"]);
    let function = members.serving("blue,green", &[("NAME_POLICY", &policy)]).await;

    let report = sync(&function).await;

    assert!(report.ok, "{}", in_full(&report));
    let allowed = sources([("amber", &["10.2.0.1:8080"]), ("blue", &["10.0.0.1:8080"])]);
    assert_eq!(imported(&members.green, "web"), allowed);
    assert_eq!(imported(&members.blue, "web")["amber"].len(), 3);
    let [(reason, detail)] = lines(&report, "green").try_into().expect("one line");
    assert_eq!(reason, "AddressNotAllowed");
    insta::assert_snapshot!(detail, @"2 addresses are not imported from cluster amber, since NAME_POLICY does not allow them for the Kubernetes namespace: 192.168.7.1, 192.168.7.2");
    assert_eq!(lines(&report, "blue"), []);
    let question =
        json!({"action": "explain", "cluster": "green", "namespace": "shop", "service": "web"});
    let answer = members.ask(&function, &question).await.to_string();
    let reason = "not in the import: NAME_POLICY does not allow its address";
    assert_eq!(answer.matches(reason).count(), 2, "{answer}");
}

#[tokio::test]
async fn export_that_name_policy_keeps_out_of_cloud_map_is_imported_nowhere() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1", "192.168.7.1"], CREATED);
    let ranges = policy("blue", "*", &["10.0.0.0/8"]);
    let function = members.serving("blue,green", &[("NAME_POLICY", &ranges)]).await;
    sync(&function).await;
    assert_eq!(imported(&members.green, "web"), sources([("blue", &["10.0.0.1:8080"])]));

    let names = policy("blue", "api", &["10.0.0.0/8"]);
    let function = members.serving("blue,green", &[("NAME_POLICY", &names)]).await;
    let report = sync(&function).await;

    assert_eq!(members.green.service_import("shop", "web"), None, "{}", in_full(&report));
    assert_eq!(condition(&members.blue, "web", "Ready"), "False Failed");
    // A function that does not read the exporter goes by its records.
    sync(&members.serving("green", &[]).await).await;
    assert_eq!(members.green.service_import("shop", "web"), None);
}

#[tokio::test]
async fn export_that_is_not_allowed_any_more_keeps_no_record_under_a_former_id() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    sync(&members.serving("blue,green", &[]).await).await;
    members.blue.cluster_property("cluster.clusterset.k8s.io", "navy");
    let names = policy("blue", "api", &["10.0.0.0/8"]);
    let function = members.serving("blue", &[("NAME_POLICY", &names)]).await;

    let report = sync(&function).await;

    sync(&members.serving("green", &[]).await).await;
    let import = members.green.service_import("shop", "web");
    assert_eq!(import, None, "{}", in_full(&report));
}
