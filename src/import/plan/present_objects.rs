//! The objects of one import as the importing cluster has them, read from their JSON and updated with the answers to
//! changes. They contain only the fields that the plan compares. A field of another writer is therefore never a
//! difference, and a value that this function never writes is read as absent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::change::{Change, Content, Kind, ObjectRef, Write};
use super::ownership::OWNER_LABEL;
use super::slice::MANAGER;
use crate::clusterset::departures::{PartEndpoint, Parts};
use crate::clusterset::members::Served;
use crate::model::{
    ClusterId, ClustersetService, Condition, ExportedPort, Family, ImportType, Properties,
    ServiceRef,
};

/// Labels or annotations.
pub type Texts = BTreeMap<String, String>;

/// All objects under the names of one import, of any owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Present {
    pub import: Option<ServiceImport>,
    /// The Service under the name of the derived Service.
    pub derived: Option<DerivedService>,
    /// The slices with the labels of the import, and any other under a name that a slice of the import could have.
    pub slices: Vec<Arc<Slice>>,
}

/// The metadata of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    pub name: String,
    /// The precondition of a deletion, together with the resource version.
    pub uid: String,
    pub resource_version: String,
    pub labels: Texts,
    pub annotations: Texts,
    pub owner_references: Vec<OwnerReference>,
    /// The manager of the first entry of `managedFields`: most likely the creator.
    pub manager: Option<String>,
    /// Whether it has a `deletionTimestamp`.
    pub is_terminating: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ServiceImport {
    pub metadata: Metadata,
    /// Without labels, annotations and clusters.
    pub spec: ClustersetService,
    pub ips: Vec<IpAddr>,
    pub status: ImportStatus,
    /// The fields of the spec with a value that this function never writes.
    pub unreadable_fields: Vec<&'static str>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportStatus {
    /// The exporting clusters as they are written, including texts that are not cluster ids.
    pub clusters: Vec<String>,
    /// All conditions, including those of other controllers.
    pub conditions: Vec<Condition>,
    pub endpoint_slice_objects: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedService {
    pub metadata: Metadata,
    pub spec: ServiceSpec,
    pub cluster_ips: Vec<IpAddr>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServiceSpec {
    #[serde(rename = "type")]
    pub kind: String,
    pub selector: Texts,
    pub ports: Vec<ExportedPort>,
    /// The primary family is first. The API server never changes it.
    #[serde(rename = "ipFamilies")]
    pub families: Vec<Family>,
    #[serde(rename = "ipFamilyPolicy")]
    pub family_policy: Option<String>,
    /// The admission policy does not allow this function to write any.
    #[serde(rename = "externalIPs")]
    pub external_ips: Vec<String>,
    /// Without labels and annotations.
    #[serde(flatten)]
    pub properties: Properties,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub metadata: Metadata,
    /// `None` if the slice has host names (`FQDN`), which this function never writes.
    pub family: Option<Family>,
    pub ports: PortSet,
    pub endpoints: Vec<SliceEndpoint>,
}

/// The ports of a slice: the target ports of its endpoints, under the names of the import's ports. Their order has no
/// meaning.
pub type PortSet = BTreeSet<ExportedPort>;

/// An endpoint of a slice. A run can have hundreds of thousands of endpoints, so they share texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceEndpoint {
    pub addresses: Addresses,
    pub ready: Option<bool>,
    pub serving: Option<bool>,
    pub terminating: Option<bool>,
    pub hostname: Option<Arc<str>>,
    pub node: Option<Arc<str>>,
    pub zone: Option<Arc<str>>,
    /// The zones of `hints.forZones`.
    pub hints: Vec<Arc<str>>,
}

/// The addresses of an endpoint of a slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Addresses {
    /// A single address, written as this function writes it.
    One(IpAddr),
    /// Any other list of addresses, from another writer.
    Other(Vec<String>),
}

/// The label of a slice that names the exporting cluster.
pub const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";

