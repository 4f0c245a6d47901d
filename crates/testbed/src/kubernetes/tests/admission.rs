//! The admission policy judges what the function writes, and nobody else.

use serde_json::{Value, json};

use super::client::{Cluster, MCS, SERVICES, SLICES, import, service, slice};

fn unlabelled(mut object: Value) -> Value {
    object["metadata"].as_object_mut().expect("metadata").remove("labels");
    object
}

#[test]
fn what_does_not_carry_our_label_is_not_written() {
    let imported = "imported-isrlchlhrq-ac321fb1-1";
    let mut slice = slice(imported, &["10.0.0.1"]);
    slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = json!("cloud-map-sync");
    for (path, name, object) in [
        (SERVICES, "derived-isrlchlhrq", service("derived-isrlchlhrq")),
        (SLICES, imported, slice),
        (&format!("{MCS}/serviceimports"), "web", import("web")),
    ] {
        let mut cluster = Cluster::with_policy();
        let one = format!("{path}/{name}");
        let unlabel = json!({"metadata": {"labels": {"cloud-map-sync/owner": null}}});
        let label = json!({"metadata": {"labels": {"cloud-map-sync/owner": "cloud-map-sync"}}});
        let mut answers = vec![cluster.create(path, &unlabelled(object.clone()))];
        cluster.created(path, &object);
        answers.push(cluster.patch(&one, &unlabel));
        let administrator = cluster.administrator.clone();
        let kind = super::client::MERGE;
        assert_eq!(cluster.send_as(&administrator, "PATCH", &one, kind, &unlabel).0, 200);
        answers.push(cluster.patch(&one, &label));
        answers.push(cluster.delete(&one, &json!({})));
        for (status, body) in answers {
            let message = body["message"].as_str().unwrap_or_default();
            assert_eq!((status, &body["reason"]), (422, &json!("Invalid")), "{path}: {body}");
            assert!(message.contains("denied request"), "{message}");
        }
        cluster.world.multi_cluster.admission = None;
        assert_eq!(cluster.patch(&one, &label).0, 200);
    }
}

#[test]
fn a_refusal_of_another_kind_comes_first() {
    let mut cluster = Cluster::with_policy();
    let imports = format!("{MCS}/serviceimports");
    let foreign = unlabelled(import("web"));
    let administrator = cluster.administrator.clone();
    let kind = "application/json";
    assert_eq!(cluster.send_as(&administrator, "POST", &imports, kind, &foreign).0, 201);
    let one = format!("{imports}/web");
    let stale = json!({"metadata": {"resourceVersion": "1"}});
    assert_eq!(cluster.patch(&one, &stale).0, 409);
    assert_eq!(cluster.delete(&one, &json!({"preconditions": {"uid": "other"}})).0, 409);
    assert_eq!(cluster.delete(&format!("{imports}/none"), &json!({})).0, 404);
    assert_eq!(
        cluster.patch(&format!("{one}/status"), &json!({"status": {"clusters": []}})).0,
        422
    );
}
