//! Creation, and what it refuses.

use serde_json::json;

use super::client::{Cluster, MCS, SERVICES, SLICES, import, service, slice};

#[test]
fn a_new_object_has_what_the_server_sets_and_its_manager() {
    let mut cluster = Cluster::new();
    let mut sent = import("web");
    sent["metadata"]["uid"] = "mine".into();
    sent["spec"]["color"] = "red".into();
    sent["status"] = json!({"clusters": [{"cluster": "blue"}]});
    let created = cluster.created(&format!("{MCS}/serviceimports"), &sent);
    let metadata = &created["metadata"];
    assert_eq!(created["apiVersion"], "multicluster.x-k8s.io/v1beta1");
    assert_eq!((&metadata["generation"], &metadata["namespace"]), (&json!(1), &json!("shop")));
    assert_eq!(metadata["managedFields"][0]["manager"], "cloud-map-sync");
    assert!(metadata["uid"] != "mine" && metadata["creationTimestamp"].is_string());
    assert_eq!((created["spec"].get("color"), created.get("status")), (None, None));
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
fn what_does_not_fit_the_path_or_the_kind_is_refused() {
    let imports = format!("{MCS}/serviceimports");
    for (change, value, expected) in [
        ("/metadata/name", json!("Web"), (422, "RFC 1123 subdomain")),
        ("/metadata/name", json!(""), (422, "name or generateName is required")),
        ("/metadata/labels", json!({"cloud-map-sync/owner": 1}), (400, "cannot be handled as")),
        ("/spec/ips", json!(["10.0.0.1", "10.0.0.2", "10.0.0.3"]), (422, "Too many")),
        ("/spec/type", json!("Any"), (422, "Unsupported value")),
    ] {
        let mut object = import("web");
        object["spec"]["ips"] = json!([]);
        *object.pointer_mut(change).expect("a field") = value;
        let (status, body) = Cluster::new().create(&imports, &object);
        assert_eq!(status, expected.0, "{body}");
        assert!(body["message"].as_str().unwrap().contains(expected.1), "{body}");
    }
    for (key, value, expected) in [
        ("apiVersion", json!("v1"), "does not match the expected apiVersion"),
        ("kind", json!("Service"), "does not match the expected kind"),
        ("metadata", json!({"name": "web", "namespace": "other"}), "does not match the namespace"),
    ] {
        let mut object = import("web");
        object[key] = value;
        let (status, body) = Cluster::new().create(&imports, &object);
        assert_eq!(status, 400, "{body}");
        assert!(body["message"].as_str().unwrap().contains(expected), "{body}");
    }
}

#[test]
fn unknown_fields_are_an_error_only_for_who_asks() {
    let mut object = import("web");
    object["spec"]["color"] = "red".into();
    let path = format!("{MCS}/serviceimports?fieldValidation=Strict");
    let (status, body) = Cluster::new().send("POST", &path, "application/json", &object);
    assert_eq!(status, 400);
    assert!(body["message"].as_str().unwrap().contains("unknown field \"spec.color\""), "{body}");
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