impl Present {
    /// The metadata of each object. The ServiceImport is the last.
    pub(super) fn objects(&self) -> impl Iterator<Item = (Kind, &Metadata)> {
        let slices = self.slices.iter().map(|slice| (Kind::EndpointSlice, &slice.metadata));
        let derived = self.derived.iter().map(|derived| (Kind::Service, &derived.metadata));
        let import = self.import.iter().map(|import| (Kind::ServiceImport, &import.metadata));
        derived.chain(slices).chain(import)
    }

    pub fn metadata(&self, object: &ObjectRef) -> Option<&Metadata> {
        let mut objects = self.objects();
        let found =
            objects.find(|(kind, metadata)| *kind == object.kind && metadata.name == object.name);
        found.map(|(_, metadata)| metadata)
    }

    /// Returns the spec of the object of a kind, in a field `spec`. It is null for slices, and if there is no such
    /// object.
    pub fn spec(&self, kind: Kind) -> Value {
        let spec = match kind {
            Kind::ServiceImport => json!(self.import.as_ref().map(|import| &import.spec)),
            Kind::Service => json!(self.derived.as_ref().map(|derived| &derived.spec)),
            _ => Value::Null,
        };
        json!({ "spec": spec })
    }

    /// Whether no object has an owner reference to a ServiceImport, so that garbage collection deletes none of them.
    /// A ServiceImport that the list lacks may exist, since an overlapping run may just have created it.
    pub fn is_orphaned(&self) -> bool {
        let mut owners = self.objects().flat_map(|(_, metadata)| &metadata.owner_references);
        !owners.any(OwnerReference::is_import)
    }

    /// The clusters with a part in the import, whoever owns the objects.
    pub fn clusters(&self) -> BTreeSet<ClusterId> {
        clusters_of(self.import.as_ref(), self.slices.iter().map(Arc::as_ref))
    }

    /// Adds the parts of the import to `parts`. The parts of served clusters have no endpoints.
    pub fn add_parts(&self, name: &ServiceRef, served: &Served, parts: &mut Parts) {
        for cluster in self.clusters() {
            parts.entry((name.clone(), cluster)).or_default();
        }
        for slice in &self.slices {
            let cluster = slice.source().filter(|cluster| !served.is_id_of_exporter(cluster));
            if let Some(cluster) = cluster {
                let part = parts.entry((name.clone(), cluster)).or_default();
                part.extend(slice.part_endpoints());
            }
        }
    }

    /// Stores an object as the API server has it.
    pub fn store(&mut self, kind: Kind, object: &Value) {
        match kind {
            Kind::ServiceImport => self.import = Some(ServiceImport::read(object)),
            Kind::Service => self.derived = Some(DerivedService::read(object)),
            _ => {
                let slice = Slice::read(object);
                self.slices.retain(|present| present.metadata.name != slice.metadata.name);
                self.slices.push(Arc::new(slice));
            }
        }
    }

    /// Returns the body of the request for a change. `None` if an object that it refers to is missing, since an earlier
    /// change failed.
    pub fn body(&self, change: &Change) -> Option<Value> {
        let Content { mut body, owners, ips } = change.content.clone();
        if let Some(mut owners) = owners {
            owners.push(OwnerReference::to(self.import.as_ref()?));
            body["metadata"]["ownerReferences"] = json!(owners);
        }
        if let Some(families) = ips {
            let ips = self.derived.as_ref()?.ips_of(&families);
            body["spec"]["ips"] = json!(Some(ips).filter(|ips| !ips.is_empty())?);
        }
        if change.write != Write::Create {
            // The API server answers a stale version with 409.
            let version = &self.metadata(&change.object)?.resource_version;
            body["metadata"]["resourceVersion"] = json!(version);
        }
        Some(body)
    }
}

/// The clusters with a part in an import: those in its status, and those with slices.
pub(super) fn clusters_of<'a>(
    import: Option<&ServiceImport>,
    slices: impl Iterator<Item = &'a Slice>,
) -> BTreeSet<ClusterId> {
    let listed = import.into_iter().flat_map(|import| &import.status.clusters);
    let listed = listed.filter_map(|cluster| ClusterId::parse(cluster));
    listed.chain(slices.filter_map(Slice::source)).collect()
}

