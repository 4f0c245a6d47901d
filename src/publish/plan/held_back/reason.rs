//! The reasons for which a request is held back. Each is one sentence that names the cause and, if there is one, the
//! solution.

use std::net::IpAddr;
use std::sync::Arc;

use super::Setting;
use super::text::{
    DNS_NOT_ALLOWED, ENDPOINTS_TRUNCATED, malformed_address, not_shared, records_misfit, stay,
    until_next,
};
use crate::model::{
    BadAnnotation, ClusterArn, FirstNames, PortReference, ServiceKind, ServiceRef,
    UnresolvedNamespace,
};
use crate::publish::plan::{Denial, GuardStatus, NotAdopted, Policy, SetBy};

/// The reason for which a request is held back. [`Reason::code`] is stable; the sentence may be reworded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Reason {
    /// An annotation is invalid.
    #[error("{0}; registered instances stay")]
    BadAnnotation(BadAnnotation),
    /// The Cloud Map namespace is missing or ambiguous.
    #[error("{0}; registered instances stay")]
    Namespace(UnresolvedNamespace),
    /// Another Service of the cluster holds the name.
    #[error(
        "Service {holder} of this cluster holds the name; this one takes over when that ends{}",
        not_shared(alone.as_ref())
    )]
    DomainConflict {
        holder: ServiceRef,
        /// The Services that claim it for themselves alone, although others would share it.
        alone: Option<FirstNames>,
    },
    /// `NAME_POLICY` does not allow the claim: it counts as ended.
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
        /// Whether a rule sets the number.
        by_policy: bool,
    },
    /// `NAME_POLICY` does not allow the address.
    #[error(
        "address {address} is not published: NAME_POLICY allows this Service addresses in {ranges}"
    )]
    AddressNotAllowed {
        address: IpAddr,
        /// The allowed ranges.
        ranges: String,
    },
    /// The Cloud Map service has a health check of Route 53, which cannot call the address.
    #[error(
        "private addresses (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 192.0.2.0/24) are not registered here: Cloud Map refuses them in a service with a Route 53 health check; choose another name, or have the check removed"
    )]
    AddressNotCheckable,
    /// An endpoint has no address that the service's records can carry.
    #[error("{records} records cannot contain the endpoint's addresses {addresses}")]
    RecordTypeMismatch { records: String, addresses: String },
    /// The records of a service of ours fit no endpoint.
    #[error("{}", records_misfit(*fitting, delete.as_deref()))]
    RecordsMisfit {
        /// The records that would fit.
        fitting: ServiceKind,
        /// The command that deletes the service, if the function does not.
        delete: Option<String>,
    },
    /// An address that must never be published.
    #[error(
        "address {0} is not published: it is loopback, link-local, multicast, unspecified or IPv4-mapped"
    )]
    NotPublishable(IpAddr),
    /// A text in the place of an address.
    #[error("{}", malformed_address(.0))]
    AddressMalformed(Box<str>),
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
    /// A setting of the Cloud Map service differs from the request.
    #[error(transparent)]
    Setting(#[from] Setting),
    /// SRV records and Route 53 health checks need a port, and no annotation sets it.
    #[error(
        "{needed_by} need a port: the Service has {ports} ports, so name one with the port annotation"
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
    /// An instance of another owner or of another endpoint has the id that a new one would get.
    #[error("instance {0} exists and belongs to another endpoint; it is not overwritten")]
    IdTaken(String),
    /// More endpoints are ready than the maximum allows.
    #[error("{maximum} of {wanted} instances are registered, the limit of {set_by}")]
    Maximum {
        /// The largest number of instances.
        maximum: usize,
        /// The source of the number.
        set_by: SetBy,
        /// The number of instances without the maximum.
        wanted: usize,
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
        /// The limit of Cloud Map.
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
    /// An instance of another owner that a person allowed, or could allow, this function to adopt.
    #[error("instance {instance} is not adopted: {why}")]
    NotAdopted {
        /// The instance, which stays as it is.
        instance: String,
        why: NotAdopted,
    },
    /// AWS's controller registered instances of the export for this cluster.
    #[error(
        "{instances} instances under this name have the cluster's id and no marks, as AWS's controller registers them; \
         the export waits for {{\"action\":\"adopt\",\"cluster\":\"{cluster}\"}}"
    )]
    ExportNotAdopted {
        instances: usize,
        /// The exporting cluster.
        cluster: ClusterArn,
    },
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
        /// The complete loss.
        status: Arc<GuardStatus>,
    },
    /// A removal waits until other instances are registered.
    #[error("instance {instance} stays {waits_for}")]
    Waiting {
        /// The instance that stays.
        instance: String,
        /// The condition it waits for.
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
        /// The name that the Service had before, if its last instance under that one stays for this reason.
        old: Option<String>,
    },
    /// A quota of Cloud Map for namespaces or services is used up.
    #[error("{0}")]
    QuotaExceeded(String),
    /// Cloud Map refuses to create a namespace that it does not show.
    #[error(
        "the Cloud Map namespace {0:?} is being deleted: its name is free in about a minute, and the next run creates it"
    )]
    NamespaceInDeletion(String),
    /// Cloud Map refuses to delete a service in which the last read found no instance, or which has one since.
    #[error(
        "Cloud Map still counts an instance in it, which it may do for a while after the last one is deregistered; the next full sync tries again"
    )]
    ServiceInUse,
    /// The instances of the Cloud Map service could not be read: nothing in it is changed.
    #[error("the instances of this Cloud Map service could not be read: {0}")]
    Unreadable(String),
}
