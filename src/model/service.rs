//! A Cloud Map service: its entry in the list of services, its records, instances and tags. The list gives the entry;
//! all other data are read separately, if at all. The plan makes a service to create or the settings to change, and
//! `cloud_map` sends them.

use std::collections::BTreeSet;
use std::fmt;

use super::{
    Family, Instances, MaybeRead, Namespace, ServiceName, Timestamp, display, join, words,
};

/// A Cloud Map service and the instances in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudMapService {
    pub arn: String,
    /// The name as spelled in Cloud Map.
    pub name: String,
    pub kind: ServiceKind,
    pub description: Option<String>,
    /// The TTLs of its records in seconds; several if another client gave each record type its own.
    pub ttls: BTreeSet<u32>,
    /// `None` if it has no records.
    pub routing_policy: Option<RoutingPolicy>,
    /// A health check of Route 53.
    pub health_check: Option<HealthCheck>,
    /// The number of instances in the list of services, which may lag behind registrations.
    pub instance_count: u32,
    /// The instances by id; `None` if they were not read.
    pub instances: Option<Instances>,
    /// The account that created it, if the list of services contains it.
    pub created_by: Option<String>,
    /// The accounts that registered its instances; several only if the namespace is shared.
    pub registered_by: BTreeSet<String>,
    /// The time of the read of its instances, if that was in an earlier run.
    pub read_before: Option<Timestamp>,
    /// The error if the instances could not be read.
    pub unreadable: Option<String>,
    /// Whether IAM denied reading the instances.
    pub is_denied: bool,
    /// If the instances could not be read: whether this process has seen our marks or our tag on the service.
    pub was_ours: bool,
    /// Read only if a decision depends on them.
    pub tags: Tags,
}

impl CloudMapService {
    /// The number of instances: those that were read, or the number in the list.
    pub fn instance_total(&self) -> usize {
        let counted = usize::try_from(self.instance_count).unwrap_or(usize::MAX);
        self.instances.as_ref().map_or(counted, |instances| instances.len())
    }

    /// Whether the service has instances that this process has never read or tried to read.
    pub fn is_never_read(&self) -> bool {
        self.instances.is_none() && self.unreadable.is_none() && self.instance_count > 0
    }

    /// Whether the instances were not read because Cloud Map counts none. The count may lag.
    pub fn is_skipped_as_empty(&self) -> bool {
        self.instances.is_none() && self.unreadable.is_none() && self.instance_count == 0
    }

    /// Whether a change may rely on the known instances: they were read in this run, or Cloud Map counts none. A
    /// service whose read failed in this run counts as current.
    pub fn is_current(&self) -> bool {
        self.read_before.is_none() && !self.is_never_read()
    }

    /// Returns only the data of its entry in the list of services.
    #[must_use]
    pub fn without_reads(&self) -> Self {
        Self {
            arn: self.arn.clone(),
            name: self.name.clone(),
            kind: self.kind,
            description: self.description.clone(),
            ttls: self.ttls.clone(),
            routing_policy: self.routing_policy,
            health_check: self.health_check.clone(),
            instance_count: self.instance_count,
            created_by: self.created_by.clone(),
            ..Self::default()
        }
    }

    /// A service that was just created, so it has no instances.
    pub fn created(arn: String, name: &str, kind: ServiceKind) -> Self {
        let name = name.to_owned();
        let instances = Some(Instances::default());
        Self { arn, name, kind, instances, ..Self::default() }
    }

    /// Whether accounts other than the one that created it registered instances in it.
    pub fn holds_instances_of_other_accounts(&self) -> bool {
        let other =
            |account: &String| self.created_by.as_ref().is_some_and(|creator| creator != account);
        self.registered_by.len() > 1 || self.registered_by.iter().any(other)
    }

    /// Returns the command with which a person deletes it. It has the ARN, since Cloud Map finds a service in a shared
    /// namespace by that alone.
    pub fn delete_command(&self) -> String {
        let region = self.arn.split(':').nth(3).unwrap_or_default();
        format!("aws servicediscovery delete-service --region {region} --id {}", self.arn)
    }

    /// Whether the service has the tag of this owner. Without the tag it is never changed.
    pub fn is_tagged(&self, owner: &str) -> bool {
        matches!(&self.tags, Tags::Read(tags) if tags.owner.as_deref() == Some(owner))
    }
}

/// Returns the description of a namespace or service that an installation creates.
pub fn description(owner: &str) -> String {
    format!("cloud-map-sync: created for {owner}")
}

/// The tags of a Cloud Map service on which decisions depend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceTags {
    /// The owner id of the installation that created it, or of a later owner.
    pub owner: Option<String>,
    pub managed_by_ecs: bool,
}

pub type Tags = MaybeRead<ServiceTags>;

words! {
    /// The way in which DNS queries are answered. It cannot be changed after the creation of a service.
    #[derive(Default)]
    pub enum RoutingPolicy {
        /// Up to eight random instances.
        #[default]
        Multivalue = "MULTIVALUE",
        /// One random instance.
        Weighted = "WEIGHTED",
    }
}

/// A health check of Route 53, with the values of Cloud Map's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// `HTTP`, `HTTPS` or `TCP`.
    pub kind: String,
    /// The path of the request.
    pub path: Option<String>,
    /// The number of failures after which an instance is unhealthy.
    pub threshold: Option<i32>,
}

/// The ways to discover the instances of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceKind {
    /// By discovery calls only.
    #[default]
    Http,
    /// By discovery calls and DNS records.
    Dns(Records),
}

/// The record types of a DNS service. They cannot be changed after its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "a set of four record types")]
pub struct Records {
    pub a: bool,
    pub aaaa: bool,
    pub srv: bool,
    pub cname: bool,
}

impl Records {
    /// The records of the addresses of these families.
    pub fn of(families: &BTreeSet<Family>) -> Self {
        let [a, aaaa] = [Family::V4, Family::V6].map(|family| families.contains(&family));
        Self { a, aaaa, ..Self::default() }
    }
}

impl fmt::Display for ServiceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Dns(records) = self else {
            return f.write_str("HTTP");
        };
        let types = [
            (records.a, "A"),
            (records.aaaa, "AAAA"),
            (records.srv, "SRV"),
            (records.cname, "CNAME"),
        ];
        let names: Vec<&str> =
            types.into_iter().filter_map(|(set, name)| set.then_some(name)).collect();
        f.write_str(&names.join("+"))
    }
}

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

display!(ServiceUpdate { present, ttl, .. } => "ttl {} -> {ttl}", seconds(present));

/// TTLs for a sentence.
pub fn seconds(ttls: &BTreeSet<u32>) -> String {
    join(ttls, " and ")
}
