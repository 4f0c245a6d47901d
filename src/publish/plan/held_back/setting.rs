//! Settings of a Cloud Map service that differ from the request of a Service. They hold back no instance: the
//! registrations go on, and the report and events contain the difference.

use crate::model::{PortReference, RoutingPolicy, ServiceKind, ServiceRef};

/// The reason why a setting differs from the request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Setting {
    /// The oldest of the Services that share a name decides the settings of the Cloud Map service.
    #[error(
        "Service {oldest} shares the name, is older, and so decides: {decided}; this one asks for {asked}"
    )]
    SharedName {
        oldest: ServiceRef,
        /// The settings of the oldest.
        decided: String,
        /// The settings that this Service requests.
        asked: String,
    },
    /// The service's records have no port, so the port is only an attribute.
    #[error(
        "{records} records carry no port: {port} is kept as an attribute only (an SRV or HTTP service would serve it)"
    )]
    PortNotServed {
        records: ServiceKind,
        /// The first of the annotated ports.
        port: PortReference,
    },
    /// The records of a service that is not ours have another TTL.
    #[error(
        "the records have TTL {present} s and the annotation asks for {wanted}: the TTL stays, since the Cloud Map service does not carry our tag"
    )]
    TtlNotOurs {
        /// The TTL or TTLs of the records.
        present: String,
        /// The annotated TTL, in seconds.
        wanted: u32,
    },
    /// The routing policy of a DNS service cannot be changed.
    #[error(
        "the routing policy of the Cloud Map service is {present} and the annotation asks for {wanted}: it is fixed when a service is created"
    )]
    RoutingPolicyFixed {
        present: RoutingPolicy,
        /// The annotated policy.
        wanted: RoutingPolicy,
    },
    /// The service is in a DNS namespace and has no DNS records.
    #[error(
        "this Cloud Map service is of the type HTTP: its instances are found by DiscoverInstances calls, and not by DNS queries"
    )]
    NotInDns,
    /// The tags could not be read, so it is unknown whether the service is ours.
    #[error("the service's settings stay as they are: {0}")]
    TagsUnreadable(String),
    /// This account may not change the service.
    #[error("Cloud Map refuses to update the service: {0}")]
    UpdateRefused(String),
    /// The Cloud Map service has no custom health check, so health cannot be reported.
    #[error(
        "this Cloud Map service was created without a custom health check, and none can be added: only ready pods are registered, as health: membership does; for health: custom choose another name, or recreate the service"
    )]
    NoCustomHealth,
    /// The health of the instances could not be read, so no change of health is reported.
    #[error(
        "the health of the instances of this Cloud Map service could not be read, so none is changed: {0}"
    )]
    HealthUnreadable(String),
}

impl Setting {
    pub fn code(&self) -> &'static str {
        match self {
            Self::SharedName { .. } => "SharedName",
            Self::PortNotServed { .. } => "PortNotServed",
            Self::TtlNotOurs { .. } => "TtlNotOurs",
            Self::RoutingPolicyFixed { .. } => "RoutingPolicyFixed",
            Self::NotInDns => "NotInDns",
            Self::TagsUnreadable(_) => "TagsUnreadable",
            Self::UpdateRefused(_) => "UpdateRefused",
            Self::NoCustomHealth => "NoCustomHealth",
            Self::HealthUnreadable(_) => "HealthUnreadable",
        }
    }

    /// Whether a retry may help.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::TagsUnreadable(_) | Self::HealthUnreadable(_))
    }
}
