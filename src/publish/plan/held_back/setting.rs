//! What of a Cloud Map service as a whole is not as a Service asks. It stands in no instance's way.

use crate::model::{PortReference, RoutingPolicy, ServiceKind, ServiceRef};

/// Why a service is not as asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Setting {
    /// Of several who share a name the oldest decides on what is one for all of them.
    #[error(
        "Service {oldest} shares the name, is older, and so decides: {decided}; this one asks for {asked}"
    )]
    SharedName {
        /// The oldest.
        oldest: ServiceRef,
        /// What it decides.
        decided: String,
        /// What this one would have.
        asked: String,
    },
    /// The service's records carry no port, so it is an attribute only.
    #[error(
        "{records} records carry no port: {port} is kept as an attribute only (an SRV or HTTP service would serve it)"
    )]
    PortNotServed {
        /// The service's record types.
        records: ServiceKind,
        /// The first of the annotated ports.
        port: PortReference,
    },
    /// The records of a service that is not ours have another TTL.
    #[error(
        "the records have TTL {present} s and the annotation asks for {wanted}: the TTL stays, since the Cloud Map service does not carry our tag"
    )]
    TtlNotOurs {
        /// What they have.
        present: String,
        /// What is annotated.
        wanted: u32,
    },
    /// How a service answers DNS queries is fixed.
    #[error(
        "the routing policy of the Cloud Map service is {present} and the annotation asks for {wanted}: it is fixed when a service is created"
    )]
    RoutingPolicyFixed {
        /// How it answers.
        present: RoutingPolicy,
        /// What is annotated.
        wanted: RoutingPolicy,
    },
    /// A service of a DNS namespace that DNS knows nothing of.
    #[error(
        "this Cloud Map service is of the type HTTP: its instances are found by DiscoverInstances calls, and by no DNS query"
    )]
    NotInDns,
    /// Whether the service is ours to change could not be told.
    #[error("the service's settings stay as they are: {0}")]
    TagsUnreadable(String),
    /// Cloud Map does not let this account change the service.
    #[error("Cloud Map refuses to update the service: {0}")]
    UpdateRefused(String),
    /// The Cloud Map service has no check that health could be reported to.
    #[error(
        "this Cloud Map service was created without a custom health check, and none can be added: only ready pods are registered, as health: membership does; for health: custom take another name, or let the service be created anew"
    )]
    NoCustomHealth,
    /// The health of the instances could not be read: none is reported.
    #[error(
        "the health of the instances of this Cloud Map service could not be read, so none is changed: {0}"
    )]
    HealthUnreadable(String),
}

impl Setting {
    /// Its stable name.
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
