//! What a stand-in refuses and removes, where no test of the function would see that it does not: creations, merge
//! patches, applies, deletions. By requests of the function, which has the rights of its roles, and the administrator.

use axum::body::Bytes;
use axum::http::Request;
use serde_json::{Value, json};

use super::access::{Access, BOUND_GROUP, User};
use super::multi_cluster::Export;
use super::resource::{NAMESPACES, SERVICE_EXPORTS, SERVICE_IMPORTS};
use super::rules::{EXPORT_ROLE, IMPORT_ROLE, of_role};
use super::world::World;
use super::{ClusterIdentity, answer};

const MCS: &str = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices";
const SERVICES: &str = "/api/v1/namespaces/shop/services";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

struct Cluster {
    world: World,
    function: User,
    administrator: User,
}

impl Cluster {
    /// Serves everything, with the namespace `shop`.
    fn new() -> Self {
        let name = "blue".to_owned();
        let region = String::new();
        let account = String::new();
        let identity = ClusterIdentity { name, local_id: None, region, account };
        let mut world = World::new(identity, Access::default());
        world.multi_cluster.properties = true;
        world.multi_cluster.versions = SERVICE_IMPORTS.versions.to_vec();
        world.multi_cluster.declares_slice_objects = true;
        world.store.ensure_namespace("shop");
        let rules = [EXPORT_ROLE, IMPORT_ROLE].into_iter().flat_map(of_role).collect();
        let administrator = User::in_group("kubernetes-admin", "system:masters");
        let function = User::in_group(BOUND_GROUP, BOUND_GROUP).with_rules(rules);
        Self { world, function, administrator }
    }

    /// A request of the function.
    fn send(&mut self, method: &str, path: &str, kind: &str, body: &Value) -> (u16, Value) {
        let user = self.function.clone();
        self.send_as(&user, method, path, kind, body)
    }

    fn send_as(
        &mut self,
        user: &User,
        method: &str,
        path: &str,
        kind: &str,
        body: &Value,
    ) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.header("user-agent", "tests/1").body(Bytes::from(body));
        answer::ask(&mut self.world, user, request.expect("a request"))
    }

    fn get(&mut self, path: &str) -> (u16, Value) {
        let user = self.administrator.clone();
        self.send_as(&user, "GET", path, "", &Value::Null)
    }

    fn create(&mut self, path: &str, object: &Value) -> (u16, Value) {
        let path = format!("{path}?fieldManager=cloud-map-sync");
        self.send("POST", &path, "application/json", object)
    }

    /// Creates what is valid.
    fn created(&mut self, path: &str, object: &Value) -> Value {
        let (status, body) = self.create(path, object);
        assert_eq!(status, 201, "{body}");
        body
    }

    fn patch(&mut self, path: &str, patch: &Value) -> (u16, Value) {
        self.send("PATCH", path, MERGE, patch)
    }

    fn delete(&mut self, path: &str, options: &Value) -> (u16, Value) {
        self.send("DELETE", path, "application/json", options)
    }
}

/// An object with our label.
fn ours(name: &str, mut fields: Value) -> Value {
    fields["metadata"]["name"] = name.into();
    fields["metadata"]["labels"] = json!({"cloud-map-sync/owner": "cloud-map-sync"});
    fields
}

fn import(name: &str) -> Value {
    let spec = json!({"type": "ClusterSetIP", "ports": [{"port": 80, "protocol": "TCP"}]});
    ours(name, json!({ "spec": spec }))
}

fn service(name: &str) -> Value {
    ours(name, json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}))
}

fn slice(name: &str, addresses: &[&str]) -> Value {
    let endpoints: Vec<Value> =
        addresses.iter().map(|address| json!({"addresses": [address]})).collect();
    ours(name, json!({"addressType": "IPv4", "endpoints": endpoints, "ports": [{"port": 80}]}))
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

fn with_export() -> Cluster {
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
    let mut cluster = with_export();
    let other = "fieldManager=other&force=true";
    apply(&mut cluster, other, &body(&[condition("Theirs", "True"), condition("Both", "True")]));
    let all =
        [condition("Valid", "True"), condition("Conflict", "False"), condition("Both", "True")];
    let (status, object) = apply(&mut cluster, OURS, &body(&all));
    assert_eq!(status, 200, "{object}");
    assert_eq!(conditions(&object), ["Theirs True", "Valid True", "Conflict False", "Both True"]);

    let (_, object) = apply(&mut cluster, OURS, &body(&[condition("Valid", "False")]));
    assert_eq!(conditions(&object), ["Theirs True", "Valid False", "Both True"]);

    let (_, object) = apply(&mut cluster, other, &body(&[]));
    assert_eq!(conditions(&object), ["Valid False"]);
}

#[test]
fn preconditions_are_met_or_nothing_is_deleted() {
    let mut cluster = Cluster::new();
    let created = cluster.created(SERVICES, &service("web"));
    let path = format!("{SERVICES}/web");
    for (key, text) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let options = json!({"preconditions": {key: "other"}});
        let (status, body) = cluster.delete(&path, &options);
        assert_eq!((status, &body["reason"]), (409, &json!("Conflict")));
        assert!(
            body["message"]
                .as_str()
                .unwrap()
                .contains(&format!("the {text} in the precondition (other)"))
        );
    }
    let metadata = &created["metadata"];
    let options = json!({"preconditions": {
        "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
    }});
    let (status, body) = cluster.delete(&path, &options);
    assert_eq!((status, &body["status"]), (200, &json!("Success")));
    assert_eq!(cluster.delete(&path, &json!({})).0, 404);
}

#[test]
fn a_finalizer_holds_an_object_until_it_is_taken_off() {
    let mut cluster = Cluster::new();
    cluster.world.put(Export::new("shop", "web").finalizer("example.com/held").into());
    let administrator = cluster.administrator.clone();
    let path = format!("{MCS}/serviceexports/web");
    let (status, held) = cluster.send_as(&administrator, "DELETE", &path, "", &Value::Null);
    assert_eq!(status, 200);
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
    assert_eq!(cluster.get(&path).0, 200);
    let patch = json!({"metadata": {"finalizers": null}});
    cluster.send_as(&administrator, "PATCH", &path, MERGE, &patch);
    assert_eq!(cluster.get(&path).0, 404);
}

#[test]
fn with_a_namespace_goes_its_content() {
    let mut cluster = Cluster::new();
    for namespace in ["shop", "other"] {
        cluster.world.put(Export::new(namespace, "web").into());
    }
    cluster.world.delete(&NAMESPACES, "", "shop");
    let left = cluster.world.store.all(&SERVICE_EXPORTS, "");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["metadata"]["namespace"], "other");
}

#[test]
fn an_object_is_shown_in_the_version_that_is_asked_for() {
    let mut cluster = Cluster::new();
    cluster.created(&format!("{MCS}/serviceimports"), &import("web"));
    let older = MCS.replace("v1beta1", "v1alpha1");
    for (base, version) in [(MCS, "v1beta1"), (older.as_str(), "v1alpha1")] {
        let version = format!("multicluster.x-k8s.io/{version}");
        assert_eq!(cluster.get(&format!("{base}/serviceimports/web")).1["apiVersion"], version);
        let (_, list) = cluster.get(&format!("{base}/serviceimports"));
        assert_eq!(
            (&list["apiVersion"], &list["kind"]),
            (&json!(version), &json!("ServiceImportList"))
        );
        assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    }
}
