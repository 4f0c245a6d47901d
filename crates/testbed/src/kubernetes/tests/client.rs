//! A cluster, and those who write to it: the function, which has the rights of its roles, and the administrator.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::http::Request;
use serde_json::{Value, json};

use super::super::super::identity::Identities;
use super::super::access::{Access, BOUND_GROUP, User};
use super::super::resource::SERVICE_IMPORTS;
use super::super::rules::{EXPORT_ROLE, IMPORT_ROLE, of_role};
use super::super::world::World;
use super::super::{ClusterIdentity, answer};

pub const MCS: &str = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop";
pub const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices";
pub const SERVICES: &str = "/api/v1/namespaces/shop/services";
pub const MERGE: &str = "application/merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

pub struct Cluster {
    pub world: World,
    pub function: User,
    pub administrator: User,
}

impl Cluster {
    /// Serves everything, with the namespace `shop`.
    pub fn new() -> Self {
        let (name, region, account) = ("blue".to_owned(), String::new(), String::new());
        let (identities, admin_token) = (Identities::default(), String::new());
        let rules = Vec::new();
        let access = Access {
            entries: BTreeMap::new(),
            admin_token,
            rules,
            withdrawn: Vec::new(),
            identities,
        };
        let mut world = World::new(ClusterIdentity { name, region, account }, access);
        world.multi_cluster.properties = true;
        world.multi_cluster.versions = SERVICE_IMPORTS.versions.to_vec();
        world.multi_cluster.declares_slice_objects = true;
        world.store.ensure_namespace("shop");
        let rules = [EXPORT_ROLE, IMPORT_ROLE].into_iter().flat_map(of_role).collect();
        let administrator = User::in_group("system:masters", Vec::new());
        Self { world, function: User::in_group(BOUND_GROUP, rules), administrator }
    }

    /// A request of the function.
    pub fn send(&mut self, method: &str, path: &str, kind: &str, body: &Value) -> (u16, Value) {
        let user = self.function.clone();
        self.send_as(&user, method, path, kind, body)
    }

    pub fn send_as(
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

    pub fn get(&mut self, path: &str) -> (u16, Value) {
        let user = self.administrator.clone();
        self.send_as(&user, "GET", path, "", &Value::Null)
    }

    pub fn create(&mut self, path: &str, object: &Value) -> (u16, Value) {
        let path = format!("{path}?fieldManager=cloud-map-sync");
        self.send("POST", &path, "application/json", object)
    }

    /// Creates what is valid.
    pub fn created(&mut self, path: &str, object: &Value) -> Value {
        let (status, body) = self.create(path, object);
        assert_eq!(status, 201, "{body}");
        body
    }

    pub fn patch(&mut self, path: &str, patch: &Value) -> (u16, Value) {
        self.send("PATCH", path, MERGE, patch)
    }

    pub fn delete(&mut self, path: &str, options: &Value) -> (u16, Value) {
        self.send("DELETE", path, "application/json", options)
    }
}

/// An object with our label.
pub fn ours(name: &str, mut fields: Value) -> Value {
    fields["metadata"]["name"] = name.into();
    fields["metadata"]["labels"] = json!({"cloud-map-sync/owner": "cloud-map-sync"});
    fields
}

pub fn import(name: &str) -> Value {
    let spec = json!({"type": "ClusterSetIP", "ports": [{"port": 80, "protocol": "TCP"}]});
    ours(name, json!({ "spec": spec }))
}

pub fn service(name: &str) -> Value {
    ours(name, json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}))
}

pub fn slice(name: &str, addresses: &[&str]) -> Value {
    let endpoints: Vec<Value> =
        addresses.iter().map(|address| json!({"addresses": [address]})).collect();
    ours(name, json!({"addressType": "IPv4", "endpoints": endpoints, "ports": [{"port": 80}]}))
}
