//! The shared nouns, pure data without a client: what the clusters say ([`Desired`]), what Cloud Map
//! holds ([`Registry`]), whose an instance is ([`Owner`] and the marks in its attributes), and which
//! Services an invocation is about ([`Selection`]). Kubernetes and Cloud Map are read into these
//! types, the plan compares them, and nothing here asks or tells the world anything.

mod api_server;
pub mod attributes;
mod capacity;
pub(crate) mod cluster;
mod desired;
mod existence;
mod fingerprint;
mod foreign;
mod guard_state;
mod health;
mod held;
mod instance;
pub(crate) mod name;
mod namespace;
mod notice;
mod place;
mod registry;
mod registry_name;
mod selection;
mod service;
mod service_change;
mod shard;
mod traffic;
mod verb;

pub use api_server::{BearerTokens, EksCluster};
pub use attributes::{Marks, Owner};
pub use capacity::Capacity;
pub use cluster::ClusterArn;
pub use desired::{
    AnnotatedService, BadAnnotation, Claim, Claims, Desired, Endpoint, Family, HealthSource,
    PortReference, ServicePort,
};
pub use existence::Existence;
pub use fingerprint::fingerprint;
pub use foreign::Foreign;
pub use guard_state::GuardState;
pub use health::{Health, KnownHealth};
pub use held::Held;
pub use instance::Attributes;
pub use k8s_openapi::jiff::{SignedDuration, Timestamp};
pub use name::{InvalidServiceName, NamespaceReference, ServiceName, ServiceRef};
pub use namespace::{Namespace, NamespaceKind, UnresolvedNamespace};
pub use notice::Notice;
pub use place::Place;
pub use registry::{InstanceKey, Registry, ServiceKey};
pub use registry_name::RegistryName;
pub use selection::Selection;
pub use service::{CloudMapService, HealthCheck, Records, RoutingPolicy, ServiceKind, Tags};
pub use service_change::{NewService, ServiceUpdate, seconds};
pub use shard::Shard;
pub use traffic::Traffic;
pub use verb::Verb;
