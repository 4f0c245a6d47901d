//! Server-side apply on the status of a ServiceExport.

use serde_json::{Value, json};

use super::super::multi_cluster::Export;
use super::client::{APPLY, Cluster, MCS};

fn condition(kind: &str, status: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": "Any", "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    })
}

fn body(conditions: &[Value]) -> Value {
    json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport",
        "metadata": {"name": "web", "namespace": "shop"}, "status": {"conditions": conditions},
    })
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.world.put(Export::new("shop", "web").into());
    cluster
}

fn apply(cluster: &mut Cluster, query: &str, body: &Value) -> (u16, Value) {
    cluster.send("PATCH", &format!("{MCS}/serviceexports/web/status?{query}"), APPLY, body)
}

const OURS: &str = "fieldManager=cloud-map-sync&force=true";

fn conditions(object: &Value) -> Vec<String> {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |key: &str, it: &Value| it[key].as_str().unwrap_or_default().to_owned();
    conditions.iter().map(|it| format!("{} {}", text("type", it), text("status", it))).collect()
}

#[test]
fn conditions_that_are_no_longer_applied_go_and_those_of_others_stay() {
    let mut cluster = cluster();
    let other = "fieldManager=other&force=true";
    apply(&mut cluster, other, &body(&[condition("Theirs", "True"), condition("Both", "True")]));
    let all =
        [condition("Valid", "True"), condition("Conflict", "False"), condition("Both", "True")];
    let (status, object) = apply(&mut cluster, OURS, &body(&all));
    assert_eq!(status, 200, "{object}");
    assert_eq!(conditions(&object), ["Theirs True", "Both True", "Valid True", "Conflict False"]);

    let (_, object) = apply(&mut cluster, OURS, &body(&[condition("Valid", "False")]));
    assert_eq!(conditions(&object), ["Theirs True", "Both True", "Valid False"]);

    let (_, object) = apply(&mut cluster, other, &body(&[]));
    assert_eq!(conditions(&object), ["Valid False"]);
}
