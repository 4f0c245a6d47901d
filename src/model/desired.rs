//! The desired state of a cluster: its Services that are annotated or exported, their claims in Cloud Map, and their
//! endpoints, ready or not. Also the fate of an endpoint as the action `explain` reports it: `publish` and `import`
//! derive it from the input of their decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Attributes, Condition, ExportedService, NamespaceReference, RoutingPolicy, ServiceKey,
    ServiceName, ServiceRef, display, join, words,
};

/// The Services of one cluster that one flow publishes. It is built from complete lists only: a cluster that could not
/// be read completely is an error, never a smaller `Desired`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    pub services: BTreeMap<ServiceRef, PublishedService>,
    /// The headless Services without our annotation.
    pub unannotated: BTreeSet<ServiceRef>,
    /// The exports, including those whose Service cannot be exported; empty in the flow of annotations.
    pub exports: BTreeMap<ServiceRef, ServiceExport>,
    /// If only a part of the cluster was read: the holder of each name that is claimed in the part and held outside of
    /// it. The run does not decide these holders again.
    pub held_elsewhere: BTreeMap<ServiceKey, ServiceRef>,
    /// The ids of the chosen Cloud Map namespaces, by Service and name, if several namespaces match the Service's
    /// reference. A run chooses them once, after it has read everything that the choice depends on.
    pub namespaces: BTreeMap<ServiceRef, BTreeMap<ServiceName, String>>,
}

// The limits of one Service, whatever its annotations and slices request: a tenant of a cluster may write any number of
// names and endpoints, and all tenants share the memory of the function. Names are limited when annotations are parsed,
// endpoints when slices are read, and instances when they are planned.

/// The most names that a Service claims: the first ones of its annotation.
pub const NAMES_OF_SERVICE: usize = 100;
/// The most endpoints of a Service that are kept. Clusters that the function serves import these endpoints, even if
/// Cloud Map has no capacity for them.
pub const ENDPOINTS_OF_SERVICE: usize = INSTANCES_OF_SERVICE;
/// The most ports of a slice, and of an endpoint.
pub const PORTS_OF_ENDPOINT: usize = 100;
/// The most instances that a Service wants under a name, which is also Cloud Map's limit for a service.
pub const INSTANCES_OF_NAME: usize = 1000;
/// The most instances that a Service wants under all its names; the first names get them.
pub const INSTANCES_OF_SERVICE: usize = 5000;

/// One annotated headless Service, or one exported Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedService {
    /// `metadata.uid` of the Service, or of its ServiceExport in the flow of exports.
    pub uid: String,
    /// `metadata.creationTimestamp` of the same object, seconds since 1970: of two claimants of a name, the older one
    /// holds it.
    pub created: i64,
    /// The claims, or every invalid annotation. An export claims its own name.
    pub claims: Result<Claims, Vec<BadAnnotation>>,
    pub ports: Vec<ServicePort>,
    /// `spec.ipFamilies`; empty if only its endpoints show its families.
    pub families: BTreeSet<Family>,
    /// The endpoints, ready or not. `None` if this run did not need to read them.
    pub endpoints: Option<Arc<[Endpoint]>>,
    /// Whether the cluster truncated the list of endpoints, so that a missing endpoint may exist.
    pub truncated: bool,
    /// The number of endpoints beyond [`ENDPOINTS_OF_SERVICE`], which `endpoints` leaves out.
    pub left_out: usize,
    /// The annotations under our prefix that the function does not read.
    pub unknown_annotations: Option<FirstNames>,
    /// The export, in the flow of exports.
    pub export: Option<Arc<ExportedService>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The names of the Cloud Map services in which the endpoints are registered.
    pub names: Vec<ServiceName>,
    /// The number of names beyond those that a Service may claim.
    pub names_left_out: usize,
    /// The Cloud Map namespace of those services.
    pub namespace: NamespaceReference,
    /// The TTL of the DNS records in seconds. `None` if the annotation is not set.
    pub ttl: Option<u32>,
    /// The policy of a DNS service that is created for this claim.
    pub routing_policy: Option<RoutingPolicy>,
    /// The ports to register; if empty, addresses only.
    pub ports: Vec<PortReference>,
    /// Whether instances are registered. If not, the Service still holds the names.
    pub publish: bool,
    /// Additional attributes of every instance.
    pub attributes: Attributes,
    /// The maximum number of instances of a name.
    pub maximum: Option<usize>,
    /// Whether a terminating pod stays registered while it serves.
    pub keeps_serving: bool,
    /// Whether the last instances stay registered while no endpoint is ready.
    pub keeps_last: bool,
}

/// An annotation with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("annotation {annotation} is {value:?}: {problem}")]
pub struct BadAnnotation {
    /// The key with its prefix.
    pub annotation: String,
    /// The value, shortened if it is long.
    pub value: String,
    /// The problem, with the expected form.
    pub problem: String,
}

/// A port of the Service as the `port` annotation names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum PortReference {
    /// The Service's port number (not the target port).
    #[error("{0}")]
    Number(u16),
    #[error("{0}")]
    Name(String),
}

