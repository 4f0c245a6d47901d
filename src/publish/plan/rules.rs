//! What the installation allows and limits, from the function's settings: one value that every rule
//! of the plan reads, the same for all clusters of an invocation.

use super::{Guard, NamePolicy, Policy, ServiceLimit};
use crate::model::{NamespaceReference, SignedDuration};

/// The settings that a plan obeys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Which kinds of changes are made at all.
    pub policy: Policy,
    /// How much may be lost at once.
    pub guard: Guard,
    /// Whether a missing HTTP namespace is created.
    pub create_namespaces: bool,
    /// Whether services of ours that nobody needs are deleted.
    pub delete_empty_services: bool,
    /// The Cloud Map namespaces that are looked at; empty: all.
    pub namespaces: Vec<NamespaceReference>,
    /// Which Services may claim what; none: everything is allowed.
    pub name_policy: Option<NamePolicy>,
    /// How many instances Cloud Map takes in one service.
    pub service_limit: ServiceLimit,
    /// Whether the function's role may not write the DNS records of Cloud Map services.
    pub lacks_dns_rights: bool,
    /// After which time the instances of a cluster that is gone are taken out; none: never.
    pub purge_dead_clusters_after: Option<SignedDuration>,
}
