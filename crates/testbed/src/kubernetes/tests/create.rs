//! Creation, and what it refuses.

use serde_json::json;

use super::client::{Cluster, MCS, SERVICES, SLICES, import, service, slice};

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