/// A port of a Kubernetes Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Empty for the unnamed port. The ports of an `EndpointSlice` have the same names.
    pub name: String,
    pub number: u16,
}

words! {
    /// An address family.
    pub enum Family {
        V4 = "IPv4",
        V6 = "IPv6",
    }
}

impl Family {
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

/// An endpoint: a pod with its addresses, or an address without a pod. The three conditions are those of an
/// `EndpointSlice`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    pub pod: Option<String>,
    pub ipv4: Option<Ipv4Addr>,
    pub ipv6: Option<Ipv6Addr>,
    /// A text in place of an address.
    pub malformed: Option<NoAddress>,
    /// The availability zone of the node.
    pub zone: Option<String>,
    /// With `publishNotReadyAddresses`, true for every endpoint.
    pub ready: bool,
    /// Whether the pod is ready, terminating or not.
    pub serving: bool,
    pub terminating: bool,
    /// The pod's hostname, which gives it its own name in DNS.
    pub hostname: Option<String>,
    pub node: Option<String>,
    /// Target ports by the name of the Service's port, shared by all endpoints of a slice.
    pub ports: Arc<BTreeMap<String, u16>>,
}

/// Whether an endpoint takes traffic. Registrations and imports use the same rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Ready,
    /// The endpoint serves while it terminates. It takes traffic only if no other endpoint does: kube-proxy falls back
    /// to it.
    Leaving,
    NotReady,
}

/// A text in place of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAddress {
    /// A text that Kubernetes accepts as an address, such as one with leading zeros.
    Malformed(Box<str>),
    /// A host name, of a slice of the address type FQDN.
    HostName(Box<str>),
}

impl NoAddress {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Malformed(text) | Self::HostName(text) => text,
        }
    }
}

impl Endpoint {
    /// Whether the endpoint has a host name and no address.
    pub fn has_only_host_name(&self) -> bool {
        let is_host_name = matches!(self.malformed, Some(NoAddress::HostName(_)));
        is_host_name && self.addresses().next().is_none()
    }

    /// Whether it takes traffic. A terminating pod is judged by `serving`: a Service that publishes unready addresses
    /// marks every terminating pod as ready.
    pub fn health(&self) -> Health {
        match (self.terminating, self.ready, self.serving) {
            (false, true, _) => Health::Ready,
            (true, _, true) => Health::Leaving,
            _ => Health::NotReady,
        }
    }

    /// Returns the addresses, IPv4 first.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.ipv4.map(IpAddr::V4).into_iter().chain(self.ipv6.map(IpAddr::V6))
    }
}

impl Desired {
    /// Returns a part of the cluster: these Services, with all other fields empty.
    #[must_use]
    pub fn only<'a>(&self, services: impl Iterator<Item = &'a ServiceRef>) -> Self {
        let mut only = Self::default();
        for service in services {
            if let Some(published) = self.services.get(service) {
                only.services.insert(service.clone(), published.clone());
            }
        }
        only
    }

    /// Copies the endpoints that were read for `other`, another part of the cluster.
    pub fn take_endpoints_of(&mut self, other: &Self) {
        for (service, read) in &other.services {
            if let Some(published) = self.services.get_mut(service)
                && read.endpoints.is_some()
            {
                published.endpoints.clone_from(&read.endpoints);
                published.truncated = read.truncated;
                published.left_out = read.left_out;
            }
        }
    }

    /// Returns the claims of a Service, if its annotations are valid.
    pub fn claims(&self, service: &ServiceRef) -> Option<&Claims> {
        self.services.get(service)?.claims.as_ref().ok()
    }

    /// Returns the claims of all Services with valid annotations.
    pub fn all_claims(&self) -> impl Iterator<Item = &Claims> {
        self.services.values().filter_map(|service| service.claims.as_ref().ok())
    }

    /// Whether the Service was read, annotated or not.
    pub fn was_read(&self, service: &ServiceRef) -> bool {
        self.services.contains_key(service)
            || self.unannotated.contains(service)
            || self.exports.contains_key(service)
    }
}

impl PublishedService {
    /// The families of the records of a new Cloud Map service: the stated ones, or those of its endpoints.
    pub fn record_families(&self) -> BTreeSet<Family> {
        let stated = Some(&self.families).filter(|families| !families.is_empty());
        stated.cloned().unwrap_or_else(|| self.endpoint_families())
    }

    /// The endpoints, as far as this run has read them.
    pub fn read_endpoints(&self) -> &[Endpoint] {
        self.endpoints.as_deref().unwrap_or_default()
    }

    /// Returns the families of the endpoints' records, ready or not. It is both if one endpoint has both, since Cloud
    /// Map refuses an instance that lacks a family of the records. Otherwise it is only one, IPv4 before IPv6.
    pub fn endpoint_families(&self) -> BTreeSet<Family> {
        let endpoints = || self.read_endpoints().iter();
        if endpoints().any(|endpoint| endpoint.ipv4.is_some() && endpoint.ipv6.is_some()) {
            return Family::ALL.into();
        }
        endpoints().flat_map(Endpoint::addresses).map(Family::of).min().into_iter().collect()
    }

