//! Requests that are not carried out, each with its [`Reason`]: one sentence that names the cause and, if there is one,
//! the solution. The facts about each reason decide its effect on the run, the report, the Events and the metrics.

use std::net::IpAddr;
use std::sync::Arc;

use super::adopt::NotAdopted;
use super::names::{Denial, MaximumSource};
use super::neighbours::NeighbourDifference;
use super::services::TtlObstacle;
use crate::error::shorten;
use crate::guard::GuardStatus;
use crate::model::attributes::{IPV4, IPV6};
use crate::model::{
    Attributes, BadAnnotation, FirstNames, Outcome, Place, Policy, PortReference, Records,
    RepeatedNamespace, RoutingPolicy, ServiceKind, ServiceRef, UnresolvedNamespace,
    without_leading_zeros,
};

/// A request of a Kubernetes Service that this run does not carry out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldBack {
    pub service: ServiceRef,
    /// The Cloud Map service that the request is about, if it is known.
    pub place: Option<Place>,
    pub reason: Reason,
}

/// The reason for which a request is held back. [`Reason::code`] is stable; the sentence may be reworded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Reason {
    /// An annotation is invalid.
    #[error("{0}; registered instances stay")]
    BadAnnotation(BadAnnotation),
    /// Annotations under our prefix that the function does not read.
    #[error("the function reads no annotation {0}; the Service is treated without it")]
    UnknownAnnotation(FirstNames),
    /// The Cloud Map namespace is missing or ambiguous.
    #[error("{0}; registered instances stay")]
    Namespace(UnresolvedNamespace),
    /// Several namespaces have the name, and only the Service's instances decide for one of them.
    #[error(
        "several Cloud Map namespaces are named {reference:?} ({candidates}), and only the Service's instances decide for {chosen}: name it by its id, since no instance decides any more once the pods are gone"
    )]
    NamespaceByInstances {
        reference: String,
        /// The id of the chosen namespace.
        chosen: String,
        /// The ids of all namespaces of the name.
        candidates: FirstNames,
    },
    /// Another Service of the cluster holds the name.
    #[error("Service {holder} of this cluster holds the name; this one takes over when that ends")]
    DomainConflict { holder: ServiceRef },
    /// `NAME_POLICY` does not allow the claim, so the claim counts as ended.
    #[error("{0}; the claim counts as ended")]
    NotAllowed(Denial),
    /// The Service requests more names than it may claim.
    #[error(
        "{asked} names are requested, and the first {maximum} are claimed: {}",
        if *by_policy {
            "maxNames of NAME_POLICY is the limit"
        } else {
            "a Service may not claim more"
        }
    )]
    TooManyNames {
        /// The number of names it requests.
        asked: usize,
        /// The number of names it claims, of those that `NAME_POLICY` allows.
        maximum: usize,
        /// Whether a rule of `NAME_POLICY` sets the maximum.
        by_policy: bool,
    },
    /// `NAME_POLICY` does not allow the address.
    #[error(
        "address {address} is not published: NAME_POLICY allows this Service addresses in {ranges}"
    )]
    AddressNotAllowed { address: IpAddr, ranges: String },
    /// The Cloud Map service has a health check of Route 53, which cannot call the address.
    #[error(
        "private addresses (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 192.0.2.0/24) are not registered here: Cloud Map refuses them in a service with a Route 53 health check; choose another name, or have the check removed"
    )]
    AddressNotCheckable,
    /// An endpoint has no address that the service's records can carry.
    #[error("{records} records cannot contain the endpoint's addresses {addresses}")]
    RecordTypeMismatch { records: String, addresses: String },
    /// The records of a service of ours fit no endpoint.
    #[error(
        "this Cloud Map service, which the function created, has A+AAAA records, and no endpoint has addresses of both \
         families: it is empty, so delete it: {delete}; the next sync then creates it with {fitting} records"
    )]
    RecordsMisfit {
        /// The records that would fit.
        fitting: ServiceKind,
        /// The command that deletes the service.
        delete: String,
    },
    /// An address that must never be published.
    #[error(
        "address {0} is not published: it is loopback, link-local, multicast, unspecified or IPv4-mapped"
    )]
    NotPublishable(IpAddr),
    /// An endpoint has a text in place of an address.
    #[error("{}", malformed_address(.0))]
    AddressMalformed(Box<str>),
    /// Endpoints have a host name in place of an address.
    #[error(
        "endpoints in EndpointSlices of addressType FQDN are not published: an instance in Cloud Map has IP addresses, and no host name; write the addresses to slices of addressType IPv4 or IPv6"
    )]
    AddressTypeFqdn,
    /// A port to register is not a port of the Service, or the endpoints lack it.
    #[error(
        "port {port} is not a port of the Service, or its endpoints do not have it; the Service has: {available}"
    )]
    NoSuchPort {
        /// The annotated port.
        port: PortReference,
        /// The ports of the Service.
        available: String,
    },
    /// The service's records have no port, so the port is only an attribute.
    #[error(
        "{records} records carry no port: {port} is an attribute, which DiscoverInstances and API Gateway read and DNS queries do not (an SRV service would serve it)"
    )]
    PortNotServed {
        records: ServiceKind,
        /// The first of the annotated ports.
        port: PortReference,
    },
    /// The name of the Cloud Map service repeats its namespace.
    #[error("{0}")]
    RepeatedNamespace(RepeatedNamespace),
    /// All instances of other owners have a property that the Service's instances lack.
    #[error("{0}")]
    NeighboursDiffer(Box<NeighbourDifference>),
    /// The records keep another TTL than the annotated one.
    #[error(
        "the records have TTL {present} s and the annotation asks for {wanted}: the TTL stays, since {why}"
    )]
    TtlStays {
        /// The TTL or TTLs of the records.
        present: String,
        /// The annotated TTL, in seconds.
        wanted: u32,
        why: TtlObstacle,
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
    /// SRV records and Route 53 health checks need a port, and no annotation sets it.
    #[error(
        "{needed_by} need a port: the Service has {ports} ports, so {}",
        if *ports == 0 { "add one to it" } else { "name one with the port annotation" }
    )]
    PortNeeded {
        /// The feature that needs it, in the plural.
        needed_by: &'static str,
        /// The number of ports of the Service.
        ports: usize,
    },
    /// The Cloud Map service is an alias.
    #[error(
        "the Cloud Map service has a CNAME record, so it cannot have addresses; choose another name"
    )]
    CnameService,
    /// The function's role has no rights in Route 53, so every registration there would fail.
    #[error("{}", DNS_NOT_ALLOWED)]
    DnsNotAllowed,
    /// ECS Service Connect manages the Cloud Map service.
    #[error(
        "ECS Service Connect manages this Cloud Map service (tag AmazonECSManaged); choose another name"
    )]
    ServiceConnect,
    /// An instance of another owner or of another endpoint has the id that a new instance would get.
    #[error("instance {0} exists and belongs to another endpoint; it is not overwritten")]
    IdTaken(String),
    /// More endpoints are ready than the maximum allows.
    #[error("{maximum} of {wanted} instances are registered, the limit of {set_by}")]
    Maximum {
        /// The largest number of instances.
        maximum: usize,
        set_by: MaximumSource,
        /// The number of instances without the maximum.
        wanted: usize,
    },
    /// The Service has more endpoints than the function keeps.
    #[error(
        "the Service has {found} endpoints, and {maximum} of them count: a Service may not have more; divide its pods among several Services"
    )]
    TooManyEndpoints {
        /// The number of its endpoints.
        found: usize,
        /// The number that was kept.
        maximum: usize,
    },
    /// The Cloud Map service has no capacity left.
    #[error(
        "{fit} of {wanted} instances fit: a Cloud Map service can have {limit}, and {others} in it are not ours"
    )]
    ServiceFull {
        /// The number of instances that should be registered.
        wanted: usize,
        /// The number of instances that fit.
        fit: usize,
        limit: usize,
        /// The number of instances of other owners.
        others: usize,
    },
    /// No endpoint is ready, and the Service keeps its last instances.
    #[error("no endpoint is ready; {} here because of when-none-ready", stay(*kept))]
    NoneReady {
        /// The number of instances that stay.
        kept: usize,
    },
    /// The cluster's list of endpoints is not complete.
    #[error("{}", ENDPOINTS_TRUNCATED)]
    EndpointsTruncated,
    /// The attributes exceed a limit of Cloud Map.
    #[error("instance {instance} would have {problem}; it is neither registered nor rewritten")]
    AttributeLimit {
        instance: String,
        /// The limit that is exceeded.
        problem: String,
    },
    /// An adoption leaves an instance of another owner as it is.
    #[error("instance {instance} is not adopted: {why}")]
    NotAdopted { instance: String, why: NotAdopted },
    /// AWS's controller registered instances of the export for this cluster.
    #[error(
        "{instances} instances under this name have the cluster's id and no marks, as AWS's controller registers them: \
         give the cluster another id, or deregister them"
    )]
    InstancesOfAws { instances: usize },
    /// A ServiceExport has the finalizer of AWS's controller.
    #[error(
        "the ServiceExport has the finalizer of AWS's controller, so nothing under this name is changed: \
         if that controller does not run in this cluster, remove the finalizer"
    )]
    FinalizerOfAws,
    /// `POLICY` does not allow the change.
    #[error("POLICY={policy} does not allow this: {action}")]
    Policy {
        policy: Policy,
        /// The change that is not allowed.
        action: String,
    },
    /// The guard holds a loss.
    #[error("{} here: {status}", stay(*instances))]
    Guard {
        /// The number of instances of this Service that stay here.
        instances: usize,
        /// The status of the guard, with the complete loss.
        status: Arc<GuardStatus>,
    },
    /// A removal waits, most often until other instances are registered.
    #[error("instance {instance} stays {waits_for}")]
    Waiting {
        instance: String,
        /// The condition that the removal waits for.
        waits_for: String,
    },
    /// Route 53 refused the record set of a registration.
    #[error(
        "instance {instance}: the DNS change was refused, since another instance may have the same address (INVALID_CHANGE_BATCH: {message})"
    )]
    AddressTaken {
        /// The instance that is not registered.
        instance: String,
        /// Cloud Map's message: a limit of Route 53 has the same code.
        message: String,
    },
    /// Cloud Map refuses a registration or a new service, and a retry would not help.
    #[error("Cloud Map rejects this request, and a retry does not help: {0}")]
    InvalidInput(String),
    /// The namespace has no capacity left.
    #[error(
        "{fit} of {wanted} instances fit, since Cloud Map accepts no more: {message}; {}",
        until_next(old.as_ref())
    )]
    LimitExceeded {
        /// The number of instances that should be registered.
        wanted: usize,
        /// The number of instances that are registered.
        fit: usize,
        /// Cloud Map's message.
        message: String,
        /// The former name of the Service, if its last instance there stays for this reason.
        old: Option<String>,
    },
    /// A quota of Cloud Map is used up.
    #[error("{0}")]
    QuotaExceeded(String),
    /// Cloud Map refuses to create a namespace, and lists none of this name.
    #[error(
        "the Cloud Map namespace {0:?} is being deleted: its name is free in about a minute, and the next run creates it"
    )]
    NamespaceInDeletion(String),
    /// The instances of the Cloud Map service could not be read: nothing in it is changed.
    #[error("the instances of this Cloud Map service could not be read: {0}")]
    Unreadable(String),
    /// Only Cloud Map shows the other names under which the Service has instances, and this process has not read all of
    /// it.
    #[error(
        "this process has not read yet under which other names it has instances: the next full sync deregisters what is left there"
    )]
    LeftToFullSync,
}

