//! What is asked for and not done, each with the reason in words that say what would help.

use std::net::IpAddr;
use std::sync::Arc;

use super::maximum::SetBy;
use super::{Denial, NotAdopted, Place, Policy, Told};
use crate::model::attributes::{IPV4, IPV6};
use crate::model::{
    Attributes, BadAnnotation, PortReference, Records, RoutingPolicy, ServiceKind, ServiceRef,
    UnresolvedNamespace,
};

/// Something a Kubernetes Service asks for that this run does not do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldBack {
    /// The Service that asks.
    pub service: ServiceRef,
    /// The Cloud Map service it is about, where one is known.
    pub place: Option<Place>,
    /// Why.
    pub reason: Reason,
}

/// Why something is held back. [`Reason::code`] is stable; the sentence may be reworded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Reason {
    /// An annotation says nothing usable.
    #[error("{0}; what is registered stays")]
    BadAnnotation(BadAnnotation),
    /// The Cloud Map namespace is missing or ambiguous.
    #[error("{0}; what is registered stays")]
    Namespace(UnresolvedNamespace),
    /// Another Service of the cluster holds the name.
    #[error(
        "Service {holder} of this cluster holds the name; this one takes over when that ends{}",
        not_shared(alone)
    )]
    DomainConflict {
        /// The Service that holds it.
        holder: ServiceRef,
        /// Those who claim it for themselves alone, where others would share it.
        alone: Vec<ServiceRef>,
    },
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
    /// `NAME_POLICY` does not allow the claim: it counts as ended.
    #[error("{0}; the claim counts as ended")]
    NotAllowed(Denial),
    /// `NAME_POLICY` does not allow the address.
    #[error(
        "address {address} is not published: NAME_POLICY allows this Service addresses in {ranges}"
    )]
    AddressNotAllowed {
        /// The address.
        address: IpAddr,
        /// The ranges that are allowed.
        ranges: String,
    },
    /// An endpoint has no address that the service's records can carry.
    #[error("a service of {records} records takes no endpoint with the addresses {addresses}")]
    RecordTypeMismatch {
        /// The service's record types.
        records: String,
        /// The endpoint's addresses.
        addresses: String,
    },
    /// An address that must never be published.
    #[error(
        "address {0} is not published: it is loopback, link-local, multicast, unspecified or IPv4-mapped"
    )]
    NotPublishable(IpAddr),
    /// A port to register is no port of the Service, or the endpoints lack it.
    #[error(
        "port {port} is no port of the Service, or its endpoints lack it; the Service has: {available}"
    )]
    NoSuchPort {
        /// As annotated.
        port: PortReference,
        /// What the Service has.
        available: String,
    },
    /// SRV records need a port and nothing says which.
    #[error(
        "SRV records need a port: the Service has {0} ports, so name one with the port annotation"
    )]
    PortNeeded(usize),
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
    /// The Cloud Map service is an alias.
    #[error("the Cloud Map service has a CNAME record and takes no addresses")]
    CnameService,
    /// ECS Service Connect manages the Cloud Map service.
    #[error(
        "ECS Service Connect manages this Cloud Map service (tag AmazonECSManaged); choose another name"
    )]
    ServiceConnect,
    /// The records of a service that is not ours have another TTL.
    #[error(
        "the records have TTL {present} s and the annotation says {wanted}: the TTL stays, since the Cloud Map service does not carry our tag"
    )]
    TtlNotOurs {
        /// What they have.
        present: String,
        /// What is annotated.
        wanted: u32,
    },
    /// How a service answers DNS queries is fixed.
    #[error(
        "the Cloud Map service answers DNS queries as {present} and the annotation says {wanted}: that is fixed when a service is created"
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
    /// An instance has the id that a new one would get, and is somebody else's or stands for another
    /// endpoint.
    #[error("instance {0} exists and stands for something else; it is not overwritten")]
    IdTaken(String),
    /// More endpoints are ready than the Service wants registered.
    #[error("{maximum} of {wanted} instances are registered, as {set_by} says")]
    Maximum {
        /// So many.
        maximum: usize,
        /// Whose number it is.
        set_by: SetBy,
        /// How many there would be.
        wanted: usize,
    },
    /// The Cloud Map service takes no more.
    #[error(
        "{fit} of {wanted} instances fit: a Cloud Map service takes {limit}, and {others} in it are not ours"
    )]
    ServiceFull {
        /// How many there would be.
        wanted: usize,
        /// How many there can be.
        fit: usize,
        /// What Cloud Map takes.
        limit: usize,
        /// How many belong to others.
        others: usize,
    },
    /// The Cloud Map namespace takes no more.
    #[error(
        "{fit} of {wanted} instances fit: the Cloud Map namespace takes {limit} (NAMESPACE_INSTANCE_LIMIT), and others take up the rest"
    )]
    NamespaceFull {
        /// How many there would be.
        wanted: usize,
        /// How many there can be.
        fit: usize,
        /// What Cloud Map takes, by our settings.
        limit: usize,
    },
    /// No endpoint is ready, and the Service wants its last instances to stay.
    #[error("no endpoint is ready; {kept} instances stay, as when-none-ready says")]
    NoneReady {
        /// How many stay.
        kept: usize,
    },
    /// The cluster's list of endpoints is not whole.
    #[error(
        "the cluster tells of a part of the endpoints only (endpoints.kubernetes.io/over-capacity: truncated): those are registered, and none is taken out"
    )]
    EndpointsTruncated,
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
    /// The attributes are more than Cloud Map takes.
    #[error("instance {instance} would have {problem}; its attributes stay as they are")]
    AttributeLimit {
        /// The instance.
        instance: String,
        /// What is too much.
        problem: String,
    },
    /// An instance of somebody else that a person did or would let us take.
    #[error("instance {instance} is not adopted: {why}")]
    NotAdopted {
        /// The instance, which stays as it is.
        instance: String,
        /// Why.
        why: NotAdopted,
    },
    /// The policy does not allow it.
    #[error("policy {policy} does not allow this: {action}")]
    Policy {
        /// The policy in force.
        policy: Policy,
        /// What was to be done.
        action: String,
    },
    /// Too much would be lost at once.
    #[error("{instances} instance{} here: {told}", if *instances == 1 { " stays" } else { "s stay" })]
    Guard {
        /// How many of this Service stay here.
        instances: usize,
        /// The loss as a whole.
        told: Arc<Told>,
    },
    /// A removal waits until the names are served elsewhere.
    #[error("instance {instance} stays: {waits_for}")]
    Waiting {
        /// The instance that stays.
        instance: String,
        /// What it waits for.
        waits_for: String,
    },
    /// Route 53 refused the record set: another one has the same address.
    #[error(
        "instance {0}: the DNS change was refused (INVALID_CHANGE_BATCH): another instance may have the same address"
    )]
    AddressTaken(String),
    /// A quota of Cloud Map is used up.
    #[error("instance {instance}: {message}")]
    LimitExceeded {
        /// The instance that was not registered.
        instance: String,
        /// What Cloud Map said.
        message: String,
    },
    /// A quota of Cloud Map for namespaces or services is used up.
    #[error("{0}")]
    QuotaExceeded(String),
    /// Somebody registered an instance in a service that was to be deleted.
    #[error("an instance was registered in it a moment ago")]
    ServiceInUse,
    /// The instances of the Cloud Map service could not be read: nothing in it is changed.
    #[error("the instances of this Cloud Map service could not be read: {0}")]
    Unreadable(String),
}

