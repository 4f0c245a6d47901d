//! The objects of one import as the importing cluster has them, as plain values: the fields that the plan compares, and
//! no others. A field of another writer is therefore never a difference.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ownership::OWNER_LABEL;
use crate::model::clusterset::{
    ClusterId, ExportedPort, ImportType, InternalTrafficPolicy, SessionAffinity,
};
use crate::model::{Family, Timestamp};

/// Labels or annotations.
pub type Texts = BTreeMap<String, String>;

/// All objects under the names of one import, whoever owns them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    pub import: Option<ServiceImport>,
    /// The Service under the name of the derived one.
    pub derived: Option<DerivedService>,
    /// The slices with the labels of the import, and any other under a name that a slice of the import could have.
    pub slices: Vec<Arc<Slice>>,
}

/// The metadata of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    pub name: String,
    pub identity: Identity,
    pub labels: Texts,
    pub annotations: Texts,
    pub owner_references: Vec<OwnerReference>,
    /// The manager of the first entry of `managedFields`: most likely the creator.
    pub manager: Option<String>,
    /// Whether it has a `deletionTimestamp`.
    pub is_terminating: bool,
}

/// The object and the version of it that was read: the preconditions of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub uid: String,
    pub resource_version: String,
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

impl Metadata {
    /// Whether the ServiceImport is one of AWS's controller: it has its annotation with the names of its derived
    /// Services. One that was adopted has the label of an owner besides.
    pub fn is_of_aws(&self) -> bool {
        self.annotations.contains_key(AWS_DERIVED) && !self.labels.contains_key(OWNER_LABEL)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceImport {
    pub metadata: Metadata,
    pub spec: ImportSpec,
    pub status: ImportStatus,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportSpec {
    pub kind: ImportType,
    pub ports: Vec<ExportedPort>,
    pub ips: Vec<IpAddr>,
    pub families: Vec<Family>,
    pub routing: Routing,
}

/// The properties that a ServiceImport and a Service have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    pub session_affinity: SessionAffinity,
    pub internal_traffic_policy: InternalTrafficPolicy,
    pub traffic_distribution: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportStatus {
    /// The exporting clusters as they are written, also those that are no cluster id.
    pub clusters: Vec<String>,
    /// All conditions, also those of other controllers.
    pub conditions: Vec<Condition>,
    pub endpoint_slice_objects: Option<String>,
}

/// A condition of a status, as `metav1.Condition` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The API's field `type`.
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub observed_generation: Option<i64>,
    pub last_transition_time: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedService {
    pub metadata: Metadata,
    pub spec: ServiceSpec,
    pub cluster_ips: Vec<IpAddr>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSpec {
    /// `spec.type`.
    pub kind: String,
    pub selector: Texts,
    pub ports: Vec<ExportedPort>,
    /// The primary one first. The API server never changes the primary one.
    pub families: Vec<Family>,
    pub family_policy: Option<String>,
    pub routing: Routing,
}

/// An `EndpointSlice` of addresses; one of names (`FQDN`) is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub metadata: Metadata,
    pub family: Family,
    pub ports: PortSet,
    pub endpoints: Vec<SliceEndpoint>,
}

/// The ports of a slice: the target ports of its endpoints, under the names of the import's ports. Their order has no
/// meaning.
pub type PortSet = BTreeSet<ExportedPort>;

/// An endpoint of a slice. The clusters of a run have hundreds of thousands, so texts are shared.
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

impl SliceEndpoint {
    /// The address that identifies the endpoint in its slice. `None` if another writer replaced it by something else.
    pub fn address(&self) -> Option<IpAddr> {
        match &self.addresses {
            Addresses::One(address) => Some(*address),
            Addresses::Other(texts) => texts.first()?.parse().ok(),
        }
    }
}

/// The addresses of an endpoint of a slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Addresses {
    /// One, written as we write it: those of slices of ours.
    One(IpAddr),
    /// Those of another writer.
    Other(Vec<String>),
}

impl Addresses {
    pub fn of(texts: Vec<String>) -> Self {
        match texts.as_slice() {
            [text] => match text.parse::<IpAddr>() {
                Ok(address) if address.to_string() == *text => Self::One(address),
                _ => Self::Other(texts),
            },
            _ => Self::Other(texts),
        }
    }

    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::One(address) => vec![address.to_string()],
            Self::Other(texts) => texts.clone(),
        }
    }
}

impl Present {
    /// The clusters with a part in it, whoever's the objects are.
    pub fn holders(&self) -> BTreeSet<ClusterId> {
        holders_of(self.import.as_ref(), self.slices.iter().map(Arc::as_ref))
    }
}

/// The clusters with a part in an import: those in its status, and those with slices.
pub(super) fn holders_of<'a>(
    import: Option<&ServiceImport>,
    slices: impl Iterator<Item = &'a Slice>,
) -> BTreeSet<ClusterId> {
    let listed = import.into_iter().flat_map(|import| &import.status.clusters);
    let listed = listed.filter_map(|cluster| ClusterId::parse(cluster));
    listed.chain(slices.filter_map(Slice::source)).collect()
}

impl Slice {
    /// The cluster that its label names. `None` if it is missing or no cluster id.
    pub fn source(&self) -> Option<ClusterId> {
        ClusterId::parse(self.metadata.labels.get(SOURCE_CLUSTER)?)
    }
}

/// The label of a slice that names the exporting cluster.
pub const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";

/// The annotation of AWS's controller on its ServiceImports.
pub const AWS_DERIVED: &str = "multicluster.k8s.aws/derived-service";
