//! A Cloud Map service: what it serves, what is registered in it, and what else its entry in the list
//! of services says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Attributes, ClusterArn, KnownHealth};

/// A Cloud Map service and the instances in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudMapService {
    /// Its ARN.
    pub arn: String,
    /// Its name as written.
    pub name: String,
    /// What it serves.
    pub kind: ServiceKind,
    /// What the list says of it.
    pub description: Option<String>,
    /// The TTLs of its records in seconds: one, unless somebody gave each type its own.
    pub ttls: BTreeSet<u32>,
    /// The TTL that each other cluster which this run has read asks for under its name, if it asks for any.
    pub ttls_asked: BTreeMap<ClusterArn, Option<u32>>,
    /// How DNS queries are answered, where it has records.
    pub routing_policy: Option<RoutingPolicy>,
    /// Its Route 53 health check.
    pub health_check: Option<HealthCheck>,
    /// How many instances the list of services told of; it may lag behind registrations.
    pub instance_count: u32,
    /// Every instance by id; `None` where they were not read, because nothing asked for it.
    pub instances: Option<BTreeMap<String, Attributes>>,
    /// The account that created it, if the list of services says so.
    pub created_by: Option<String>,
    /// The accounts that registered them: more than one only where the namespace is shared.
    pub registered_by: BTreeSet<String>,
    /// Why the instances could not be read, where that was tried in vain.
    pub unreadable: Option<String>,
    /// Whether they could not be read because IAM does not allow it.
    pub is_denied: bool,
    /// Whether this process has seen our marks or our tag on it, where the instances could not be read.
    pub was_ours: bool,
    /// Whether health can be reported to it (`HealthCheckCustomConfig`); fixed when it is created.
    pub custom_health: bool,
    /// The health of its instances; read only where a Service wants its own written.
    pub health: KnownHealth,
    /// Its tags, read only where something is to be done that depends on them.
    pub tags: Tags,
}

impl CloudMapService {
    /// How many instances it holds, as far as is known.
    pub fn held(&self) -> usize {
        let counted = usize::try_from(self.instance_count).unwrap_or(usize::MAX);
        self.instances.as_ref().map_or(counted, BTreeMap::len)
    }

    /// The entry of a newer list, with what was read of the service beside the list.
    #[must_use]
    pub fn listed_anew(self, listed: Self) -> Self {
        let Self { instances, registered_by, health, tags, .. } = self;
        let Self { ttls_asked, unreadable, is_denied, was_ours, .. } = self;
        let read = Self { instances, registered_by, health, tags, ..listed };
        Self { ttls_asked, unreadable, is_denied, was_ours, ..read }
    }

    /// A service that was created a moment ago, and so has no instances.
    pub fn created(arn: String, name: &str, kind: ServiceKind) -> Self {
        Self {
            arn,
            name: name.to_owned(),
            kind,
            description: None,
            ttls: BTreeSet::new(),
            ttls_asked: BTreeMap::new(),
            routing_policy: None,
            health_check: None,
            instance_count: 0,
            instances: Some(BTreeMap::new()),
            created_by: None,
            registered_by: BTreeSet::new(),
            unreadable: None,
            is_denied: false,
            was_ours: false,
            custom_health: false,
            health: KnownHealth::Read(BTreeMap::new()),
            tags: Tags::Unread,
        }
    }
}

impl CloudMapService {
    /// Whether accounts other than the one that created it registered instances in it.
    pub fn holds_instances_of_other_accounts(&self) -> bool {
        let other = |account: &String| self.created_by.as_ref().is_some_and(|it| it != account);
        self.registered_by.len() > 1 || self.registered_by.iter().any(other)
    }

    /// Whether it carries the tag of this owner: nothing else makes it ours to change or delete.
    pub fn is_tagged(&self, owner: &str) -> bool {
        matches!(&self.tags, Tags::Read { owner: Some(tag), .. } if tag == owner)
    }
}

/// What is known of the tags of a Cloud Map service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tags {
    /// Nobody asked.
    #[default]
    Unread,
    /// They could not be read, for this reason.
    Unreadable(String),
    /// What they say.
    Read {
        /// The id of the installation that created it, or that was given it.
        owner: Option<String>,
        /// Whether ECS Service Connect manages it.
        managed_by_ecs: bool,
    },
}

/// How DNS queries for a service are answered. It is fixed when the service is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoutingPolicy {
    /// With up to eight instances, picked at random.
    #[default]
    Multivalue,
    /// With one instance, picked at random.
    Weighted,
}

impl RoutingPolicy {
    /// Every policy.
    pub const ALL: [Self; 2] = [Self::Multivalue, Self::Weighted];
}

impl fmt::Display for RoutingPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Multivalue => "MULTIVALUE",
            Self::Weighted => "WEIGHTED",
        })
    }
}

/// A Route 53 health check, in Cloud Map's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// `HTTP`, `HTTPS` or `TCP`.
    pub kind: String,
    /// The path that is asked for.
    pub path: Option<String>,
    /// After how many failures an instance counts as unhealthy.
    pub threshold: Option<i32>,
}

/// What a Cloud Map service serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceKind {
    /// Discovery calls only.
    Http,
    /// DNS records.
    Dns(Records),
}

/// The record types of a DNS service. They are fixed when the service is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "a set of four record types")]
pub struct Records {
    /// IPv4 addresses.
    pub a: bool,
    /// IPv6 addresses.
    pub aaaa: bool,
    /// Addresses with ports.
    pub srv: bool,
    /// An alias of another name.
    pub cname: bool,
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
