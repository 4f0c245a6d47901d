//! The verbs with which tests change a cluster: its Services and pods, its access entries, the APIs that it serves and
//! its faults.

use std::time::Duration;

use serde_json::Value;

use super::super::gate::Gate;
use super::resource::{EVENTS, RESOURCES, Resource, SERVICES};
use super::world::{place_of, resource_of};
use super::{Fault, FaultKind, KubernetesServer, Pod, Right};

impl KubernetesServer {
    /// Creates or replaces a Service; the controllers follow.
    pub fn service(&self, service: impl Into<Value>) -> Value {
        self.world().put(service.into())
    }

    /// Replaces the pods behind a Service and rewrites its slices.
    pub fn pods(&self, namespace: &str, service: &str, pods: &[Pod]) {
        self.world().set_pods(namespace, service, pods);
    }

    /// Deletes a Service with the slices that it owns; false where there was none.
    pub fn delete_service(&self, namespace: &str, name: &str) -> bool {
        self.world().delete(&SERVICES, namespace, name)
    }

    /// Changes a Service in place.
    pub fn edit_service(&self, namespace: &str, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut world = self.world();
        let service = world.store.get(&SERVICES, namespace, name);
        let mut service = (*service.expect("the Service to edit exists")).clone();
        edit(&mut service);
        world.put(service);
    }

    /// Creates or replaces any object of a kind that is served.
    pub fn put(&self, object: Value) -> Value {
        self.world().put(object)
    }

    /// Deletes an object by its plural name (`endpointslices`); false where there was none.
    pub fn delete(&self, plural: &str, namespace: &str, name: &str) -> bool {
        self.world().delete(resource_named(plural), namespace, name)
    }

    /// The object of the same kind, namespace and name.
    pub fn find(&self, object: &Value) -> Option<Value> {
        let (namespace, name) = place_of(object);
        self.world().store.get(resource_of(object), &namespace, &name).map(|found| (*found).clone())
    }

    /// Deletes the object of the same kind, namespace and name; false where there was none.
    pub fn delete_object(&self, object: &Value) -> bool {
        let (namespace, name) = place_of(object);
        self.world().delete(resource_of(object), &namespace, &name)
    }

    /// Objects of a resource in a namespace, or everywhere where it is empty.
    pub fn objects(&self, plural: &str, namespace: &str) -> Vec<Value> {
        let objects = self.world().store.all(resource_named(plural), namespace);
        objects.iter().map(|object| (**object).clone()).collect()
    }

    /// The Events created in a namespace, or everywhere where it is empty.
    pub fn events(&self, namespace: &str) -> Vec<Value> {
        self.objects(EVENTS.plural, namespace)
    }

    /// Those among them that are warnings.
    pub fn warnings(&self, namespace: &str) -> Vec<Value> {
        let events = self.events(namespace).into_iter();
        events.filter(|event| event["type"] == "Warning").collect()
    }

    /// Injects a fault.
    pub fn fail(&self, fault: Fault) {
        self.world().faults.push(fault);
    }

    /// Answers every request below the path with a `Status` of that code.
    pub fn refuse(&self, path: &str, status: u16) {
        self.fail(Fault::always(path, FaultKind::Status(status)));
    }

    /// The same for one method.
    pub fn refuse_method(&self, method: &str, path: &str, status: u16) {
        self.fail(Fault::always(path, FaultKind::Status(status)).of_method(method));
    }

    /// Takes connections and answers nothing.
    pub fn be_silent(&self) {
        self.fail(Fault::always("/", FaultKind::Slow(Duration::from_hours(1))));
    }

    /// Holds requests at a gate from now on.
    pub fn hold_at(&self, gate: &Gate) {
        self.world().gate = Some(gate.clone());
    }

    /// Whether no fault hits any request any more.
    pub fn is_sound(&self) -> bool {
        self.world().faults.iter().all(|fault| fault.times == 0)
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        self.world().faults.clear();
    }

    /// Creates an access entry: the role's tokens are accepted, in these Kubernetes groups.
    pub fn grant(&self, role_arn: &str, groups: &[&str]) {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        self.world().access.entries.insert(role_arn.to_owned(), groups);
    }

    /// Deletes an access entry: the role's tokens are refused with 401.
    pub fn revoke(&self, role_arn: &str) {
        self.world().access.entries.remove(role_arn);
    }

    /// Takes a right from the function's group: requests that need it are forbidden with RBAC's words.
    pub fn withdraw(&self, right: &Right) {
        self.world().access.withdrawn.push(right.clone());
    }

    /// Gives the group all of its rights again.
    pub fn give_back(&self) {
        self.world().access.withdrawn.clear();
    }

    /// Serves discovery.k8s.io or not; without it EndpointSlices are an unknown resource.
    pub fn serve_slices(&self, served: bool) {
        self.world().serves_slices = served;
    }

    /// Shows the pods that are given to Services from now on as objects of their own.
    pub fn show_pods(&self) {
        self.world().shows_pods = true;
    }

    /// Sets the version to `1.<minor>`: below 31 Services cannot be selected by spec.clusterIP.
    pub fn set_minor_version(&self, minor: u32) {
        self.world().minor = minor;
    }

    /// Sets how many objects of a resource a namespace may have (a ResourceQuota).
    pub fn set_quota(&self, namespace: &str, plural: &str, limit: usize) {
        self.world().quotas.insert((namespace.to_owned(), plural.to_owned()), limit);
    }

    /// From now on a mutating webhook sets this `trafficDistribution` on each Service that is written by HTTP.
    pub fn set_webhook_distribution(&self, distribution: Option<&'static str>) {
        self.world().webhook_distribution = distribution;
    }
}

fn resource_named(plural: &str) -> &'static Resource {
    let known = RESOURCES.into_iter().find(|known| known.plural == plural);
    known.unwrap_or_else(|| panic!("the sandbox serves no {plural}"))
}