/// Who can resolve a reason, or whether a retry may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolvedBy {
    /// The owner of the Service, who gets an Event.
    Owner,
    /// Not the owner: the state was requested, ends by itself, or needs the operators of the function.
    Others,
    /// A retry may help, so that the run counts as incomplete.
    Retry,
}

impl Reason {
    /// The facts about each reason: its stable code, whether it keeps an endpoint out of a name, and who can resolve
    /// it. An address that is never published and an endpoint beyond the maximum do not count as kept out.
    fn facts(&self) -> (&'static str, bool, ResolvedBy) {
        use ResolvedBy::{Others, Owner, Retry};
        use UnresolvedNamespace::{Ambiguous, Missing};
        match self {
            Self::BadAnnotation(_) => ("BadAnnotation", true, Owner),
            Self::UnknownAnnotation(_) => ("UnknownAnnotation", false, Owner),
            Self::Namespace(Missing { .. }) => ("NamespaceMissing", true, Owner),
            Self::Namespace(Ambiguous { is_left_to_full_sync: true, .. }) => {
                ("NamespaceAmbiguous", true, Others)
            }
            Self::Namespace(Ambiguous { .. }) => ("NamespaceAmbiguous", true, Owner),
            Self::NamespaceByInstances { .. } => ("NamespaceByInstances", false, Owner),
            Self::DomainConflict { .. } => ("DomainConflict", true, Owner),
            Self::NotAllowed(_) => ("NotAllowed", true, Owner),
            Self::TooManyNames { .. } => ("TooManyNames", true, Owner),
            Self::AddressNotAllowed { .. } => ("AddressNotAllowed", false, Owner),
            Self::AddressNotCheckable => ("AddressNotCheckable", true, Owner),
            Self::RecordTypeMismatch { .. } | Self::RecordsMisfit { .. } => {
                ("RecordTypeMismatch", true, Owner)
            }
            Self::NotPublishable(_) => ("NotPublishable", false, Owner),
            Self::AddressMalformed(_) => ("AddressMalformed", true, Owner),
            Self::AddressTypeFqdn => ("AddressTypeFqdn", true, Owner),
            Self::NoSuchPort { .. } => ("NoSuchPort", true, Owner),
            Self::PortNotServed { .. } => ("PortNotServed", false, Owner),
            Self::RepeatedNamespace(_) => ("RepeatedNamespace", false, Owner),
            Self::NeighboursDiffer(_) => ("NeighboursDiffer", false, Owner),
            Self::TtlStays { .. } => ("TtlStays", false, Owner),
            Self::RoutingPolicyFixed { .. } => ("RoutingPolicyFixed", false, Owner),
            Self::NotInDns => ("NotInDns", false, Owner),
            Self::TagsUnreadable(_) => ("TagsUnreadable", false, Retry),
            Self::UpdateRefused(_) => ("UpdateRefused", false, Owner),
            Self::PortNeeded { .. } => ("PortNeeded", true, Owner),
            Self::CnameService => ("CnameService", true, Owner),
            Self::DnsNotAllowed => ("DnsNotAllowed", true, Owner),
            Self::ServiceConnect => ("ServiceConnect", true, Owner),
            Self::IdTaken(_) => ("IdTaken", true, Owner),
            Self::Maximum { set_by: MaximumSource::Annotation, .. } => {
                ("MaxInstances", false, Others)
            }
            Self::Maximum { .. } => ("MaxInstances", false, Owner),
            Self::TooManyEndpoints { .. } => ("TooManyEndpoints", false, Owner),
            Self::ServiceFull { .. } => ("ServiceFull", true, Owner),
            Self::NoneReady { .. } => ("NoneReady", true, Owner),
            Self::EndpointsTruncated => ("EndpointsTruncated", true, Owner),
            Self::AttributeLimit { .. } => ("AttributeLimit", true, Owner),
            Self::NotAdopted { .. } => ("NotAdopted", true, Others),
            Self::FinalizerOfAws | Self::InstancesOfAws { .. } => {
                ("AnotherController", true, Others)
            }
            Self::Policy { .. } => ("Policy", true, Others),
            // If many Services lose instances at once, the operators of the function have to judge it.
            Self::Guard { .. } => ("Guard", true, Others),
            Self::Waiting { .. } => ("Waiting", true, Others),
            Self::AddressTaken { .. } => ("AddressTaken", true, Owner),
            Self::InvalidInput(_) => ("InvalidInput", true, Owner),
            Self::LimitExceeded { .. } | Self::QuotaExceeded(_) => ("LimitExceeded", true, Owner),
            Self::NamespaceInDeletion(_) => ("NamespaceInDeletion", true, Owner),
            Self::Unreadable(_) => ("Unreadable", true, Retry),
            Self::LeftToFullSync => ("LeftToFullSync", false, Others),
        }
    }