impl OwnerReference {
    /// An owner reference to a ServiceImport. It is not a controller reference and does not block the owner's deletion.
    fn to(import: &ServiceImport) -> Self {
        let Metadata { name, uid, .. } = &import.metadata;
        Self {
            api_version: Kind::ServiceImport.api_version().to_owned(),
            kind: Kind::ServiceImport.as_str().to_owned(),
            name: name.clone(),
            uid: uid.clone(),
            ..Self::default()
        }
    }

    /// Whether the owner is a ServiceImport, in any version of the API.
    pub(super) fn is_import(&self) -> bool {
        let group = Kind::ServiceImport.api_version().split('/').next();
        self.kind == Kind::ServiceImport.as_str() && self.api_version.split('/').next() == group
    }
}

impl SliceEndpoint {
    /// The address that identifies the endpoint in its slice. `None` if another writer replaced it with something else.
    pub fn address(&self) -> Option<IpAddr> {
        match &self.addresses {
            Addresses::One(address) => Some(*address),
            Addresses::Other(texts) => texts.first()?.parse().ok(),
        }
    }

    /// The address of an endpoint that is ready.
    pub(super) fn ready_address(&self) -> Option<IpAddr> {
        self.address().filter(|_| self.ready != Some(false))
    }

    /// Reads an endpoint. `zones` contains the zones of the endpoints read before, so that equal texts are shared.
    fn read(endpoint: &Value, zones: &mut Vec<Arc<str>>) -> Self {
        let conditions = &endpoint["conditions"];
        let text = |value: &Value| value.as_str().map(Arc::from);
        Self {
            addresses: Addresses::of(read_or_default(&endpoint["addresses"])),
            ready: conditions["ready"].as_bool(),
            serving: conditions["serving"].as_bool(),
            terminating: conditions["terminating"].as_bool(),
            hostname: text(&endpoint["hostname"]),
            node: text(&endpoint["nodeName"]),
            zone: endpoint["zone"].as_str().map(|zone| shared(zone, zones)),
            hints: list(&endpoint["hints"]["forZones"])
                .map(|zone| shared(zone["name"].as_str().unwrap_or_default(), zones))
                .collect(),
        }
    }
}

/// Returns the shared copy of a text, from `texts` if it is there. Endpoints have few zones.
fn shared(text: &str, texts: &mut Vec<Arc<str>>) -> Arc<str> {
    if let Some(text) = texts.iter().find(|shared| ***shared == *text) {
        return Arc::clone(text);
    }
    let text: Arc<str> = Arc::from(text);
    texts.push(Arc::clone(&text));
    text
}

impl Addresses {
    pub(super) fn of(texts: Vec<String>) -> Self {
        let written = match texts.as_slice() {
            [text] => text.parse::<IpAddr>().ok().filter(|address| address.to_string() == *text),
            _ => None,
        };
        written.map_or(Self::Other(texts), Self::One)
    }

    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::One(address) => vec![address.to_string()],
            Self::Other(texts) => texts.clone(),
        }
    }
}

// The objects as the API server has them.

impl ServiceImport {
    pub fn read(object: &Value) -> Self {
        let spec = &object["spec"];
        let status = &object["status"];
        let mut unreadable_fields = Vec::new();
        let ips: Vec<IpAddr> = field(spec, "ips", &mut unreadable_fields).unwrap_or_default();
        let kind = field(spec, "type", &mut unreadable_fields);
        let ports = field(spec, "ports", &mut unreadable_fields);
        let families = field(spec, "ipFamilies", &mut unreadable_fields);
        let by_ips = if ips.is_empty() { ImportType::Headless } else { ImportType::ClusterSetIp };
        let conditions = list(&status["conditions"]);
        Self {
            metadata: Metadata::read(object),
            spec: ClustersetService {
                service: name_of(object),
                kind: kind.unwrap_or(by_ips),
                ports: ports.unwrap_or_default(),
                families: families.unwrap_or_default(),
                properties: read_or_default(spec),
                clusters: Vec::new(),
            },
            ips,
            status: ImportStatus {
                clusters: list(&status["clusters"])
                    .map(|cluster| read_or_default(&cluster["cluster"]))
                    .collect(),
                conditions: conditions
                    .filter_map(|condition| Condition::deserialize(condition).ok())
                    .collect(),
                endpoint_slice_objects: read_or_default(&status["endpointSliceObjects"]),
            },
            unreadable_fields,
        }
    }
}

