//! The fields of a slice that the plan decides, as they are and as they will be: their difference is a patch, and the
//! text of the change.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::import::plan::ownership::OWNER_LABEL;
use crate::import::plan::patch;
use crate::import::plan::present::{
    Addresses, PortSet, SOURCE_CLUSTER, Slice, SliceEndpoint, SlicePort, Texts,
};

/// The label with the name of the import. CoreDNS finds the slices of an import by it.
pub(super) const IMPORT: &str = "multicluster.kubernetes.io/service-name";
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub(super) const MANAGER: &str = "cloud-map-sync";
/// The label with the name of the derived Service. kube-proxy finds the slices of a Service by it.
pub(super) const SERVICE: &str = "kubernetes.io/service-name";

/// The fields of a slice that the plan decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub labels: Texts,
    pub ports: PortSet,
    pub endpoints: Vec<SliceEndpoint>,
}

impl State {
    pub fn of(slice: &Slice) -> Self {
        let keys = [OWNER_LABEL, IMPORT, SOURCE_CLUSTER, MANAGED_BY, SERVICE];
        Self {
            labels: patch::only(&slice.metadata.labels, keys),
            ports: slice.ports.clone(),
            endpoints: slice.endpoints.clone(),
        }
    }

    /// Whether this state has anything that the other one lacks.
    pub fn adds_to(&self, other: &Self) -> bool {
        let mut present: BTreeMap<&Addresses, Vec<&SliceEndpoint>> = BTreeMap::new();
        for endpoint in &other.endpoints {
            present.entry(&endpoint.addresses).or_default().push(endpoint);
        }
        let is_new = |endpoint: &SliceEndpoint| {
            present.get(&endpoint.addresses).is_none_or(|same| !same.contains(&endpoint))
        };
        !self.ports.is_subset(&other.ports)
            || self.labels.iter().any(|(key, value)| other.labels.get(key) != Some(value))
            || self.endpoints.iter().any(is_new)
    }

    /// The patch that turns this state into the other one; `None` if they are equal.
    pub fn difference(&self, other: &Self) -> Option<Value> {
        if self == other { None } else { patch::difference(&self.json(), &other.json()) }
    }

    fn json(&self) -> Value {
        let mut value = self.fields();
        value["metadata"] = json!({"labels": self.labels});
        value
    }

    pub fn fields(&self) -> Value {
        let ports: Vec<Value> = self.ports.iter().map(port).collect();
        let endpoints: Vec<Value> = self.endpoints.iter().map(endpoint).collect();
        json!({"ports": ports, "endpoints": endpoints})
    }

    /// The numbers of endpoints that differ from another state: `2 in 1 out 1 changed`.
    pub fn count_differences(&self, before: &Self) -> String {
        let (before, after) = (before.by_address(), self.by_address());
        let added = after.keys().filter(|key| !before.contains_key(*key)).count();
        let removed = before.keys().filter(|key| !after.contains_key(*key)).count();
        let is_changed =
            |key: &&Option<String>| before.get(*key).is_some_and(|it| *it != after[*key]);
        let changed = after.keys().filter(is_changed).count();
        let counts = [(added, "in"), (removed, "out"), (changed, "changed")];
        let texts = counts.iter().filter(|(count, _)| *count > 0);
        let texts: Vec<String> = texts.map(|(count, word)| format!("{count} {word}")).collect();
        texts.join(" ")
    }

    fn by_address(&self) -> BTreeMap<Option<String>, &SliceEndpoint> {
        let endpoints = self.endpoints.iter();
        endpoints.map(|it| (it.addresses.texts().into_iter().next(), it)).collect()
    }
}

fn port(port: &SlicePort) -> Value {
    let mut value =
        json!({"name": port.name, "protocol": port.protocol.as_str(), "port": port.number});
    if let Some(protocol) = &port.app_protocol {
        value["appProtocol"] = json!(protocol);
    }
    value
}

fn endpoint(endpoint: &SliceEndpoint) -> Value {
    let SliceEndpoint { addresses, ready, serving, terminating, hostname, node, zone, hints } =
        endpoint;
    let conditions = [("ready", ready), ("serving", serving), ("terminating", terminating)];
    let conditions = conditions.into_iter().filter_map(|(key, value)| Some((key, (*value)?)));
    let mut value = json!({
        "addresses": addresses.texts(),
        "conditions": conditions.collect::<BTreeMap<_, _>>(),
    });
    let texts = [("hostname", hostname), ("nodeName", node), ("zone", zone)];
    for (key, text) in texts.into_iter().filter_map(|(key, text)| Some((key, text.as_ref()?))) {
        value[key] = json!(**text);
    }
    if !hints.is_empty() {
        let zones: Vec<Value> = hints.iter().map(|zone| json!({"name": **zone})).collect();
        value["hints"] = json!({"forZones": zones});
    }
    value
}
