//! The Cloud Map service that a call creates, and the settings that a call changes. The plan makes them, and
//! `cloud_map` sends them.

use std::collections::BTreeSet;
use std::fmt;

use super::{HealthCheck, Namespace, Records, RoutingPolicy, ServiceKind, ServiceName};

/// A Cloud Map service to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewService {
    pub namespace: Namespace,
    pub name: ServiceName,
    pub kind: ServiceKind,
    /// Seconds; without effect for an HTTP service.
    pub ttl: u32,
    /// Without effect for an HTTP service.
    pub routing_policy: RoutingPolicy,
    /// Whether it gets a custom health check.
    pub custom_health: bool,
}

/// A new TTL for the records of a service, with all settings that Cloud Map deletes if the call leaves them out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUpdate {
    pub description: Option<String>,
    pub records: Records,
    /// The new TTL in seconds.
    pub ttl: u32,
    pub health_check: Option<HealthCheck>,
    /// The present TTLs in seconds.
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
