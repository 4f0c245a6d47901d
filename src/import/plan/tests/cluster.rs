//! The objects of a namespace in an API server in memory. It assigns uids, versions and IPs, checks preconditions, and
//! refuses what a real one refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::import::plan::{
    Change, DerivedService, Kind, ObjectRef, Plan, Present, Slice, SliceEndpoint, Write,
};
use crate::model::{ExportedPort, Family, ImportType};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    pub objects: BTreeMap<(Kind, String), Value>,
    assigned: u64,
}

/// A port of an endpoint as clients of the import reach it: `10.0.0.1 TCP/80->8080`.
pub type Reachable = BTreeSet<String>;

impl Cluster {
    pub fn present(&self) -> Present {
        let mut present = Present::default();
        for ((kind, _), object) in &self.objects {
            present.store(*kind, object);
        }
        present
    }

    pub fn object(&self, kind: Kind) -> &Value {
        let found = self.objects.iter().find(|((it, _), _)| *it == kind);
        found.map(|(_, object)| object).expect("an object of the kind")
    }

    pub fn object_mut(&mut self, kind: Kind) -> &mut Value {
        let found = self.objects.iter_mut().find(|((it, _), _)| *it == kind);
        found.map(|(_, object)| object).expect("an object of the kind")
    }

    /// Carries out a plan that was made for these objects, and shows the state after each change.
    pub fn carry_out(&mut self, plan: &Plan, mut after: impl FnMut(&Self)) {
        let mut present = self.present();
        for change in &plan.changes {
            let body = present.body(change).expect("all earlier changes succeeded");
            if let Some(answer) = self.answer(change, body) {
                present.store(change.object.kind, answer);
            }
            after(self);
        }
    }

    /// Removes the objects whose owners are all gone.
    pub fn collect_garbage(&mut self) {
        let uid = |it: &Value| it["metadata"]["uid"].as_str().expect("a uid").to_owned();
        let living: BTreeSet<String> = self.objects.values().map(uid).collect();
        self.objects.retain(|_, object| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            let is_alive = |it: &Value| it["uid"].as_str().is_some_and(|it| living.contains(it));
            owners.is_none_or(|owners| owners.iter().any(is_alive))
        });
    }

    fn answer(&mut self, change: &Change, body: Value) -> Option<&Value> {
        let ObjectRef { kind, name, .. } = &change.object;
        let present = self.objects.get(&(*kind, name.clone())).cloned();
        if change.write == Write::Create {
            assert_eq!(present, None, "409 for {change}");
            return Some(self.store(*kind, name, body));
        }
        let mut object = present.expect("an object to change");
        let version = &body["metadata"]["resourceVersion"];
        assert_eq!(*version, object["metadata"]["resourceVersion"], "409 for {change}");
        if change.write == Write::Delete {
            self.objects.remove(&(*kind, name.clone()));
            return None;
        }
        assert_accepted(&object, &body, change);
        merge(&mut object, body);
        Some(self.store(*kind, name, object))
    }

    /// Stores an object with the values that the API server assigns.
    fn store(&mut self, kind: Kind, name: &str, mut object: Value) -> &Value {
        self.assigned += 1;
        let metadata = &mut object["metadata"];
        if metadata["uid"].is_null() {
            metadata["uid"] = json!(format!("uid-{}", self.assigned));
        }
        metadata["resourceVersion"] = json!(self.assigned.to_string());
        if kind == Kind::Service {
            assign_ips(&mut object, self.assigned);
        }
        assert_valid(kind, &object);
        self.objects.insert((kind, name.to_owned()), object);
        &self.objects[&(kind, name.to_owned())]
    }

    /// All targets that clients reach.
    pub fn reachable(&self) -> Reachable {
        let slices = self.present().slices.into_iter();
        self.reachable_in(&slices.map(|it| (it.metadata.name.clone(), it)).collect())
    }

    /// The targets in the slices with these names: by the derived Service as kube-proxy finds them, or those of a
    /// headless import.
    pub fn reachable_in(&self, names: &BTreeMap<String, Arc<Slice>>) -> Reachable {
        let Present { import, derived, slices } = self.present();
        let is_headless = import.is_some_and(|it| it.spec.kind == ImportType::Headless);
        let slices = slices.iter().filter(|it| names.contains_key(&it.metadata.name));
        let targets = slices.flat_map(|slice| {
            let label = slice.metadata.labels.get("kubernetes.io/service-name");
            let derived = derived.iter().filter(|it| Some(&it.metadata.name) == label);
            let by_name = derived.flat_map(|it| by_name(it, slice));
            let directly = if is_headless { directly(slice) } else { Vec::new() };
            by_name.chain(directly).collect::<Vec<_>>()
        });
        targets.collect()
    }
}

