//! The nouns of the Multi-Cluster Services API (KEP-1645): a member of a clusterset ([`Member`]), a Service that it
//! exports ([`Export`]) with its endpoints ([`ExportedEndpoint`]), and the service that all members see
//! ([`ClustersetService`]). Plain values: `clusterset` reads and writes them as attributes of Cloud Map instances, and
//! merges them.

mod id;
mod name;
mod optional;
mod overlay;
mod policy;
mod port;

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Family, ServiceRef, Timestamp};

pub use id::{ClusterId, ClustersetId, Member};
pub use name::{is_derived_service, is_imported_slice};
pub use optional::{OptionalField, RefusedField};
pub use overlay::Overlay;
pub use policy::{InternalTrafficPolicy, SessionAffinity};
pub use port::{EndpointPort, ExportedPort, PortOfService, Protocol};

/// The type of an exported Service, and of its import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImportType {
    /// Each importing cluster gives the import a virtual IP.
    ClusterSetIp,
    /// The endpoints are found by DNS alone.
    Headless,
}

impl ImportType {
    /// The word of the API, also of AWS's controller.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterSetIp => "ClusterSetIP",
            Self::Headless => "Headless",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::ClusterSetIp, Self::Headless].into_iter().find(|it| it.as_str() == text)
    }
}

/// The properties of an export that only its record has: the instances of AWS's controller do not carry them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    pub session_affinity: SessionAffinity,
    pub internal_traffic_policy: InternalTrafficPolicy,
    /// `spec.trafficDistribution` of the Service.
    pub traffic_distribution: Option<String>,
    /// `spec.exportedLabels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.exportedAnnotations`.
    pub annotations: BTreeMap<String, String>,
}

/// A Service that one member exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The exporting member.
    pub cluster: ClusterId,
    /// The creation of the `ServiceExport`: the oldest export decides in a conflict.
    pub created: Timestamp,
    pub kind: ImportType,
    /// In the Service's order.
    pub ports: Vec<ExportedPort>,
    /// `spec.ipFamilies`, the primary one first. Without a record: those of the endpoints.
    pub families: Vec<Family>,
    /// `None` if the export has no record.
    pub properties: Option<Properties>,
}

/// A Service that this cluster exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedService {
    pub clusterset: ClustersetId,
    /// With all properties.
    pub export: Export,
    /// `targetPort` of each port of the export, by the port's name: a number or a name.
    pub targets: BTreeMap<String, String>,
}

/// An endpoint of an export, for one of its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedEndpoint {
    pub address: IpAddr,
    /// `None` for a headless Service without ports.
    pub port: Option<EndpointPort>,
    pub ready: bool,
    /// Whether it serves while it terminates. Only a read of its cluster shows it: it is not registered.
    pub is_leaving: bool,
    /// The pod's hostname, if it has one: a name of its own in DNS.
    pub hostname: Option<String>,
    pub node: Option<String>,
    /// The availability zone.
    pub zone: Option<String>,
    pub region: Option<String>,
}

/// The service that all members see: the outcome of merging all exports of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClustersetService {
    pub service: ServiceRef,
    pub kind: ImportType,
    pub ports: Vec<ExportedPort>,
    /// The families of the deciding export, the primary one first; all families of the exports if it is headless.
    pub families: Vec<Family>,
    pub properties: Properties,
    /// The exporting members, sorted.
    pub clusters: Vec<ClusterId>,
}
