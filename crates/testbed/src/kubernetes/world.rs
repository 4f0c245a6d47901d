//! The state of one cluster: objects, the pods of its Services, and the switches for tests. After every change of a
//! Service or of its pods the objects of the endpoint controllers are updated.
//!
//! What the garbage collector and the namespace controller remove, at once instead of a little later.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::access::Access;
use super::allocation::{Allocator, carry_over, is_headless};
use super::fault::Fault;
use super::multi_cluster::MultiCluster;
use super::pod::Pod;
use super::ready::Ready;
use super::resource::{
    ENDPOINT_SLICES, ENDPOINTS, NAMESPACES, RESOURCES, Resource, SERVICES, Target,
};
use super::service::with_defaults;
use super::status::Failure;
use super::store::Store;
use super::writes::is_held;
use super::{ClusterIdentity, RequestLine, managers};
use crate::gate::Gate;

/// Everything behind the lock of a `KubernetesServer`.
pub struct World {
    pub identity: ClusterIdentity,
    pub store: Store,
    /// Who may use it.
    pub access: Access,
    pub faults: Vec<Fault>,
    pub requests: Vec<RequestLine>,
    /// Whether discovery.k8s.io is served.
    pub serves_slices: bool,
    /// What is served of the Multi-Cluster Services API.
    pub multi_cluster: MultiCluster,
    /// The largest numbers of objects, by namespace and plural of the resource (ResourceQuotas).
    pub quotas: BTreeMap<(String, String), usize>,
    /// The service ranges.
    pub addresses: Allocator,
    /// Whether the pods behind Services can be listed; the function never does, and they make a large world slow.
    pub shows_pods: bool,
    /// The server's version is 1.<minor>.
    pub minor: u32,
    /// The `trafficDistribution` that a mutating webhook sets on each Service that is written.
    pub webhook_distribution: Option<&'static str>,
    /// The pods of Services, by namespace and name.
    pub pods: BTreeMap<(String, String), Vec<Pod>>,
    /// The imports that always have a ready endpoint.
    pub ready: Ready,
    /// Where requests are held, if they are.
    pub gate: Option<Gate>,
}

impl World {
    /// An empty cluster.
    pub fn new(identity: ClusterIdentity, access: Access) -> Self {
        Self {
            identity,
            access,
            store: Store::new(),
            faults: Vec::new(),
            requests: Vec::new(),
            serves_slices: true,
            multi_cluster: MultiCluster::default(),
            quotas: BTreeMap::new(),
            addresses: Allocator::default(),
            shows_pods: false,
            minor: 33,
            webhook_distribution: None,
            pods: BTreeMap::new(),
            ready: Ready::default(),
            gate: None,
        }
    }

    /// The object of a path.
    pub fn present(&self, resource: &Resource, target: &Target) -> Result<Value, Failure> {
        let found = self.store.get(resource, &target.namespace, &target.name);
        let found = found.map(|object| (*object).clone());
        found.ok_or_else(|| Failure::not_found(resource, &target.name))
    }

    /// Whether a resource is served in a version.
    pub fn serves(&self, resource: &Resource, version: &str) -> bool {
        if resource.custom {
            return self.multi_cluster.serves(resource, version);
        }
        self.serves_slices || *resource != ENDPOINT_SLICES
    }

    /// Writes an object of a kind that is served and lets the controllers follow. Tests may write what the server would
    /// refuse of a client.
    pub fn put(&mut self, mut object: Value) -> Value {
        let resource = resource_of(&object);
        if *resource == SERVICES {
            object = self.with_addresses(with_defaults(object));
        } else if resource.custom {
            object["apiVersion"] = resource.api_version().into();
        }
        self.keep(resource, object)
    }

    /// Stores what a client has sent. What nothing holds any more goes at once.
    pub fn keep_sent(&mut self, resource: &Resource, object: Value) -> Value {
        let kept = self.keep(resource, object);
        let is_over = !kept["metadata"]["deletionTimestamp"].is_null() && !is_held(&kept);
        if resource.namespaced && is_over || is_orphan(&self.store, &kept) {
            let (namespace, name) = place_of(&kept);
            self.delete(resource, &namespace, &name);
        }
        kept
    }

