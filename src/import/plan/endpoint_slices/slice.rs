//! The changes of one slice: its creation, or a patch with all that comes and a patch with all that goes.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::Packed;
use crate::import::plan::ahead::{self, AHEAD};
use crate::import::plan::basis::Basis;
use crate::import::plan::change::{Change, Content, Kind, ObjectRef, Stage, Write};
use crate::import::plan::derived_service::Derived;
use crate::import::plan::ownership::OWNER_LABEL;
use crate::import::plan::patch;
use crate::import::plan::present::{
    Addresses, PortSet, SOURCE_CLUSTER, Slice, SliceEndpoint, Texts,
};
use crate::model::Family;
use crate::model::clusterset::{ClusterId, ExportedPort};

/// What all slices of a cluster and family have in common.
pub(super) struct Shape<'a> {
    pub basis: &'a Basis<'a>,
    pub derived: Option<&'a Derived<'a>>,
    pub cluster: Option<&'a ClusterId>,
    pub family: Family,
}

impl Shape<'_> {
    pub(super) fn create(&self, name: String, packed: &Packed<'_>) -> Vec<Change> {
        let last = self.last(packed);
        let first = State { ports: self.ports_in_transition(&last.ports), ..last.clone() };
        let object = object(self.basis, name);
        let metadata = first.metadata();
        let mut fields = first.fields();
        fields["addressType"] = json!(self.family.as_str());
        let body = patch::new_object(&object, metadata, fields);
        let detail = format!("{} {} in", self.describe(), first.endpoints.len());
        let write = Write::Create(Content { body, owners: Some(Vec::new()), ips: None });
        let create = Change { stage: Stage::AddEndpoints, object, write, detail };
        let removal = patch::content(first.difference(&last), None, None);
        let removal = removal.map(|(content, fields)| {
            let (stage, object) = (Stage::RemoveEndpoints, create.object.clone());
            let detail = format!("{} {}", self.describe(), fields.join(", "));
            Change { stage, object, write: Write::Patch(content), detail }
        });
        once(create).chain(removal).collect()
    }

    /// Removes the slice if it has no endpoint any more. Additions and removals take one patch, unless an endpoint
    /// moves away or a port is renamed.
    pub(super) fn update(&self, slice: &Slice, packed: &Packed<'_>) -> Vec<Change> {
        if packed.endpoints.is_empty() {
            return vec![deletion(self.basis, slice)];
        }
        if self.is_in_step(slice, packed) {
            return Vec::new();
        }
        let present = State::of(slice);
        let last = self.last(packed);
        let transition = self.transition(&present, &last, &packed.moving);
        let owners = patch::owners(&slice.metadata, self.basis.import());
        let first = if transition.adds_to(&present) || owners.is_some() {
            transition
        } else {
            present.clone()
        };
        let additions = present.difference(&first);
        let removals = first.difference(&last);
        let additions = patch::content(additions, owners, None)
            .map(|content| self.patch(Stage::AddEndpoints, slice, content, (&present, &first)));
        let removals = patch::content(removals, None, None)
            .map(|content| self.patch(Stage::RemoveEndpoints, slice, content, (&first, &last)));
        additions.into_iter().chain(removals).collect()
    }

    /// Whether a slice needs no change, as most of a run do: then its states are not made.
    fn is_in_step(&self, slice: &Slice, packed: &Packed<'_>) -> bool {
        let labels = &slice.metadata.labels;
        let has = |(key, value): (&str, Option<&str>)| labels.get(key).map(String::as_str) == value;
        slice.endpoints == packed.endpoints
            && slice.ports == packed.ports
            && self.cluster.is_some_and(|cluster| self.label_texts(cluster).into_iter().all(has))
            && patch::owners(&slice.metadata, self.basis.import()).is_none()
            && self.derived.is_none_or(|derived| derived.former_names.is_empty())
    }

    /// Repairs the metadata of a slice of a cluster that was not read, and leaves its ports and endpoints alone.
    pub(super) fn keep(&self, slice: &Slice) -> Vec<Change> {
        let Some(cluster) = self.cluster else { return Vec::new() };
        let present = State::of(slice);
        let labels = self.labels(cluster);
        let wanted = State { labels, ..present.clone() };
        let owners = patch::owners(&slice.metadata, self.basis.import());
        let content = patch::content(present.difference(&wanted), owners, None);
        let patch = content
            .map(|content| self.patch(Stage::AddEndpoints, slice, content, (&present, &wanted)));
        patch.into_iter().collect()
    }

    fn last(&self, packed: &Packed<'_>) -> State {
        let labels = self.cluster.map(|cluster| self.labels(cluster)).unwrap_or_default();
        let ports = if self.basis.is_service_fixed() {
            self.ports_in_transition(&packed.ports)
        } else {
            packed.ports.clone()
        };
        let endpoints = packed.endpoints.clone();
        let is_read_there = self.cluster.is_some_and(|it| self.basis.sources.is_read_there(it));
        let changed = is_read_there
            .then(|| ahead::annotation(packed.present, (&ports, &endpoints), self.basis.now));
        let present = packed.present.and_then(|slice| slice.metadata.annotations.get(AHEAD));
        let ahead = changed.flatten().or_else(|| present.cloned());
        State { labels, ahead, ports, endpoints }
    }

    /// The last state, with the endpoints that move to another slice, the former names of ports, and the label of a
    /// derived Service that is to be deleted.
    fn transition(&self, present: &State, last: &State, moving: &BTreeSet<IpAddr>) -> State {
        let mut staying: BTreeMap<Option<IpAddr>, &SliceEndpoint> =
            last.endpoints.iter().map(|it| (it.address(), it)).collect();
        let mut endpoints = Vec::new();
        for endpoint in &present.endpoints {
            let is_moving = endpoint.address().is_some_and(|address| moving.contains(&address));
            match staying.remove(&endpoint.address()) {
                Some(last) => endpoints.push(last.clone()),
                None if is_moving => endpoints.push(endpoint.clone()),
                None => {}
            }
        }
        let is_new = |endpoint: &&SliceEndpoint| staying.contains_key(&endpoint.address());
        endpoints.extend(last.endpoints.iter().filter(is_new).cloned());
        let mut labels = present.labels.clone();
        labels.extend(last.labels.clone());
        let ports = self.ports_in_transition(&last.ports);
        State { labels, ahead: last.ahead.clone(), ports, endpoints }
    }

    /// The ports with their former names besides. A port that takes over the former name of another one waits.
    fn ports_in_transition(&self, ports: &PortSet) -> PortSet {
        let former = self.derived.iter().flat_map(|derived| &derived.former_names);
        let is_in_use = |port: &&ExportedPort| former.clone().any(|(_, name)| *name == port.name);
        let renamed = ports.iter().filter_map(|port| {
            let (_, name) = former.clone().find(|(name, _)| **name == port.name)?;
            Some(ExportedPort { name: name.clone(), ..port.clone() })
        });
        ports.iter().filter(|port| !is_in_use(port)).cloned().chain(renamed).collect()
    }

    fn labels(&self, cluster: &ClusterId) -> Texts {
        let texts = self.label_texts(cluster).into_iter();
        texts.filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned()))).collect()
    }

    /// The labels that the plan decides; `None`: without it.
    fn label_texts<'a>(&'a self, cluster: &'a ClusterId) -> [(&'static str, Option<&'a str>); 5] {
        [
            (OWNER_LABEL, Some(self.basis.owner.as_str())),
            (IMPORT, Some(&self.basis.service.name)),
            (SOURCE_CLUSTER, Some(cluster.as_str())),
            (MANAGED_BY, Some(MANAGER)),
            (SERVICE, self.derived.map(|it| it.name.as_str())),
        ]
    }

    fn patch(
        &self,
        stage: Stage,
        slice: &Slice,
        (content, fields): (Content, Vec<String>),
        (before, after): (&State, &State),
    ) -> Change {
        let object = object(self.basis, slice.metadata.name.clone());
        let endpoints = after.count_differences(before);
        let fields = fields.into_iter().filter(|it| !it.starts_with("annotations."));
        let fields = fields.map(|it| if it == "endpoints" { endpoints.clone() } else { it });
        let detail = format!("{} {}", self.describe(), fields.collect::<Vec<_>>().join(", "));
        Change { stage, object, write: Write::Patch(content), detail }
    }

    fn describe(&self) -> String {
        let cluster = self.cluster.map_or("no cluster", ClusterId::as_str);
        format!("{} of {cluster},", self.family.as_str())
    }
}

