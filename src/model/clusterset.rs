//! The nouns of the Multi-Cluster Services API (KEP-1645): a member of a clusterset ([`Member`]), a Service that it
//! exports ([`Export`]) with its endpoints ([`ExportedEndpoint`]), and the service that all members see
//! ([`ClustersetService`]). Plain values: `clusterset` reads and writes them as attributes of Cloud Map instances, and
//! merges them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::name::is_dns_label;
use super::words::{display, words};
use super::{ClusterArn, Desired, Family, Selection, ServiceRef, Timestamp};

words! {
    /// The type of an exported Service, and of its import. AWS's controller has the same words.
    pub enum ImportType {
        /// Each importing cluster gives the import a virtual IP.
        ClusterSetIp = "ClusterSetIP",
        /// The endpoints are found by DNS alone.
        Headless = "Headless",
    }
}

/// The properties of an export that only its record has: the instances of AWS's controller do not carry them. All but
/// labels and annotations are read and written as fields of the `spec` of a Service or a ServiceImport.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Properties {
    #[serde(flatten)]
    pub session_affinity: SessionAffinity,
    #[serde(deserialize_with = "known_policy")]
    pub internal_traffic_policy: InternalTrafficPolicy,
    pub traffic_distribution: Option<String>,
    /// `spec.exportedLabels` of the export.
    #[serde(skip)]
    pub labels: BTreeMap<String, String>,
    /// `spec.exportedAnnotations` of the export.
    #[serde(skip)]
    pub annotations: BTreeMap<String, String>,
}

/// A Service that one member exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The exporting member.
    pub cluster: ClusterId,
    /// The creation time of the `ServiceExport`: the oldest export decides in a conflict.
    pub created: Timestamp,
    pub kind: ImportType,
    /// In the Service's order.
    pub ports: Vec<ExportedPort>,
    /// `spec.ipFamilies`, the primary one first, or the families of the endpoints if the export has no record.
    pub families: Vec<Family>,
    /// `None` if the export has no record.
    pub properties: Option<Properties>,
}

/// A Service that this cluster exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedService {
    pub clusterset: ClustersetId,
    /// The export with all its properties.
    pub export: Export,
    /// `targetPort` of each port of the export, by the port's name: a number or a name.
    pub targets: BTreeMap<String, String>,
    /// Whether its ServiceExport has the finalizer of AWS's controller. If so, nothing of the export is changed.
    pub is_of_aws: bool,
}

/// An endpoint of an export, for one of its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedEndpoint {
    pub address: IpAddr,
    /// `None` for a headless Service without ports.
    pub port: Option<EndpointPort>,
    pub ready: bool,
    /// Whether the endpoint serves while it terminates. Only a read of its cluster shows such an endpoint: it is not
    /// registered.
    pub is_leaving: bool,
    /// The pod's hostname, which gives it its own name in DNS. `None` if it has no hostname.
    pub hostname: Option<String>,
    pub node: Option<String>,
    /// The availability zone.
    pub zone: Option<String>,
    pub region: Option<String>,
}

/// The service that all members see: the outcome of merging all exports of a name. It is written as the `spec` of a
/// ServiceImport.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClustersetService {
    #[serde(skip)]
    pub service: ServiceRef,
    #[serde(rename = "type")]
    pub kind: ImportType,
    pub ports: Vec<ExportedPort>,
    /// The families of the deciding export, the primary one first; all families of the exports if it is headless.
    #[serde(rename = "ipFamilies")]
    pub families: Vec<Family>,
    #[serde(flatten)]
    pub properties: Properties,
    /// The exporting members, sorted.
    #[serde(skip)]
    pub clusters: Vec<ClusterId>,
}

// The ids of clusters and clustersets. Both are part of names and labels, so they are short.

/// The id of a cluster in its clusterset: the value of the `ClusterProperty` `cluster.clusterset.k8s.io`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(String);

/// The id of a clusterset: the value of the `ClusterProperty` `clusterset.k8s.io`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClustersetId(String);