impl Reason {
    /// The reason's stable name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadAnnotation(_) => "BadAnnotation",
            Self::Namespace(UnresolvedNamespace::Missing { .. }) => "NamespaceMissing",
            Self::Namespace(UnresolvedNamespace::Ambiguous { .. }) => "NamespaceAmbiguous",
            Self::DomainConflict { .. } => "DomainConflict",
            Self::NotAllowed(_) => "NotAllowed",
            Self::AddressNotAllowed { .. } => "AddressNotAllowed",
            Self::SharedName { .. } => "SharedName",
            Self::RecordTypeMismatch { .. } => "RecordTypeMismatch",
            Self::NotPublishable(_) => "NotPublishable",
            Self::NoSuchPort { .. } => "NoSuchPort",
            Self::PortNeeded(_) => "PortNeeded",
            Self::PortNotServed { .. } => "PortNotServed",
            Self::CnameService => "CnameService",
            Self::ServiceConnect => "ServiceConnect",
            Self::TtlNotOurs { .. } => "TtlNotOurs",
            Self::RoutingPolicyFixed { .. } => "RoutingPolicyFixed",
            Self::NotInDns => "NotInDns",
            Self::TagsUnreadable(_) => "TagsUnreadable",
            Self::UpdateRefused(_) => "UpdateRefused",
            Self::IdTaken(_) => "IdTaken",
            Self::Maximum { .. } => "MaxInstances",
            Self::ServiceFull { .. } => "ServiceFull",
            Self::NamespaceFull { .. } => "NamespaceFull",
            Self::NoneReady { .. } => "NoneReady",
            Self::EndpointsTruncated => "EndpointsTruncated",
            Self::NoCustomHealth => "NoCustomHealth",
            Self::HealthUnreadable(_) => "HealthUnreadable",
            Self::AttributeLimit { .. } => "AttributeLimit",
            Self::NotAdopted { .. } => "NotAdopted",
            Self::Policy { .. } => "Policy",
            Self::Guard { .. } => "Guard",
            Self::Waiting { .. } => "Waiting",
            Self::AddressTaken(_) => "AddressTaken",
            Self::LimitExceeded { .. } | Self::QuotaExceeded(_) => "LimitExceeded",
            Self::ServiceInUse => "ServiceInUse",
            Self::Unreadable(_) => "Unreadable",
        }
    }

    /// The reason for which Cloud Map may refuse an instance with addresses of one family in a service
    /// whose records are of both; `None` where that is not the case.
    pub fn of_one_family(kind: ServiceKind, attributes: &Attributes) -> Option<Self> {
        let ServiceKind::Dns(Records { a: true, aaaa: true, .. }) = kind else { return None };
        let addresses = [IPV4, IPV6].into_iter().filter_map(|key| attributes.get(key));
        let addresses: Vec<&str> = addresses.map(String::as_str).collect();
        let [address] = addresses.as_slice() else { return None };
        Some(Self::RecordTypeMismatch { records: kind.to_string(), addresses: (*address).into() })
    }

    /// Whether an endpoint is not found under the name because of it. What is never published is missing
    /// nowhere, and what is beyond the maximum is not asked for.
    pub fn keeps_out(&self) -> bool {
        let never = matches!(self, Self::NotPublishable(_) | Self::AddressNotAllowed { .. });
        !never && !self.is_remark() && !matches!(self, Self::Maximum { .. })
    }

    /// Whether the owner of the Service can do something about it, and so should hear of it. Not of the
    /// guard: that many Services lose at once is for those to judge who run the function.
    pub fn concerns_owner(&self) -> bool {
        let not_theirs =
            matches!(self, Self::Policy { .. } | Self::Guard { .. } | Self::Waiting { .. });
        let as_asked = matches!(
            self,
            Self::Maximum { set_by: SetBy::Annotation, .. } | Self::NotAdopted { .. }
        );
        !not_theirs && !as_asked && !self.is_failure()
    }

    /// Whether it is about room in Cloud Map.
    pub fn is_about_room(&self) -> bool {
        matches!(self, Self::ServiceFull { .. } | Self::NamespaceFull { .. })
    }

    /// Whether a retry may help, so that the run counts as incomplete.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::TagsUnreadable(_) | Self::HealthUnreadable(_))
    }

    /// Whether it says something of the service as a whole and stands in no instance's way.
    pub fn is_remark(&self) -> bool {
        matches!(
            self,
            Self::PortNotServed { .. }
                | Self::SharedName { .. }
                | Self::TtlNotOurs { .. }
                | Self::RoutingPolicyFixed { .. }
                | Self::NotInDns
                | Self::TagsUnreadable(_)
                | Self::UpdateRefused(_)
                | Self::NoCustomHealth
                | Self::HealthUnreadable(_)
        )
    }
}

/// Why a name that some would share is not shared.
fn not_shared(alone: &[ServiceRef]) -> String {
    if alone.is_empty() {
        return String::new();
    }
    let alone: Vec<String> = alone.iter().map(ServiceRef::to_string).collect();
    let alone = alone.join(", ");
    format!(
        "; it would be shared if all who claim it said claim: shared, and these do not: {alone}"
    )
}
