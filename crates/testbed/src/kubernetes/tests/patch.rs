//! Merge patches of objects and of their status.

use serde_json::{Value, json};

use super::client::{Cluster, MCS, SERVICES, SLICES, import, service, slice};

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().expect("a version")
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
