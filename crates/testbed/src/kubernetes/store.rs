//! The objects of one cluster with their revisions. Objects are plain JSON. The map is copy-on-write, so a list of them
//! costs nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::clock;
use super::super::sigv4::digest;
use super::resource::{NAMESPACES, Resource};

/// Plural, namespace, name: etcd's order within a resource.
pub type Key = (String, String, String);
/// All objects at one revision.
pub type Objects = Arc<BTreeMap<Key, Arc<Value>>>;

/// What etcd is to a real API server.
pub struct Store {
    objects: Objects,
    revision: u64,
}

impl Store {
    /// An empty cluster, but for the namespaces that every cluster has.
    pub fn new() -> Self {
        let mut store = Self { objects: Objects::default(), revision: 4000 };
        for name in ["default", "kube-system"] {
            store.ensure_namespace(name);
        }
        store
    }

    /// The key of an object.
    pub fn key(resource: &Resource, namespace: &str, name: &str) -> Key {
        (resource.plural.to_owned(), namespace.to_owned(), name.to_owned())
    }

    /// One object.
    pub fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.objects.get(&Self::key(resource, namespace, name)).cloned()
    }

    /// Every object of a resource in a namespace, or everywhere where it is empty.
    pub fn all(&self, resource: &Resource, namespace: &str) -> Vec<Arc<Value>> {
        select(&self.objects, resource, namespace).map(|(_, object)| object.clone()).collect()
    }

    /// The present revision and its objects.
    pub fn now(&self) -> (u64, Objects) {
        (self.revision, self.objects.clone())
    }

    /// Writes an object: a new one gets uid and creation time, a known one keeps them. Writing what
    /// is there already changes nothing, as on a real server.
    pub fn put(&mut self, resource: &Resource, mut object: Value) -> Arc<Value> {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().expect("an object has metadata.name").to_owned();
        let namespace = metadata["namespace"].as_str().unwrap_or_default().to_owned();
        if resource.namespaced {
            self.ensure_namespace(&namespace);
        }
        let key = Self::key(resource, &namespace, &name);
        let known = self.objects.get(&key).cloned();
        self.complete(&mut object, &key, known.as_deref());
        if let Some(known) = known.filter(|known| **known == object) {
            return known;
        }
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let object = Arc::new(object);
        Arc::make_mut(&mut self.objects).insert(key, object.clone());
        object
    }

    fn complete(&self, object: &mut Value, key: &Key, known: Option<&Value>) {
        let before = known.map_or(Value::Null, |known| known["metadata"].clone());
        let metadata = &mut object["metadata"];
        if metadata["uid"].is_null() {
            metadata["uid"] = match &before["uid"] {
                Value::Null => uid(&format!("{key:?} {}", self.revision)).into(),
                uid => uid.clone(),
            };
        }
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = match &before["creationTimestamp"] {
                Value::Null => clock::timestamp().into(),
                time => time.clone(),
            };
        }
        metadata["resourceVersion"] = before["resourceVersion"].clone();
    }

    /// Removes an object; false where there was none.
    pub fn remove(&mut self, resource: &Resource, namespace: &str, name: &str) -> bool {
        let key = Self::key(resource, namespace, name);
        let removed = Arc::make_mut(&mut self.objects).remove(&key).is_some();
        self.revision += u64::from(removed);
        removed
    }

    /// Makes a namespace, unless it is there.
    pub fn ensure_namespace(&mut self, name: &str) {
        if self.get(&NAMESPACES, "", name).is_none() {
            let object = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
            });
            self.put(&NAMESPACES, object);
        }
    }
}

/// Objects of a resource in key order.
pub fn select<'a>(
    objects: &'a Objects,
    resource: &Resource,
    namespace: &str,
) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> {
    let plural = resource.plural.to_owned();
    let namespace = namespace.to_owned();
    let start = (plural.clone(), namespace.clone(), String::new());
    objects
        .range(start..)
        .take_while(move |(key, _)| key.0 == plural && (namespace.is_empty() || key.1 == namespace))
}

/// A stable id in the form of a UUID.
pub fn uid(seed: &str) -> String {
    let hex = digest(seed.as_bytes());
    format!("{}-{}-4{}-a{}-{}", &hex[..8], &hex[8..12], &hex[12..15], &hex[15..18], &hex[18..30])
}