/// The deletion of a slice.
pub(super) fn deletion(basis: &Basis<'_>, slice: &Slice) -> Change {
    let object = object(basis, slice.metadata.name.clone());
    let cluster = slice.source();
    let cluster = cluster.as_ref().map_or("no cluster", ClusterId::as_str);
    let detail = format!("{} of {cluster}, {} out", slice.family.as_str(), slice.endpoints.len());
    Change { stage: Stage::RemoveEndpoints, object, write: Write::Delete, detail }
}

fn object(basis: &Basis<'_>, name: String) -> ObjectRef {
    ObjectRef { kind: Kind::EndpointSlice, namespace: basis.service.namespace.clone(), name }
}

// The fields of a slice that the plan decides, as they are and as they will be: their difference is a patch, and the
// text of the change.

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
    /// The annotation that says in which addresses it is ahead of Cloud Map.
    pub ahead: Option<String>,
    pub ports: PortSet,
    pub endpoints: Vec<SliceEndpoint>,
}

impl State {
    pub fn of(slice: &Slice) -> Self {
        let keys = [OWNER_LABEL, IMPORT, SOURCE_CLUSTER, MANAGED_BY, SERVICE];
        Self {
            labels: patch::only(&slice.metadata.labels, keys),
            ahead: slice.metadata.annotations.get(AHEAD).cloned(),
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
        value["metadata"] = self.metadata();
        value
    }

    pub fn metadata(&self) -> Value {
        let mut metadata = json!({"labels": self.labels});
        if let Some(ahead) = &self.ahead {
            metadata["annotations"] = json!({AHEAD: ahead});
        }
        metadata
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

fn port(port: &ExportedPort) -> Value {
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
