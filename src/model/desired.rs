//! What a cluster asks for: its annotated headless Services, what each claims in Cloud Map, and
//! the endpoints behind it, ready or not.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::{Attributes, NamespaceReference, RoutingPolicy, ServiceName, ServiceRef};

/// Every annotated headless Service of one cluster. Only ever built from complete lists: a cluster
/// that could not be read whole is an error, never a smaller `Desired`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// By namespace and name.
    pub services: BTreeMap<ServiceRef, AnnotatedService>,
    /// The headless Services that were read and ask for nothing.
    pub unannotated: BTreeSet<ServiceRef>,
}

/// One annotated headless Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotatedService {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.creationTimestamp`, seconds since 1970: of two claimants of a name the older holds it.
    pub created: i64,
    /// What the annotations say, or every annotation that says nothing usable.
    pub claims: Result<Claims, Vec<BadAnnotation>>,
    /// The Service's own ports, in its order.
    pub ports: Vec<ServicePort>,
    /// The IP families of the Service (`spec.ipFamilies`).
    pub families: BTreeSet<Family>,
    /// Its endpoints in whatever condition; `None` where this run had no reason to read them.
    pub endpoints: Option<Vec<Endpoint>>,
    /// Whether the cluster cut that list short, so that who is missing from it may be there nevertheless.
    pub truncated: bool,
}

/// What a Service's annotations claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The names of Cloud Map services under which the endpoints shall be found.
    pub names: Vec<ServiceName>,
    /// Whether other Services of the cluster may have the names, too.
    pub claim: Claim,
    /// The Cloud Map namespace of those services.
    pub namespace: NamespaceReference,
    /// TTL in seconds for the records of a DNS service.
    pub ttl: Option<u32>,
    /// How DNS queries for a service that is created for this claim are answered.
    pub routing_policy: Option<RoutingPolicy>,
    /// Which ports are registered; none: addresses alone.
    pub ports: Vec<PortReference>,
    /// Whether instances are registered at all; the claim to the name stands either way.
    pub publish: bool,
    /// What every instance carries besides.
    pub attributes: Attributes,
    /// The most instances to register under a name.
    pub maximum: Option<usize>,
    /// Whether readiness shows in which pods are registered, or in their health.
    pub health: HealthSource,
    /// Whether a terminating pod stays registered while it serves.
    pub keeps_serving: bool,
    /// Whether the last instances stay while no endpoint is ready, rather than an empty name.
    pub keeps_last: bool,
}

/// How the readiness of pods shows in Cloud Map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HealthSource {
    /// Only ready ones are registered.
    #[default]
    Membership,
    /// All are registered, and those that are not ready as unhealthy.
    Custom,
}

/// Whether names are claimed for the Service alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Claim {
    /// Of several that claim a name one holds it.
    #[default]
    Exclusive,
    /// All who claim it hold it together, where all of them say so.
    Shared,
}

/// An annotation whose value cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("annotation {annotation} is {value:?}: {problem}")]
pub struct BadAnnotation {
    /// The annotation's key, with its prefix.
    pub annotation: String,
    /// Its value, cut where it is long.
    pub value: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// A port of the Service as the `port` annotation names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortReference {
    /// The Service's port number (not the target port).
    Number(u16),
    /// The Service port's name.
    Name(String),
}

impl std::fmt::Display for PortReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// A port of a Kubernetes Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name; empty for the unnamed port. `EndpointSlice` ports carry the same name.
    pub name: String,
    /// Its number.
    pub number: u16,
}

/// An IP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// An endpoint: a pod with its addresses, or a bare address where no pod stands behind it. The three
/// conditions are those of an `EndpointSlice`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The pod's name, where the endpoint has one.
    pub pod: Option<String>,
    /// Its IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// Its IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
    /// The availability zone of its node.
    pub zone: Option<String>,
    /// Whether it is to be found, which `publishNotReadyAddresses` says of every endpoint.
    pub ready: bool,
    /// Whether its pod is ready, terminating or not.
    pub serving: bool,
    /// Whether it is on its way out.
    pub terminating: bool,
    /// Target ports by the name of the Service's port; those of one slice share them.
    pub ports: Arc<BTreeMap<String, u16>>,
}

impl Default for Endpoint {
    /// A ready endpoint, as the API means one that says nothing else.
    fn default() -> Self {
        Self {
            pod: None,
            ipv4: None,
            ipv6: None,
            zone: None,
            ready: true,
            serving: true,
            terminating: false,
            ports: Arc::default(),
        }
    }
}

impl Endpoint {
    /// The endpoint's addresses, IPv4 first.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.ipv4.map(IpAddr::V4).into_iter().chain(self.ipv6.map(IpAddr::V6))
    }
}

impl Desired {
    /// What a Service claims, if its annotations can be read.
    pub fn claims(&self, service: &ServiceRef) -> Option<&Claims> {
        self.services.get(service)?.claims.as_ref().ok()
    }

    /// What all Services claim whose annotations can be read.
    pub fn all_claims(&self) -> impl Iterator<Item = &Claims> {
        self.services.values().filter_map(|service| service.claims.as_ref().ok())
    }

    /// Whether the Service itself was read, whatever it asks for.
    pub fn was_read(&self, service: &ServiceRef) -> bool {
        self.services.contains_key(service) || self.unannotated.contains(service)
    }
}

impl AnnotatedService {
    /// The Service's port that a reference names.
    pub fn port(&self, reference: &PortReference) -> Option<&ServicePort> {
        self.ports.iter().find(|port| match reference {
            PortReference::Number(number) => port.number == *number,
            PortReference::Name(name) => port.name == *name,
        })
    }
}
