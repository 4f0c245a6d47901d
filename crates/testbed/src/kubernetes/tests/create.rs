//! Creation, and what it refuses.

use serde_json::json;

use super::client::{Cluster, MCS, SERVICES, SLICES, import, service, slice};

#[test]
fn a_new_object_has_what_the_server_sets_and_its_manager() {
    let mut cluster = Cluster::new();
    let mut sent = import("web");
    sent["metadata"]["uid"] = "mine".into();
    sent["status"] = json!({"clusters": [{"cluster": "blue"}]});
    let created = cluster.created(&format!("{MCS}/serviceimports"), &sent);
    let metadata = &created["metadata"];
    assert_eq!(created["apiVersion"], "multicluster.x-k8s.io/v1beta1");
    assert_eq!((&metadata["generation"], &metadata["namespace"]), (&json!(1), &json!("shop")));
    assert_eq!(metadata["managedFields"][0]["manager"], "cloud-map-sync");
    assert!(metadata["uid"] != "mine" && metadata["creationTimestamp"].is_string());
    assert_eq!(created.get("status"), None);
}

#[test]
fn a_name_is_taken_once_and_a_namespace_is_needed() {
    for (path, object) in [
        (SERVICES, service("web")),
        (SLICES, slice("web", &["10.0.0.1"])),
        (&format!("{MCS}/serviceimports"), import("web")),
    ] {
        let mut cluster = Cluster::new();
        cluster.created(path, &object);
        let (status, body) = cluster.create(path, &object);
        assert_eq!((status, &body["reason"]), (409, &json!("AlreadyExists")), "{path}");

        let (status, body) = cluster.create(&path.replace("shop", "none"), &object);
        assert_eq!((status, &body["message"]), (404, &json!("namespaces \"none\" not found")));

        let mut namespace = cluster.get("/api/v1/namespaces/shop").1;
        namespace["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z".into();
        cluster.world.put(namespace);
        let (status, body) = cluster.create(path, &object);
        assert_eq!((status, &body["reason"]), (403, &json!("Forbidden")));
        assert_eq!(body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    }
}

#[test]
fn an_object_whose_owner_is_not_there_is_collected() {
    let mut cluster = Cluster::new();
    let owner = cluster.created(&format!("{MCS}/serviceimports"), &import("web"));
    for (uid, stays) in [(owner["metadata"]["uid"].clone(), true), (json!("gone"), false)] {
        let mut object = slice("web", &[]);
        object["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport", "name": "web",
            "uid": uid,
        }]);
        cluster.created(SLICES, &object);
        assert_eq!(cluster.get(&format!("{SLICES}/web")).0 == 200, stays, "{uid}");
        cluster.delete(&format!("{SLICES}/web"), &json!({}));
    }
}
