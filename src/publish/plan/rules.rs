//! The permissions and limits of the installation, from the function's settings. They are the same for all clusters of
//! an invocation.

use super::{Guard, NamePolicy, Policy, ServiceLimit};
use crate::model::{NamespaceReference, SignedDuration};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The kinds of changes that are made.
    pub policy: Policy,
    /// The limits of a loss of instances at once.
    pub guard: Guard,
    /// Whether a missing HTTP namespace is created.
    pub create_namespaces: bool,
    /// Whether unused services of ours are deleted.
    pub delete_empty_services: bool,
    /// The Cloud Map namespaces that are read; empty means all.
    pub namespaces: Vec<NamespaceReference>,
    /// The names that each Service may claim; `None` allows all.
    pub name_policy: Option<NamePolicy>,
    /// The most instances of one Cloud Map service.
    pub service_limit: ServiceLimit,
    /// Whether the function's role lacks the right to write the DNS records of Cloud Map services.
    pub lacks_dns_rights: bool,
    /// The time after which the instances of a deleted cluster are deregistered; `None` means never.
    pub purge_dead_clusters_after: Option<SignedDuration>,
}
