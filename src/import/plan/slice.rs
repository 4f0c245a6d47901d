//! The changes of one slice of `endpoint_slices`: its creation, or a patch with all additions and a patch with all
//! removals.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::change::{self, Change, Content, Kind, ObjectRef, Stage};
use super::derived_service::Derived;
use super::endpoint_slices::{AddressCounts, Packed};
use super::input::PlanInput;
use super::ownership::OWNER_LABEL;
use super::present_objects::{
    Addresses, OwnerReference, PortSet, SOURCE_CLUSTER, Slice, SliceEndpoint, Texts,
};
use super::refused::{self, REFUSED};
use crate::model::{ClusterId, ExportedPort, Family, join};

/// The properties that all slices of an exporting cluster and family share.
#[derive(Clone, Copy)]
pub(super) struct SliceContext<'a> {
    pub input: &'a PlanInput<'a>,
    pub derived: Option<&'a Derived>,
    /// The addresses of the whole import.
    pub address_counts: &'a AddressCounts,
    pub cluster: &'a ClusterId,
    pub family: Family,
}

impl SliceContext<'_> {
    pub(super) fn create(&self, packed: &Packed<'_>) -> Vec<Change> {
        let last = self.last(packed);
        let first = self.transition(&State::default(), &last, packed);
        let mut body = first.json();
        body["addressType"] = json!(self.family);
        let object = self.input.object(Kind::EndpointSlice, &packed.name);
        let described = describe(Some(self.family), Some(self.cluster));
        let detail = format!("{described} {} in", first.endpoints.len());
        let create = change::creation(Stage::AddEndpoints, object.clone(), body, detail);
        let removal = self.patch(Stage::RemoveEndpoints, object, (&first, &last), None);
        [create].into_iter().chain(removal).collect()
    }

    /// Updates the slice, or deletes it if it has no endpoints left. Additions and removals take one patch, unless an
    /// endpoint moves away or a port is renamed.
    pub(super) fn update(&self, slice: &Slice, packed: &Packed<'_>) -> Vec<Change> {
        if packed.endpoints.is_empty() {
            return vec![deletion(self.input, slice)];
        }
        if self.is_in_step(slice, packed) {
            return Vec::new();
        }
        let present = State::of(slice);
        let last = self.last(packed);
        let transition = self.transition(&present, &last, packed);
        let owners = change::owners(&slice.metadata, self.input.import());
        let has_additions = transition.adds_to(&present) || owners.is_some();
        let first = if has_additions { transition } else { present.clone() };
        let object = || self.input.object(Kind::EndpointSlice, &slice.metadata.name);
        let additions = self.patch(Stage::AddEndpoints, object(), (&present, &first), owners);
        let removals = self.patch(Stage::RemoveEndpoints, object(), (&first, &last), None);
        additions.into_iter().chain(removals).collect()
    }

    /// Whether a slice needs no change. Most slices of a run need none, so this check runs before their states are
    /// built.
    fn is_in_step(&self, slice: &Slice, packed: &Packed<'_>) -> bool {
        let labels = || change::only(&slice.metadata.labels, LABELS);
        slice.endpoints == packed.endpoints
            && slice.ports == packed.ports
            && self.labels() == labels()
            && self.refused() == slice.metadata.annotations.get(REFUSED).cloned()
            && change::owners(&slice.metadata, self.input.import()).is_none()
            && self.derived.is_none_or(|derived| derived.former_names.is_empty())
    }

    /// Repairs the metadata of a slice of a cluster that was not read, and leaves its ports and endpoints alone.
    pub(super) fn keep(&self, slice: &Slice) -> Option<Change> {
        let present = State::of(slice);
        let wanted = State { labels: self.labels(), ..present.clone() };
        let owners = change::owners(&slice.metadata, self.input.import());
        let object = self.input.object(Kind::EndpointSlice, &slice.metadata.name);
        self.patch(Stage::AddEndpoints, object, (&present, &wanted), owners)
    }

    fn last(&self, packed: &Packed<'_>) -> State {
        let ports = if self.input.keeps_service_unchanged() {
            self.ports_in_transition(packed)
        } else {
            packed.ports.clone()
        };
        let endpoints = packed.endpoints.clone();
        State { labels: self.labels(), refused: self.refused(), ports, endpoints }
    }

    /// Returns the state between the additions and the removals: the final state, with the endpoints that move to
    /// another slice, the former names of ports, and the label of a derived Service that will be deleted.
    fn transition(&self, present: &State, last: &State, packed: &Packed<'_>) -> State {
        let mut staying: BTreeMap<Option<IpAddr>, &SliceEndpoint> =
            last.endpoints.iter().map(|endpoint| (endpoint.address(), endpoint)).collect();
        let mut endpoints = Vec::new();
        for endpoint in &present.endpoints {
            let is_moving = endpoint
                .address()
                .is_some_and(|address| self.address_counts.contains_key(&address));
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
        let ports = self.ports_in_transition(packed);
        let refused = last.refused.clone();
        State { labels, refused, ports, endpoints }
    }

    /// Returns the ports, with renamed ports under their former names as well. A new name that is still the former name
    /// of another port is added only with the removals.
    fn ports_in_transition(&self, packed: &Packed<'_>) -> PortSet {
        let ports = &packed.ports;
        if packed.has_only_waiting {
            return ports.clone();
        }
        let former = self.derived.iter().flat_map(|derived| &derived.former_names);
        let is_in_use = |port: &&ExportedPort| former.clone().any(|(_, name)| *name == port.name);
        let renamed = ports.iter().filter_map(|port| {
            let (_, name) = former.clone().find(|(name, _)| **name == port.name)?;
            Some(ExportedPort { name: name.clone(), ..port.clone() })
        });
        ports.iter().filter(|port| !is_in_use(port)).cloned().chain(renamed).collect()
    }

    /// The annotation that lists the fields left out of the slices.
    fn refused(&self) -> Option<String> {
        refused::annotation(self.input, Kind::EndpointSlice)
    }

    /// The labels that the plan decides.
    fn labels(&self) -> Texts {
        let derived = self.derived.map(|derived| (SERVICE, derived.name.as_str()));
        let labels = [
            (OWNER_LABEL, self.input.owner.as_str()),
            (IMPORT, &self.input.service.name),
            (SOURCE_CLUSTER, self.cluster.as_str()),
            (MANAGED_BY, MANAGER),
        ];
        let labels = labels.into_iter().chain(derived);
        labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    /// The patch from one state to the next; `None` if they are equal.
    fn patch(
        &self,
        stage: Stage,
        object: ObjectRef,
        (before, after): (&State, &State),
        owners: Option<Vec<OwnerReference>>,
    ) -> Option<Change> {
        let is_equal = before == after;
        let body = if is_equal { None } else { change::difference(&before.json(), &after.json()) };
        let content = Content { body: body.unwrap_or_default(), owners, ips: None };
        let change = Change::patch(stage, object, content)?;
        let [added, removed, changed] = after.count_differences(before);
        let counts = [(added, "in"), (removed, "out"), (changed, "changed")];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts = join(counts.map(|(count, word)| format!("{count} {word}")), " ");
        let fields = change.content.fields().into_iter();
        let fields = fields.map(|field| if field == "endpoints" { counts.clone() } else { field });
        let described = describe(Some(self.family), Some(self.cluster));
        let detail = format!("{described} {}", join(fields, ", "));
        Some(Change { detail, ..change })
    }
}

fn describe(family: Option<Family>, cluster: Option<&ClusterId>) -> String {
    format!(
        "{} of {},",
        family.map_or("FQDN", Family::as_str),
        cluster.map_or("no cluster", ClusterId::as_str)
    )
}

/// The deletion of a slice.
pub(super) fn deletion(input: &PlanInput<'_>, slice: &Slice) -> Change {
    let object = input.object(Kind::EndpointSlice, &slice.metadata.name);
    let described = describe(slice.family, slice.source().as_ref());
    let detail = format!("{described} {} out", slice.endpoints.len());
    Change::deletion(object, &detail)
}

/// The label with the name of the import. CoreDNS finds the slices of an import by it.
const IMPORT: &str = "multicluster.kubernetes.io/service-name";
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub(super) const MANAGER: &str = "cloud-map-sync";
/// The label with the name of the derived Service. kube-proxy finds the slices of a Service by it.
const SERVICE: &str = "kubernetes.io/service-name";

const LABELS: [&str; 5] = [OWNER_LABEL, IMPORT, SOURCE_CLUSTER, MANAGED_BY, SERVICE];

/// The fields of a slice that the plan decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    pub labels: Texts,
    /// The annotation that lists the fields left out of the slice.
    pub refused: Option<String>,
    pub ports: PortSet,
    pub endpoints: Vec<SliceEndpoint>,
}