impl ClusterId {
    /// Parses an id: one DNS label, or two with a dot, and at most 63 characters, since it is also a label's value in
    /// Kubernetes.
    pub fn parse(text: &str) -> Option<Self> {
        let labels = text.split('.');
        let is_valid =
            text.len() <= 63 && labels.clone().count() <= 2 && labels.clone().all(is_dns_label);
        is_valid.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ClustersetId {
    /// Parses an id: 1 to 128 letters, digits, `.`, `_` or `-`.
    pub fn parse(text: &str) -> Option<Self> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_valid = (1..=128).contains(&text.len()) && text.bytes().all(is_allowed);
        is_valid.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

display!(ClusterId(id) => "{id}");

display!(ClustersetId(id) => "{id}");

/// A cluster in a clusterset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    pub cluster: ClusterId,
    pub clusterset: ClustersetId,
}

// The names of the objects of an import. `clusterset::id` makes these names; the functions here recognize them.

/// Whether a Service has the name of a derived Service (`clusterset::id`).
pub fn is_derived_service(name: &str) -> bool {
    name.strip_prefix("derived-").is_some_and(is_hash)
}

/// Whether an `EndpointSlice` has the name of a slice of an import (`clusterset::id`).
pub fn is_imported_slice(name: &str) -> bool {
    let parts: Vec<&str> = name.strip_prefix("imported-").unwrap_or_default().split('-').collect();
    let [hash, source, number] = parts[..] else { return false };
    is_hash(hash)
        && source.len() == 8
        && source.bytes().all(|byte| byte.is_ascii_hexdigit())
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Ten digits in base32hex.
fn is_hash(text: &str) -> bool {
    text.len() == 10 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'v'))
}

// The fields of Kubernetes objects that an import can serve its clients without.

words! {
    /// A field that is left out if an API server refuses it.
    pub enum OptionalField {
        SessionAffinity = "sessionAffinity",
        SessionAffinityConfig = "sessionAffinityConfig",
        InternalTrafficPolicy = "internalTrafficPolicy",
        TrafficDistribution = "trafficDistribution",
        AppProtocol = "appProtocol",
        Hints = "hints",
        Labels = "labels",
        Annotations = "annotations",
    }
}

/// A field with a value that an API server does not store in objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefusedField {
    /// The kind, such as `Service`.
    pub kind: &'static str,
    pub field: OptionalField,
    /// The value; empty for hints, and a fingerprint for labels and annotations.
    pub value: String,
    /// Whether the server does not refuse the value, but stores another one.
    pub is_changed: bool,
}

// The exports of a cluster that a run has read in the cluster itself.

/// The exports that a run has read in their own cluster, with their endpoints. Only valid exports that `NAME_POLICY`
/// allows are here.
#[derive(Clone, Debug)]
pub struct ReadExports {
    pub arn: ClusterArn,
    pub desired: Desired,
    /// The names that were read.
    pub covers: Selection,
}

impl ReadExports {
    /// Whether the read shows if and how the cluster exports this name. It does not if AWS's controller manages the
    /// export.
    pub fn covers(&self, name: &ServiceRef) -> bool {
        let published = self.desired.services.get(name);
        let exported = published.and_then(|published| published.export.as_ref());
        self.covers.contains(name) && exported.is_none_or(|exported| !exported.is_of_aws)
    }

    /// Joins the exports of two reads of the same cluster.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.desired.services.extend(other.desired.services);
        self.desired.exports.extend(other.desired.exports);
        self.covers = self.covers.union(other.covers);
        self
    }

    /// Whether the cluster exports this name.
    pub fn exports(&self, name: &ServiceRef) -> bool {
        self.desired.services.get(name).is_some_and(|published| published.export.is_some())
    }
}

// The settings of a Service that select the endpoints for a client, as an import copies them.

/// `spec.sessionAffinity` of a Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "AffinityFields", into = "AffinityFields")]
pub enum SessionAffinity {
    #[default]
    None,
    /// `ClientIP` with its timeout in seconds, if the Service has one.
    ClientIp(Option<u32>),
}

