//! Merge patches of objects and of their status.

use serde_json::{Value, json};

use super::client::{Cluster, MCS, SERVICES, SLICES, import, service, slice};

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().expect("a version")
}

fn with_import() -> (Cluster, String, Value) {
    let mut cluster = Cluster::new();
    let imports = format!("{MCS}/serviceimports");
    let created = cluster.created(&imports, &import("web"));
    (cluster, format!("{imports}/web"), created)
}

#[test]
fn a_patch_of_another_version_conflicts_and_one_that_changes_nothing_makes_none() {
    for (path, object, change) in [
        (SERVICES, service("web"), json!({"spec": {"sessionAffinity": "ClientIP"}})),
        (SLICES, slice("web", &["10.0.0.1"]), json!({"endpoints": [{"addresses": ["10.0.0.2"]}]})),
        (&format!("{MCS}/serviceimports"), import("web"), json!({"spec": {"ips": ["10.96.0.9"]}})),
    ] {
        let mut cluster = Cluster::new();
        let created = cluster.created(path, &object);
        let path = format!("{path}/web");
        let at = |version: &str| {
            let mut patch = change.clone();
            patch["metadata"]["resourceVersion"] = version.into();
            patch
        };
        let (status, changed) = cluster.patch(&path, &at(version(&created)));
        assert_eq!(status, 200, "{changed}");
        assert!(version(&changed) != version(&created), "{path}");

        let (status, body) = cluster.patch(&path, &at(version(&created)));
        assert_eq!((status, &body["reason"]), (409, &json!("Conflict")));
        assert!(body["message"].as_str().unwrap().contains("the object has been modified"));

        assert_eq!(cluster.patch(&path, &at(version(&changed))), (200, changed.clone()), "{path}");
        assert_eq!(cluster.patch(&path, &change), (200, changed), "{path}");
        assert_eq!(cluster.patch(&path.replace("web", "none"), &change).0, 404);
    }
}

#[test]
fn an_object_and_its_status_are_patched_apart() {
    let (mut cluster, path, _) = with_import();
    let both = json!({
        "metadata": {"annotations": {"a": "b"}}, "spec": {"ips": ["10.96.0.9"]},
        "status": {"clusters": [{"cluster": "blue"}]},
    });
    let (_, object) = cluster.patch(&path, &both);
    assert_eq!((&object["spec"]["ips"][0], object.get("status")), (&json!("10.96.0.9"), None));
    assert_eq!(object["metadata"]["generation"], 2);

    let other = json!({
        "metadata": {"annotations": {"a": "c"}}, "spec": {"ips": []}, "status": both["status"],
    });
    let (status, after) = cluster.patch(&format!("{path}/status"), &other);
    assert_eq!(status, 200, "{after}");
    assert_eq!((&after["spec"], &after["status"]), (&object["spec"], &both["status"]));
    assert_eq!(after["metadata"]["annotations"], object["metadata"]["annotations"]);
    assert_eq!(after["metadata"]["generation"], 2);
    assert!(version(&after) != version(&object));
    let (_, again) = cluster.patch(&format!("{path}/status"), &other);
    assert_eq!(version(&again), version(&after));
}

#[test]
fn an_undeclared_field_of_the_status_is_dropped() {
    for (declared, expected) in [(true, json!("Present")), (false, Value::Null)] {
        let (mut cluster, path, _) = with_import();
        cluster.world.multi_cluster.declares_slice_objects = declared;
        let patch = json!({"status": {"endpointSliceObjects": "Present"}});
        let (status, object) = cluster.patch(&format!("{path}/status"), &patch);
        assert_eq!((status, &object["status"]["endpointSliceObjects"]), (200, &expected));
    }
}

#[test]
fn null_removes_and_what_the_server_sets_stays() {
    let (mut cluster, path, created) = with_import();
    let patch = json!({
        "metadata": {"creationTimestamp": null, "generation": 9, "labels": {"app": "web"}},
        "spec": {"ports": [{"port": 81}], "type": "Headless"},
    });
    let (_, object) = cluster.patch(&path, &patch);
    assert_eq!(object["metadata"]["creationTimestamp"], created["metadata"]["creationTimestamp"]);
    assert_eq!(object["metadata"]["generation"], 2);
    assert_eq!(object["spec"], json!({"ports": [{"port": 81}], "type": "Headless"}));
    let (_, object) = cluster.patch(&path, &json!({"metadata": {"labels": {"app": null}}}));
    assert_eq!(object["metadata"]["labels"], created["metadata"]["labels"]);
    assert_eq!(object["metadata"]["generation"], 2);
    assert_eq!(cluster.patch(&path, &json!({"metadata": {"uid": "other"}})).0, 409);
}
