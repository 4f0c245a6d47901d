//! The Cloud Map service that a call creates, and the settings that a call changes.

use std::collections::BTreeSet;
use std::fmt;

use super::{HealthCheck, Namespace, Records, RoutingPolicy, ServiceKind, ServiceName};

/// A Cloud Map service to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewService {
    /// The namespace it goes into.
    pub namespace: Namespace,
    /// Its name.
    pub name: ServiceName,
    /// What it serves.
    pub kind: ServiceKind,
    /// TTL of its records in seconds; without meaning for an HTTP service.
    pub ttl: u32,
    /// How DNS queries for it are answered; without meaning for an HTTP service.
    pub routing_policy: RoutingPolicy,
    /// Whether health can be reported to it.
    pub custom_health: bool,
}

/// A new TTL for the records of a service, with all that would be deleted if it were not said again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUpdate {
    /// The service's description.
    pub description: Option<String>,
    /// Its records.
    pub records: Records,
    /// Their new TTL in seconds.
    pub ttl: u32,
    /// Its Route 53 health check.
    pub health_check: Option<HealthCheck>,
    /// The TTLs that its records have.
    pub present: BTreeSet<u32>,
}

impl fmt::Display for ServiceUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ttl {} -> {}", seconds(&self.present), self.ttl)
    }
}

/// TTLs for a sentence.
pub fn seconds(ttls: &BTreeSet<u32>) -> String {
    let texts: Vec<String> = ttls.iter().map(u32::to_string).collect();
    texts.join(" and ")
}