impl State {
    pub fn of(slice: &Slice) -> Self {
        Self {
            labels: change::only(&slice.metadata.labels, LABELS),
            refused: slice.metadata.annotations.get(REFUSED).cloned(),
            ports: slice.ports.clone(),
            endpoints: slice.endpoints.clone(),
        }
    }

    /// Whether this state has anything that the other one lacks.
    pub fn adds_to(&self, other: &Self) -> bool {
        let [added, _, changed] = self.count_differences(other);
        !self.ports.is_subset(&other.ports)
            || self.labels.iter().any(|(key, value)| other.labels.get(key) != Some(value))
            || added + changed > 0
    }

    fn json(&self) -> Value {
        let endpoints: Vec<Value> = self.endpoints.iter().map(endpoint).collect();
        let mut metadata = json!({"labels": self.labels});
        // Always writes `annotations`, even if empty: a patch from a map to no map would remove those of other writers.
        let annotations = json!({REFUSED: self.refused});
        metadata["annotations"] = change::without_empty(annotations);
        json!({"metadata": metadata, "ports": self.ports, "endpoints": endpoints})
    }

    /// The numbers of endpoints that are new, gone and changed since another state.
    fn count_differences(&self, before: &Self) -> [usize; 3] {
        let before = before.by_address();
        let after = self.by_address();
        let added = after.keys().filter(|key| !before.contains_key(*key)).count();
        let removed = before.keys().filter(|key| !after.contains_key(*key)).count();
        let is_changed = |(key, endpoint): &(&&Addresses, &&SliceEndpoint)| {
            before.get(*key).is_some_and(|before| before != *endpoint)
        };
        [added, removed, after.iter().filter(is_changed).count()]
    }

    fn by_address(&self) -> BTreeMap<&Addresses, &SliceEndpoint> {
        self.endpoints.iter().map(|endpoint| (&endpoint.addresses, endpoint)).collect()
    }
}

fn endpoint(endpoint: &SliceEndpoint) -> Value {
    let SliceEndpoint { addresses, ready, serving, terminating, hostname, node, zone, hints } =
        endpoint;
    let conditions = json!({"ready": ready, "serving": serving, "terminating": terminating});
    let zones: Vec<Value> = hints.iter().map(|zone| json!({"name": **zone})).collect();
    change::without_empty(json!({
        "addresses": addresses.texts(),
        "conditions": change::without_empty(conditions),
        "hostname": hostname.as_deref(),
        "nodeName": node.as_deref(),
        "zone": zone.as_deref(),
        "hints": change::without_empty(json!({"forZones": zones})),
    }))
}
