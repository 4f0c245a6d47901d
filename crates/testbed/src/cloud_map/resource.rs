//! The content of the registry: namespaces, services and their instances. Every instance id has a history, since the
//! control plane and the discovery plane show a finished change with different delays.
//!
//! The versions of one instance id. A change takes effect when its operation ends. Each of the two planes shows it with
//! its own delay, so a reader gets the newest version that has reached its plane.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

/// What makes the instances of a namespace's services findable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceKind {
    /// By the API alone.
    Http,
    /// By DNS inside a VPC, and by the API.
    DnsPrivate,
    /// By public DNS, and by the API.
    DnsPublic,
}

impl NamespaceKind {
    /// The word of the API.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::DnsPrivate => "DNS_PRIVATE",
            Self::DnsPublic => "DNS_PUBLIC",
        }
    }
}

/// A type of DNS record that a service makes for its instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordType {
    /// An IPv4 address.
    A,
    /// An IPv6 address.
    Aaaa,
    /// A port and a target.
    Srv,
    /// Another name.
    Cname,
}

impl RecordType {
    /// All of them, in the API's words.
    pub(super) const WORDS: [(&'static str, Self); 4] =
        [("A", Self::A), ("AAAA", Self::Aaaa), ("SRV", Self::Srv), ("CNAME", Self::Cname)];

    /// The word of the API.
    pub(super) fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, kind)| *kind == self).expect("every type is in the table").0
    }
}

/// The DNS side of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct DnsConfig {
    /// `MULTIVALUE` or `WEIGHTED`.
    pub routing_policy: String,
    /// Each record type with its time to live in seconds.
    pub records: Vec<(RecordType, i64)>,
}

impl DnsConfig {
    /// Whether instances get a record of this type.
    pub(super) fn has(&self, kind: RecordType) -> bool {
        self.records.iter().any(|(record, _)| *record == kind)
    }
}

/// A namespace.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// The account that it belongs to, which may share it with this one.
    pub owner: String,
    pub name: String,
    pub http_name: String,
    pub kind: NamespaceKind,
    pub vpc: Option<String>,
    pub hosted_zone: Option<String>,
    pub soa_ttl: i64,
    pub description: Option<String>,
    pub creator_request_id: Option<String>,
    pub created: Instant,
    pub tags: BTreeMap<String, String>,
    /// When lists show it.
    pub listed_from: Instant,
    /// Its deletion was accepted: no read shows it, and its name is taken.
    pub is_leaving: bool,
    /// When its name is free, if its deletion has ended.
    pub free_from: Option<Instant>,
}

/// A service and all that hangs on it.
pub struct Service {
    pub name: String,
    pub namespace: String,
    pub description: Option<String>,
    pub dns: Option<DnsConfig>,
    pub health_check: Option<Value>,
    pub custom_health: bool,
    pub creator_request_id: Option<String>,
    pub created: Instant,
    pub tags: BTreeMap<String, String>,
    /// Changed by `State::put` alone.
    pub instances: BTreeMap<String, History>,
    pub health: BTreeMap<String, &'static str>,
    pub revisions: Vec<(Instant, i64)>,
}

impl Service {
    /// The instance as it is, however long reads take to see it.
    pub fn instance(&self, id: &str) -> Option<&Arc<Instance>> {
        self.instances.get(id)?.truth()
    }

    /// The part of `State::put` that is the service's.
    pub fn put(
        &mut self,
        id: &str,
        ended: Instant,
        shown: (Instant, Instant),
        instance: Option<Arc<Instance>>,
    ) {
        let gone = instance.is_none();
        self.instances.entry(id.to_owned()).or_default().push(ended, shown, instance);
        if gone {
            self.health.remove(id);
            self.instances.retain(|_, history| !history.is_forgotten(ended));
        }
    }

    /// All instances as they are.
    pub fn present(&self) -> impl Iterator<Item = (&String, &Arc<Instance>)> {
        self.instances.iter().filter_map(|(id, history)| Some((id, history.truth()?)))
    }

    /// All instances as the control plane shows them now.
    pub fn listed(&self, now: Instant) -> impl Iterator<Item = (&String, &Arc<Instance>)> {
        self.instances.iter().filter_map(move |(id, history)| Some((id, history.listed(now)?)))
    }

    /// All instances as the discovery plane shows them now.
    pub fn discovered(&self, now: Instant) -> impl Iterator<Item = (&String, &Arc<Instance>)> {
        self.instances.iter().filter_map(move |(id, history)| Some((id, history.discovered(now)?)))
    }
}

/// An instance: immutable, replaced as a whole by each registration.
#[derive(Debug, PartialEq)]
pub struct Instance {
    pub attributes: BTreeMap<String, String>,
    /// The account that registered it.
    pub created_by: String,
    pub creator_request_id: Option<String>,
}

/// The versions of one instance id, oldest first; `None` is an absence.
#[derive(Default)]
pub struct History(Vec<Version>);

struct Version {
    listed_from: Instant,
    discovered_from: Instant,
    instance: Option<Arc<Instance>>,
}

impl History {
    /// Adds what is true from now on, and from when the control plane and the discovery plane show it.
    pub fn push(
        &mut self,
        now: Instant,
        (listed_from, discovered_from): (Instant, Instant),
        instance: Option<Arc<Instance>>,
    ) {
        let known = self
            .0
            .iter()
            .rposition(|version| version.listed_from <= now && version.discovered_from <= now);
        self.0.drain(..known.unwrap_or(0));
        self.0.push(Version { listed_from, discovered_from, instance });
    }

    /// Whether nothing is there and every reader knows it.
    pub fn is_forgotten(&self, now: Instant) -> bool {
        let known = |last: &Version| {
            last.instance.is_none() && last.listed_from <= now && last.discovered_from <= now
        };
        self.0.last().is_none_or(known)
    }

    /// What is true, however long reads take to see it.
    pub fn truth(&self) -> Option<&Arc<Instance>> {
        self.0.last()?.instance.as_ref()
    }

    /// What the control plane shows now.
    pub fn listed(&self, now: Instant) -> Option<&Arc<Instance>> {
        self.0.iter().rev().find(|version| version.listed_from <= now)?.instance.as_ref()
    }

    /// What the discovery plane shows now.
    pub fn discovered(&self, now: Instant) -> Option<&Arc<Instance>> {
        self.0.iter().rev().find(|version| version.discovered_from <= now)?.instance.as_ref()
    }
}