/// The ports of a Service and of a slice are connected by their names.
fn by_name(service: &DerivedService, slice: &Slice) -> Vec<String> {
    let pairs = service.spec.ports.iter().flat_map(|port| {
        let same = |it: &&ExportedPort| (&it.name, it.protocol) == (&port.name, port.protocol);
        slice.ports.iter().filter(same).map(move |target| (port, target))
    });
    let texts = pairs.flat_map(|(port, target)| {
        let to = format!("{}/{}->{}", port.protocol.as_str(), port.number, target.number);
        addresses(slice).map(move |address| format!("{address} {to}"))
    });
    texts.collect()
}

fn directly(slice: &Slice) -> Vec<String> {
    let ports = slice.ports.iter().map(|it| format!(" ->{}", it.number)).chain([String::new()]);
    ports.flat_map(|port| addresses(slice).map(move |it| format!("{it}{port}"))).collect()
}

fn addresses(slice: &Slice) -> impl Iterator<Item = IpAddr> {
    slice.endpoints.iter().filter_map(SliceEndpoint::address)
}

/// RFC 7386.
fn merge(object: &mut Value, patch: Value) {
    let Value::Object(fields) = patch else {
        *object = patch;
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            object.as_object_mut().expect("an object").remove(&key);
        } else {
            merge(&mut object[key], value);
        }
    }
}

/// An IP for each family; those that are there stay.
fn assign_ips(object: &mut Value, number: u64) {
    let present: Vec<String> =
        DerivedService::read(object).cluster_ips.iter().map(ToString::to_string).collect();
    let spec = &mut object["spec"];
    let families = spec["ipFamilies"].as_array().cloned().unwrap_or_default();
    let ips = families.iter().map(|family| {
        let is_v4 = family == "IPv4";
        let kept = present.iter().find(|ip| ip.contains('.') == is_v4).cloned();
        kept.unwrap_or_else(|| {
            if is_v4 {
                format!("10.96.{}.{}", number / 250, number % 250 + 1)
            } else {
                format!("fd00:96::{number:x}")
            }
        })
    });
    spec["clusterIPs"] = ips.collect();
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        // The API server's default.
        port["targetPort"] = port["port"].clone();
    }
}

/// Fails for a patch that the API server would refuse.
fn assert_accepted(object: &Value, patch: &Value, change: &Change) {
    assert!(patch["addressType"].is_null(), "422 for {change}");
    let families = &patch["spec"]["ipFamilies"];
    if change.object.kind == Kind::Service && !families.is_null() {
        assert_eq!(families[0], object["spec"]["ipFamilies"][0], "422 for {change}");
    }
}

/// Fails for an object that the API server would refuse, and for a slice of more than 100 endpoints.
fn assert_valid(kind: Kind, object: &Value) {
    let ports =
        if kind == Kind::EndpointSlice { &object["ports"] } else { &object["spec"]["ports"] };
    let ports: Vec<&Value> = ports.as_array().expect("ports").iter().collect();
    let names: BTreeSet<&str> = ports.iter().map(|it| it["name"].as_str().unwrap_or("")).collect();
    assert_eq!(names.len(), ports.len(), "422, a name occurs twice: {object}");
    if kind == Kind::EndpointSlice {
        let slice = Slice::read(object);
        assert!(slice.endpoints.len() <= 100, "{} endpoints", slice.endpoints.len());
        let is_v4 = slice.family == Some(Family::V4);
        let is_right = |address: IpAddr| address.is_ipv4() == is_v4;
        assert!(addresses(&slice).all(is_right), "422: {object}");
        return;
    }
    let keys: BTreeSet<String> =
        ports.iter().map(|it| format!("{}/{}", it["protocol"], it["port"])).collect();
    assert_eq!(keys.len(), ports.len(), "422, a port occurs twice: {object}");
    assert!(ports.len() < 2 || !names.contains(""), "422, a port has no name: {object}");
    let families = object["spec"]["ipFamilies"].as_array().map_or(0, Vec::len);
    let dual = object["spec"]["ipFamilyPolicy"] == "PreferDualStack";
    assert!(kind != Kind::Service || dual == (families == 2), "422: {object}");
}
