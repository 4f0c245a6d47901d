//! The state of one cluster: objects, the pods of its Services, and the switches for tests. After every change of a
//! Service or of its pods the objects of the endpoint controllers are updated.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::access::Access;
use super::allocation::{Allocator, carry_over, is_headless};
use super::endpoint_slices::{is_derived_for, slices_of};
use super::endpoints::endpoints_of;
use super::fault::Fault;
use super::multi_cluster::MultiCluster;
use super::pod::Pod;
use super::removal::is_held;
use super::resource::{ENDPOINT_SLICES, ENDPOINTS, NAMESPACES, PODS, Resource, SERVICES};
use super::service::with_defaults;
use super::store::Store;
use super::{ClusterIdentity, RequestLine, garbage, schema, schema_check};

/// Everything behind the lock of a `KubernetesServer`.
pub struct World {
    /// The cluster.
    pub identity: ClusterIdentity,
    /// Its objects.
    pub store: Store,
    /// Who may use it.
    pub access: Access,
    /// Faults to come.
    pub faults: Vec<Fault>,
    /// Requests so far.
    pub requests: Vec<RequestLine>,
    /// Whether discovery.k8s.io is served.
    pub serves_slices: bool,
    /// What is served of the Multi-Cluster Services API.
    pub multi_cluster: MultiCluster,
    /// The service ranges.
    pub addresses: Allocator,
    /// Whether the pods behind Services can be listed; the function never does, and they make a large world slow.
    pub shows_pods: bool,
    /// The server's version is 1.<minor>.
    pub minor: u32,
    /// How far the server's clock is ahead.
    pub clock_ahead: Duration,
    pods: BTreeMap<(String, String), Vec<Pod>>,
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
            addresses: Allocator::default(),
            shows_pods: false,
            minor: 33,
            clock_ahead: Duration::ZERO,
            pods: BTreeMap::new(),
        }
    }

    /// The server's clock.
    pub fn now(&self) -> Timestamp {
        Timestamp::now() + self.clock_ahead
    }

    /// Whether a resource is served in a version.
    pub fn serves(&self, resource: &Resource, version: &str) -> bool {
        if resource.custom {
            return self.multi_cluster.serves(resource, version);
        }
        self.serves_slices || *resource != ENDPOINT_SLICES
    }

    /// Writes an object of a kind that is served and lets the controllers follow. Tests may write what the server would
    /// refuse of a client, but for custom resources.
    pub fn put(&mut self, object: Value) -> Value {
        let (version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
        let resource = Resource::of_object(version.unwrap_or_default(), kind.unwrap_or_default());
        let resource =
            resource.unwrap_or_else(|| panic!("the sandbox serves no {version:?} {kind:?}"));
        let object = if *resource == SERVICES {
            self.with_addresses(with_defaults(object))
        } else if resource.custom {
            self.checked(resource, object)
        } else {
            object
        };
        self.keep(resource, object)
    }

    /// Stores what a client has sent. What nothing holds any more goes at once.
    pub fn keep_sent(&mut self, resource: &Resource, object: Value) -> Value {
        let kept = self.keep(resource, object);
        let is_over = !kept["metadata"]["deletionTimestamp"].is_null() && !is_held(&kept);
        if resource.namespaced && is_over || garbage::is_orphan(&self.store, &kept) {
            let (namespace, name) = place_of(&kept);
            self.delete(resource, &namespace, &name);
        }
        kept
    }

    fn keep(&mut self, resource: &Resource, mut object: Value) -> Value {
        if resource.custom {
            self.set_generation(resource, &mut object);
        }
        let stored = self.store.put(resource, object);
        if *resource == SERVICES {
            let (namespace, name) = place_of(&stored);
            self.follow(&namespace, &name);
        }
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

    /// A custom resource of a test, in the stored version.
    fn checked(&self, resource: &Resource, mut object: Value) -> Value {
        let schema = schema::of(resource, true).expect("a custom resource has one");
        let mut wrong = schema_check::causes(&object, &schema);
        wrong.extend(schema_check::prune(&mut object, &schema));
        assert!(wrong.is_empty(), "{}: {}", resource.kind, wrong.join(", "));
        object["apiVersion"] = resource.api_version().into();
        object
    }

    /// The generation grows with every change of what is neither metadata nor status.
    fn set_generation(&self, resource: &Resource, object: &mut Value) {
        let (namespace, name) = place_of(object);
        let before = self.store.get(resource, &namespace, &name);
        let generation = match &before {
            None => object["metadata"]["generation"].as_u64().unwrap_or(1),
            Some(before) => {
                let generation = before["metadata"]["generation"].as_u64().unwrap_or(1);
                generation + u64::from(before.get("spec") != object.get("spec"))
            }
        };
        object["metadata"]["generation"] = generation.into();
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
        let dependents = if *resource == NAMESPACES {
            garbage::content_of(&self.store, name)
        } else {
            garbage::orphans_of(&self.store, namespace, &object["metadata"]["uid"])
        };
        for (resource, namespace, name) in dependents {
            self.delete(resource, &namespace, &name);
        }
        true
    }

    /// Replaces the pods that a Service selects.
    pub fn set_pods(&mut self, namespace: &str, service: &str, pods: &[Pod]) {
        let object = self.store.get(&SERVICES, namespace, service);
        let object = object.unwrap_or_else(|| {
            panic!("pods were given for {namespace}/{service}, which does not exist")
        });
        let place = (namespace.to_owned(), service.to_owned());
        let before = self.pods.insert(place, pods.to_vec()).unwrap_or_default();
        if self.shows_pods {
            self.show_pods(&object, &before, pods);
        }
        self.follow(namespace, service);
    }

    /// Does what the endpoint and endpoint-slice controllers do for a Service with a selector.
    fn follow(&mut self, namespace: &str, name: &str) {
        let service = self.store.get(&SERVICES, namespace, name);
        let Some(service) = service.filter(|service| service["spec"]["selector"].is_object())
        else {
            return;
        };
        let pods =
            self.pods.get(&(namespace.to_owned(), name.to_owned())).cloned().unwrap_or_default();
        let slices = slices_of(&service, &pods);
        let names: Vec<_> = slices.iter().map(|slice| slice["metadata"]["name"].clone()).collect();
        self.remove_slices(namespace, |slice| {
            is_derived_for(slice, name) && !names.contains(&slice["metadata"]["name"])
        });
        for slice in slices {
            self.store.put(&ENDPOINT_SLICES, slice);
        }
        self.store.put(&ENDPOINTS, endpoints_of(&service, &pods));
    }

    fn show_pods(&mut self, service: &Value, before: &[Pod], now: &[Pod]) {
        let (namespace, _) = place_of(service);
        for gone in before.iter().filter(|pod| now.iter().all(|it| it.name != pod.name)) {
            self.store.remove(&PODS, &namespace, &gone.name);
        }
        for pod in now {
            self.store.put(&PODS, pod.object(service));
        }
    }

    fn remove_slices(&mut self, namespace: &str, goes: impl Fn(&Value) -> bool) {
        for slice in self.store.all(&ENDPOINT_SLICES, namespace) {
            if goes(&slice) {
                let (namespace, name) = place_of(&slice);
                self.store.remove(&ENDPOINT_SLICES, &namespace, &name);
            }
        }
    }
}

fn place_of(object: &Value) -> (String, String) {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

#[cfg(test)]
mod tests {
    use super::super::super::identity::Identities;
    use super::super::service::Headless;
    use super::*;

    #[test]
    fn shown_pods_carry_what_their_service_selects_and_go_when_they_are_replaced() {
        let (name, region, account) = ("blue".to_owned(), String::new(), String::new());
        let (identities, admin_token) = (Identities::default(), String::new());
        let access =
            Access { entries: BTreeMap::new(), admin_token, rules: Vec::new(), identities };
        let mut world = World::new(ClusterIdentity { name, region, account }, access);
        world.put(Headless::new("shop", "web").build());
        world.set_pods("shop", "web", &[Pod::new("web-1", "10.0.0.1")]);
        assert!(world.store.all(&PODS, "").is_empty());
        world.shows_pods = true;
        for pods in [["web-1", "web-2"], ["web-2", "web-3"]] {
            let pods = pods.map(|name| Pod::new(name, "10.0.0.1"));
            world.set_pods("shop", "web", &pods);
        }

        let shown = world.store.all(&PODS, "shop");

        let names: Vec<String> = shown.iter().map(|pod| place_of(pod).1).collect();
        assert_eq!(names, ["web-2", "web-3"]);
        assert!(shown.iter().all(|pod| pod["metadata"]["labels"]["app"] == "web"));
    }
}