    pub fn code(&self) -> &'static str {
        self.facts().0
    }

    /// Whether the reason keeps an endpoint out of a name.
    pub fn keeps_out(&self) -> bool {
        self.facts().1
    }

    pub fn resolved_by(&self) -> ResolvedBy {
        self.facts().2
    }

    /// The outcome in the line of the report. A remark holds no endpoint back.
    pub fn outcome(&self) -> Outcome {
        match (self, self.resolved_by()) {
            (
                Self::NamespaceByInstances { .. }
                | Self::NeighboursDiffer(_)
                | Self::NotInDns
                | Self::PortNotServed { .. }
                | Self::RepeatedNamespace(_)
                | Self::RoutingPolicyFixed { .. }
                | Self::TtlStays { .. }
                | Self::UnknownAnnotation(_)
                | Self::UpdateRefused(_),
                _,
            ) => Outcome::Remark,
            (_, ResolvedBy::Retry) => Outcome::Unread,
            (_, ResolvedBy::Owner) if self.keeps_out() => Outcome::KeptOut,
            (_, ResolvedBy::Owner | ResolvedBy::Others) => Outcome::HeldBack,
        }
    }

    /// Whether the reason is the capacity of Cloud Map, or of the function.
    pub fn is_about_capacity(&self) -> bool {
        matches!(
            self,
            Self::ServiceFull { .. } | Self::TooManyEndpoints { .. } | Self::LimitExceeded { .. }
        )
    }

    /// Whether the reason is the records or the health check of a Cloud Map service.
    pub fn is_about_settings(&self) -> bool {
        matches!(
            self,
            Self::AddressNotCheckable
                | Self::PortNeeded { .. }
                | Self::RecordTypeMismatch { .. }
                | Self::RecordsMisfit { .. }
        )
    }

    /// The reason why Cloud Map may refuse an instance that has addresses of one family, if the service has records of
    /// both; `None` in all other cases.
    pub fn record_type_mismatch(kind: ServiceKind, attributes: &Attributes) -> Option<Self> {
        let ServiceKind::Dns(Records { a: true, aaaa: true, .. }) = kind else { return None };
        let addresses = match (attributes.get(IPV4), attributes.get(IPV6)) {
            (Some(address), None) | (None, Some(address)) => address.to_owned(),
            _ => return None,
        };
        Some(Self::RecordTypeMismatch { records: kind.to_string(), addresses })
    }
}

