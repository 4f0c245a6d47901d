//! The shared nouns, pure data without a client: the desired state of a cluster ([`Desired`]), the content of Cloud Map
//! ([`Registry`]), the owner of an instance ([`Owner`] and the marks in its attributes), and the Services of an
//! invocation ([`Selection`]). `kubernetes` and `cloud_map` read into these types, and the plan compares them.

mod address;
mod api_server;
pub mod attributes;
mod capacity;
pub(crate) mod cluster;
pub mod clusterset;
mod condition;
mod desired;
mod existence;
mod fingerprint;
mod first_names;
mod foreign;
mod guard_state;
mod health;
mod instance;
mod instances;
pub(crate) mod name;
mod namespace;
mod notice;
mod owner;
mod place;
mod policy;
mod registry;
mod registry_name;
mod selection;
mod service;
mod service_change;
mod service_export;
mod traffic;
mod verb;
pub(crate) mod words;

pub use address::{is_checkable, is_publishable, without_leading_zeros};
pub use api_server::{BearerTokens, EksCluster};
pub use attributes::Marks;
pub use capacity::Capacity;
pub use cluster::{ClusterArn, is_region};
pub use condition::{Condition, ConditionStatus};
pub use desired::{
    BadAnnotation, Claim, Claims, Desired, Endpoint, Family, HealthSource, PortReference,
    PublishedService, ServicePort,
};
pub use existence::Existence;
pub use fingerprint::fingerprint;
pub use first_names::FirstNames;
pub use foreign::Foreign;
pub use guard_state::GuardState;
pub use health::{Health, KnownHealth};
pub use instance::Attributes;
pub use instances::Instances;
pub use k8s_openapi::jiff::{SignedDuration, Timestamp};
pub use name::{InvalidServiceName, NamespaceReference, ServiceName, ServiceRef};
pub use namespace::{Namespace, NamespaceKind, UnresolvedNamespace};
pub use notice::{About, Notice, REPORTER, Tone};
pub use owner::{Flow, Owner};
pub use place::Place;
pub use policy::Policy;
pub use registry::{InstanceKey, Registry, ServiceKey};
pub use registry_name::RegistryName;
pub use selection::Selection;
pub use service::{
    CloudMapService, HealthCheck, Records, RoutingPolicy, ServiceAttributes, ServiceKind, Tags,
    description,
};
pub use service_change::{NewService, ServiceUpdate, seconds};
pub use service_export::{NotExportable, ServiceExport};
pub use traffic::Traffic;
pub use verb::Verb;