impl SessionAffinity {
    /// The timeout in seconds of `ClientIP`: the API server's default if none is set.
    pub fn timeout(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::ClientIp(seconds) => Some(seconds.unwrap_or(10_800)),
        }
    }

    /// The word of Kubernetes, without the timeout.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::ClientIp(_) => "ClientIP",
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AffinityFields {
    session_affinity: String,
    session_affinity_config: Value,
}

impl From<AffinityFields> for SessionAffinity {
    fn from(AffinityFields { session_affinity, session_affinity_config }: AffinityFields) -> Self {
        let seconds = session_affinity_config["clientIP"]["timeoutSeconds"].as_u64();
        match session_affinity.as_str() {
            "ClientIP" => Self::ClientIp(seconds.and_then(|seconds| seconds.try_into().ok())),
            _ => Self::None,
        }
    }
}

impl From<SessionAffinity> for AffinityFields {
    fn from(affinity: SessionAffinity) -> Self {
        let session_affinity_config = match affinity {
            SessionAffinity::ClientIp(Some(seconds)) => {
                json!({"clientIP": {"timeoutSeconds": seconds}})
            }
            SessionAffinity::ClientIp(None) | SessionAffinity::None => Value::Null,
        };
        Self { session_affinity: affinity.as_str().to_owned(), session_affinity_config }
    }
}

/// Reads a policy. A policy that this release does not know becomes the default.
fn known_policy<'de, D>(deserializer: D) -> Result<InternalTrafficPolicy, D::Error>
where
    D: Deserializer<'de>,
{
    let word = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    Ok(InternalTrafficPolicy::parse(&word).unwrap_or_default())
}

words! {
    /// `spec.internalTrafficPolicy` of a Service.
    #[derive(Default)]
    pub enum InternalTrafficPolicy {
        #[default]
        Cluster = "Cluster",
        Local = "Local",
    }
}

// The ports of an exported Service and of its endpoints.

words! {
    /// The protocol of a port.
    #[derive(Default)]
    pub enum Protocol {
        #[default]
        Tcp = "TCP",
        Udp = "UDP",
        Sctp = "SCTP",
    }
}

/// A port of an exported Service or of an import, in the form of Kubernetes objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportedPort {
    /// Empty for an unnamed port.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default)]
    pub protocol: Protocol,
    /// The Service's port, not the target port.
    #[serde(rename = "port")]
    pub number: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}

/// `http 80/TCP`, and the application protocol if there is one.
impl fmt::Display for ExportedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, protocol, number, app_protocol } = self;
        let name = if name.is_empty() { String::new() } else { format!("{name} ") };
        write!(f, "{name}{number}/{}", protocol.as_str())?;
        app_protocol.iter().try_for_each(|app_protocol| write!(f, " {app_protocol}"))
    }
}

/// The port of a Service. It distinguishes exported instances with the same address and port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortOfService {
    pub protocol: Protocol,
    /// Empty for an unnamed port.
    pub name: String,
}

/// A port of an endpoint, and the Service's port that leads to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointPort {
    /// The port's name in the `EndpointSlice`; empty if it has none.
    pub name: String,
    pub protocol: Protocol,
    pub number: u16,
    pub service_name: String,
    pub service_protocol: Protocol,
    pub service_number: u16,
    /// `targetPort` of the Service: a number or a name.
    pub target: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_id_is_one_label_or_two() {
        let valid = ["blue", "1", "eu-1.blue", &"a".repeat(63)];
        let invalid = ["", "Blue", "a.b.c", "a..b", ".a", "a.", "-a", "a_b", &"a".repeat(64)];
        assert!(valid.iter().all(|text| ClusterId::parse(text).is_some()));
        for text in invalid {
            assert_eq!(ClusterId::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_clusterset_id_has_1_to_128_letters_digits_and_signs() {
        assert!(ClustersetId::parse("Shop._-1").is_some());
        assert!(ClustersetId::parse(&"a".repeat(128)).is_some());
        for text in ["", "a b", "a/b", "ä", &"a".repeat(129)] {
            assert_eq!(ClustersetId::parse(text), None, "{text:?}");
        }
    }
}