const DNS_NOT_ALLOWED: &str = "the function's role may not write DNS records (DNS_NAMESPACES is false), so it registers nothing in a Cloud Map service that has them; deploy with its hosted zone in HostedZoneIds";

const ENDPOINTS_TRUNCATED: &str = "the cluster lists only a part of the endpoints (endpoints.kubernetes.io/over-capacity: truncated): those are registered, and none is deregistered";

/// Describes a malformed address, and how to write it.
fn malformed_address(text: &str) -> String {
    let right = match without_leading_zeros(text) {
        Some(meant) => format!("leading zeros have several meanings; write it as {meant}"),
        None => "write an address such as 10.1.0.5 or fd00::5".to_owned(),
    };
    format!("{:?} is not published: it is not written as an IP address: {right}", shorten(text))
}

/// The time of the next attempt for a registration without capacity, and the instance that stays until then.
fn until_next(old: Option<&String>) -> String {
    match old {
        Some(old) => format!(
            "the instance under the former name {old} stays until one is registered under this name, which is tried again within ten minutes"
        ),
        None => "it is tried again within ten minutes".to_owned(),
    }
}

/// The number of instances that stay, as a phrase.
fn stay(instances: usize) -> String {
    match instances {
        1 => "1 instance stays".to_owned(),
        _ => format!("{instances} instances stay"),
    }
}