    fn keep(&mut self, resource: &Resource, mut object: Value) -> Value {
        if resource.custom {
            let (namespace, name) = place_of(&object);
            let before = self.store.get(resource, &namespace, &name);
            managers::set_generation(&mut object, before.as_deref());
        }
        let stored = self.store.put(resource, object);
        if *resource == SERVICES {
            let (namespace, name) = place_of(&stored);
            self.follow(&namespace, &name);
        }
        self.note_gaps("a write");
        (*stored).clone()
    }

    /// A Service of a test has the addresses that it had before.
    fn with_addresses(&mut self, mut service: Value) -> Value {
        let (namespace, name) = place_of(&service);
        let before = self.store.get(&SERVICES, &namespace, &name);
        let before = before.filter(|before| !is_headless(before));
        if service["spec"]["type"] != "ExternalName" {
            carry_over(&mut service, before.as_deref());
        }
        self.addresses.allocate(&mut service);
        service
    }

    /// Removes an object and what depends on it: with a namespace goes all that is in it, with an owner what has no
    /// other, and with a Service its Endpoints.
    pub fn delete(&mut self, resource: &Resource, namespace: &str, name: &str) -> bool {
        let Some(object) = self.store.get(resource, namespace, name) else { return false };
        self.store.remove(resource, namespace, name);
        if *resource == SERVICES {
            self.pods.remove(&(namespace.to_owned(), name.to_owned()));
            self.store.remove(&ENDPOINTS, namespace, name);
        }
        for (resource, dependent) in self.dependents(resource, &object) {
            let (namespace, name) = place_of(&dependent);
            self.delete(resource, &namespace, &name);
        }
        self.note_gaps("a deletion");
        true
    }

    /// Everything in a namespace, or the objects beside another one that name it as an owner and have no owner left.
    fn dependents(&self, of: &Resource, object: &Value) -> Vec<(&'static Resource, Arc<Value>)> {
        let (namespace, name) = place_of(object);
        let namespace = if *of == NAMESPACES { name } else { namespace };
        if namespace.is_empty() {
            return Vec::new();
        }
        let names_it = |owner: &Value| owner["uid"] == object["metadata"]["uid"];
        let goes = |dependent: &Value| {
            *of == NAMESPACES
                || owners(dependent).iter().any(names_it) && is_orphan(&self.store, dependent)
        };
        let resources = RESOURCES.into_iter().filter(|resource| resource.namespaced);
        let all = resources.flat_map(|resource| {
            let objects = self.store.all(resource, &namespace).into_iter();
            objects.map(move |object| (resource, object))
        });
        all.filter(|(_, object)| goes(object)).collect()
    }
}

/// Namespace and name of an object.
pub fn place_of(object: &Value) -> (String, String) {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

/// The resource of an object of a kind that the sandbox serves.
pub fn resource_of(object: &Value) -> &'static Resource {
    let version = object["apiVersion"].as_str();
    let kind = object["kind"].as_str();
    let resource = Resource::of_object(version.unwrap_or_default(), kind.unwrap_or_default());
    resource.unwrap_or_else(|| panic!("the sandbox serves no {version:?} {kind:?}"))
}

/// Whether an object has owners and none of them exists. An owner of a kind that the stand-in does not have is alive.
pub fn is_orphan(store: &Store, object: &Value) -> bool {
    let owners = owners(object);
    !owners.is_empty() && !owners.iter().any(|owner| is_alive(store, object, owner))
}

fn is_alive(store: &Store, object: &Value, owner: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let Some(resource) = Resource::of_object(&text(&owner["apiVersion"]), &text(&owner["kind"]))
    else {
        return true;
    };
    let namespace =
        if resource.namespaced { &object["metadata"]["namespace"] } else { &Value::Null };
    let found = store.get(resource, &text(namespace), &text(&owner["name"]));
    found.is_some_and(|found| found["metadata"]["uid"] == owner["uid"])
}

fn owners(object: &Value) -> &[Value] {
    object["metadata"]["ownerReferences"].as_array().map_or(&[], Vec::as_slice)
}
