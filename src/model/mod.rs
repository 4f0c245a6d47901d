//! The shared nouns, pure data without a client: the desired state of a cluster ([`Desired`]), the content of Cloud Map
//! ([`Registry`]), the owner of an instance ([`Owner`] and the marks in its attributes), and the Services of an
//! invocation ([`Selection`]). `kubernetes` and `cloud_map` read into these types, and the plan compares them.

pub mod attributes;
mod cluster;
mod clusterset;
mod desired;
mod instance;
mod name;
mod notice;
mod registry;
mod rules;
mod service;
mod verb;
pub(crate) mod words;

pub use attributes::Marks;
pub use cluster::{
    BearerTokens, ClusterArn, EksCluster, Existence, Flow, Foreign, Owner, TokenError, is_region,
};
pub(crate) use cluster::{is_account, is_cluster_name};
pub use clusterset::{
    ClusterId, ClustersetId, ClustersetService, EndpointPort, Export, ExportedEndpoint,
    ExportedPort, ExportedService, ImportType, InternalTrafficPolicy, Member, OptionalField,
    Overlay, PortOfService, Properties, Protocol, RefusedField, SessionAffinity,
    is_derived_service, is_imported_slice,
};
pub use desired::{
    BadAnnotation, Claim, Claims, Desired, Endpoint, Family, FirstNames, HealthSource,
    NotExportable, PortReference, PublishedService, ServiceExport, ServicePort,
};
pub use instance::{
    Attributes, Health, Instances, KnownHealth, MaybeRead, fingerprint, is_checkable,
    is_publishable, without_leading_zeros,
};
pub use k8s_openapi::jiff::{SignedDuration, Timestamp};
pub use name::{
    InvalidServiceName, Namespace, NamespaceKind, NamespaceReference, Selection, ServiceName,
    ServiceRef, UnresolvedNamespace,
};
pub(crate) use name::{is_dns_label, is_dns_subdomain, is_label_key, is_label_word};
pub use notice::{About, Condition, ConditionStatus, Events, Notice, REPORTER, Tone};
pub use registry::{Capacity, InstanceKey, Place, Registry, RegistryName, ServiceKey};
pub use rules::{Glob, Guard, NamePolicy, Range, Rule, Rules, ServiceLimit};
pub use service::{
    CloudMapService, HealthCheck, NewService, Records, RoutingPolicy, ServiceAttributes,
    ServiceKind, ServiceUpdate, Tags, description, seconds,
};
pub use verb::{GuardState, Outcome, Policy, Traffic, Verb};
pub use words::{count_each, join, join_first, join_or};
pub(crate) use words::{display, words};