    /// Whether it has endpoints, and none with an address.
    pub fn has_only_host_names(&self) -> bool {
        let endpoints = self.read_endpoints();
        !endpoints.is_empty() && endpoints.iter().all(Endpoint::has_only_host_name)
    }

    pub fn port(&self, reference: &PortReference) -> Option<&ServicePort> {
        self.ports.iter().find(|port| match reference {
            PortReference::Number(number) => port.number == *number,
            PortReference::Name(name) => port.name == *name,
        })
    }
}

/// The number of names that are spelled out.
const NAMED: usize = 5;

/// Names for a sentence: the first five, and the number of the others. Copies share the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FirstNames(Arc<str>);

impl FirstNames {
    /// `None` if there are no names.
    pub fn of<N: fmt::Display>(names: impl IntoIterator<Item = N>) -> Option<Self> {
        let mut names = names.into_iter();
        let first: Vec<String> = names.by_ref().take(NAMED).map(|name| name.to_string()).collect();
        let named = first.join(", ");
        let text = match names.count() {
            0 if first.is_empty() => return None,
            0 => named,
            1 => format!("{named} and 1 other"),
            others => format!("{named} and {others} others"),
        };
        Some(Self(text.into()))
    }
}

display!(FirstNames(names) => "{names}");

/// A `ServiceExport`. It exports the Service of its own name.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceExport {
    pub uid: String,
    pub generation: i64,
    /// All conditions of its status, also those of other controllers.
    pub conditions: Vec<Condition>,
    /// The reason why its Service cannot be exported. `None` if it can.
    pub obstacle: Option<NotExportable>,
}

/// The reason why a Service cannot be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotExportable {
    #[error("There is no Service of this name.")]
    NoService,
    #[error("A Service of type ExternalName has no endpoints to export.")]
    ExternalName,
    #[error("The Service is part of an import and cannot be exported again.")]
    Derived,
}

/// The state of an endpoint under a name in Cloud Map or in the import of a name, or the change that the next sync
/// makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It is registered without drift, or in the import.
    Present,
    /// It is registered, and the next sync changes its instance.
    Changes,
    /// The endpoint stays in the import: its cluster was not read, or the run removes nothing from the import.
    Kept,
    /// The next sync adds it.
    ToAdd,
    /// The next sync removes it from the import.
    ToRemove,
    /// The endpoint is not in the import, since its pod is not ready or is terminating.
    NotReady,
    /// It stays out although it takes traffic.
    LeftOut,
}

/// One endpoint with its fate.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointLine {
    /// The member of the clusterset that an imported endpoint is in. `None` under a name in Cloud Map: its endpoints
    /// are in this cluster.
    pub member: Option<String>,
    pub addresses: Vec<String>,
    /// The ports of an exported endpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    pub pod: Option<String>,
    /// Its condition in Kubernetes: `ready`, `not ready` or `terminating`.
    pub condition: Option<String>,
    pub fate: Fate,
    /// The fate in a sentence.
    pub detail: String,
}

impl fmt::Display for EndpointLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.fate {
            Fate::Present => '=',
            Fate::Changes | Fate::Kept => '~',
            Fate::ToAdd => '+',
            Fate::ToRemove | Fate::NotReady => '-',
            Fate::LeftOut => '!',
        };
        write!(f, "{sign} endpoint   {}", join(&self.addresses, " "))?;
        if !self.ports.is_empty() {
            write!(f, " port {}", join(&self.ports, " "))?;
        }
        self.member.iter().try_for_each(|member| write!(f, " of {member}"))?;
        let pod = join(self.pod.iter().chain(&self.condition), ", ");
        if !pod.is_empty() {
            write!(f, " ({pod})")?;
        }
        write!(f, ": {}", self.detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminating_endpoint_is_judged_by_what_it_serves() {
        for (terminating, ready, serving, expected) in [
            (false, true, true, Health::Ready),
            (false, true, false, Health::Ready),
            (false, false, true, Health::NotReady),
            (true, false, true, Health::Leaving),
            // A Service with publishNotReadyAddresses.
            (true, true, true, Health::Leaving),
            (true, true, false, Health::NotReady),
            (true, false, false, Health::NotReady),
        ] {
            let endpoint = Endpoint { ready, serving, terminating, ..Endpoint::default() };
            assert_eq!(endpoint.health(), expected, "{terminating} {ready} {serving}");
        }
    }

    #[test]
    fn five_names_are_spelled_out_and_the_others_are_counted() {
        for (count, expected) in [
            (0, None),
            (1, Some("0")),
            (5, Some("0, 1, 2, 3, 4")),
            (6, Some("0, 1, 2, 3, 4 and 1 other")),
            (1000, Some("0, 1, 2, 3, 4 and 995 others")),
        ] {
            let names = FirstNames::of(0..count).map(|names| names.to_string());
            assert_eq!(names.as_deref(), expected);
        }
    }
}