impl DerivedService {
    pub fn read(object: &Value) -> Self {
        let spec = &object["spec"];
        Self {
            metadata: Metadata::read(object),
            spec: ServiceSpec {
                kind: read_or_default(&spec["type"]),
                selector: read_or_default(&spec["selector"]),
                ports: read_or_default(&spec["ports"]),
                families: read_or_default(&spec["ipFamilies"]),
                family_policy: read_or_default(&spec["ipFamilyPolicy"]),
                external_ips: read_or_default(&spec["externalIPs"]),
                properties: read_or_default(spec),
            },
            // A headless Service has the text `None` in place of an address.
            cluster_ips: read_or_default(&spec["clusterIPs"]),
        }
    }

    /// The cluster IPs of these families, in the families' order.
    pub(super) fn ips_of(&self, families: &[Family]) -> Vec<IpAddr> {
        let addresses = &self.cluster_ips;
        let find_ip =
            |family: &Family| addresses.iter().find(|address| Family::of(**address) == *family);
        families.iter().filter_map(find_ip).copied().collect()
    }
}

/// The namespace and name of an object.
pub fn name_of(object: &Value) -> ServiceRef {
    let text = |key: &str| read_or_default::<String>(&object["metadata"][key]);
    ServiceRef::new(text("namespace"), text("name"))
}

impl Slice {
    pub fn read(object: &Value) -> Self {
        let mut zones = Vec::new();
        let endpoints = list(&object["endpoints"]);
        Self {
            metadata: Metadata::read(object),
            family: read_or_default(&object["addressType"]),
            ports: read_or_default(&object["ports"]),
            endpoints: endpoints
                .map(|endpoint| SliceEndpoint::read(endpoint, &mut zones))
                .collect(),
        }
    }

    /// The addresses that identify the endpoints of the slice.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.endpoints.iter().filter_map(SliceEndpoint::address)
    }

    /// The endpoints of the slice, each with one of its ports.
    fn part_endpoints(&self) -> impl Iterator<Item = PartEndpoint> {
        self.addresses().flat_map(|address| {
            let ports = self.ports.iter().map(|port| Some((port.protocol, port.number)));
            let without = self.ports.is_empty().then_some(None);
            ports.chain(without).map(move |port| PartEndpoint { address, port })
        })
    }

    /// The exporting cluster in the label of the slice. `None` if the label is missing or not a cluster id.
    pub fn source(&self) -> Option<ClusterId> {
        ClusterId::parse(self.metadata.labels.get(SOURCE_CLUSTER)?)
    }
}

impl Metadata {
    pub fn read(object: &Value) -> Self {
        let metadata = &object["metadata"];
        Self {
            name: read_or_default(&metadata["name"]),
            uid: read_or_default(&metadata["uid"]),
            resource_version: read_or_default(&metadata["resourceVersion"]),
            labels: read_or_default(&metadata["labels"]),
            annotations: read_or_default(&metadata["annotations"]),
            owner_references: read_or_default(&metadata["ownerReferences"]),
            manager: read_or_default(&metadata["managedFields"][0]["manager"]),
            is_terminating: !metadata["deletionTimestamp"].is_null(),
        }
    }

    /// Whether the object most likely is one of ours that has lost its label.
    pub fn has_lost_label(&self) -> bool {
        let is_made_by_us = self.manager.as_deref() == Some(MANAGER);
        is_made_by_us && !self.labels.contains_key(OWNER_LABEL)
    }
}

/// Reads a value. Returns the default if it is missing or unknown.
pub(super) fn read_or_default<T: DeserializeOwned + Default>(value: &Value) -> T {
    T::deserialize(value).unwrap_or_default()
}

/// Reads a field of a spec. Returns `None` if it is missing or unknown, and adds the name of an unknown field to
/// `unknown`.
fn field<T: DeserializeOwned>(
    spec: &Value,
    name: &'static str,
    unknown: &mut Vec<&'static str>,
) -> Option<T> {
    Option::deserialize(&spec[name]).unwrap_or_else(|_| {
        unknown.push(name);
        None
    })
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
