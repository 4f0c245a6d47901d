//! The exports of all members and the endpoints of each: as this invocation read them in the clusters that it serves
//! ([`Overlay`]), and as Cloud Map has them for all others. The exports of a name are read and merged once for
//! all importing clusters (`named`), and each endpoint of a name has its `fate` for people. Addresses that may not be
//! imported are left out for each of them. Pure.

mod fate;
mod named;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::plan::{Read, Reason, Sources};
use crate::clusterset::members::{self, MemberRecords};
use crate::clusterset::merge::Merged;
use crate::clusterset::record::{self, ClusterRecord, ExportRecord, UnusableRecord};
use crate::clusterset::{attributes, id};
use crate::guard::SightingNote;
use crate::model::{
    ClusterArn, ClusterId, ClustersetId, Overlay, Owner, Registry, ServiceKey, ServiceRef,
    Timestamp,
};
use named::NamedExports;

pub use named::MergedName;

/// Whether an address may be imported into a Kubernetes namespace.
pub type Allows<'a> = &'a (dyn Fn(&str, IpAddr) -> bool + Sync);

/// Everything that is known about a clusterset.
pub struct Members<'a> {
    registry: &'a Registry,
    clusterset: &'a ClustersetId,
    overlay: &'a BTreeMap<ClusterId, Overlay>,
    /// The members that were not heard of for long. One that this invocation read itself is none.
    pub stale: Vec<Stale>,
    /// The records of each member, as Cloud Map has them.
    records: BTreeMap<ClusterId, MemberRecords>,
    /// The Cloud Map services of each name.
    places: BTreeMap<ServiceRef, Vec<&'a ServiceKey>>,
    /// Whether these are all members: else one may have joined meanwhile.
    is_complete: bool,
    /// Whether nothing could be read of Cloud Map: these are the clusters that this invocation read itself.
    pub is_unread: bool,
    /// The Cloud Map services among the records whose names are no cluster ids: they count for no member.
    pub strangers: Vec<String>,
    names: OnceLock<BTreeSet<ServiceRef>>,
    /// The names that were asked for.
    named: Mutex<BTreeMap<ServiceRef, Arc<NamedExports>>>,
}

impl<'a> Members<'a> {
    /// `is_complete`: the registry has all members. In a list that was read before this invocation one may be missing.
    pub fn new(
        (registry, is_complete): (&'a Registry, bool),
        clusterset: &'a ClustersetId,
        overlay: &'a BTreeMap<ClusterId, Overlay>,
        stale_before: Timestamp,
    ) -> Self {
        let mut records: BTreeMap<ClusterId, MemberRecords> = BTreeMap::new();
        let mut places = BTreeMap::<_, Vec<_>>::new();
        let mut strangers = Vec::new();
        let of_records = record::namespace(clusterset);
        for (key, service) in &registry.services {
            let Some(namespace) = registry.namespaces.get(&key.namespace) else { continue };
            if namespace.name == of_records {
                match ClusterId::parse(&service.name) {
                    Some(it) => records.entry(it.clone()).or_default().add(registry, key, &it),
                    None => strangers.push(format!("{}/{}", namespace.name, service.name)),
                }
            } else if !record::is_namespace(&namespace.name) {
                let name = ServiceRef::new(&namespace.name, &service.name);
                places.entry(name).or_default().push(key);
            }
        }
        let stale = records.iter().filter_map(|(cluster, records)| {
            let is_read_there = overlay.contains_key(cluster);
            Stale::of(cluster, is_read_there, records.cluster.as_ref()?, stale_before)
        });
        Self {
            registry,
            clusterset,
            overlay,
            stale: stale.collect(),
            records,
            places,
            is_complete,
            is_unread: false,
            strangers,
            names: OnceLock::new(),
            named: Mutex::default(),
        }
    }

    /// Whether Cloud Map may be behind what was read in a cluster itself: a member has a record before it exports, and that
    /// of an export says if Cloud Map has none of its endpoints. While that is changed for the first one, only the service
    /// of the name shows it.
    pub fn may_be_behind(&self, cluster: &ClusterId, name: &ServiceRef) -> bool {
        let has_record = self.records.get(cluster).is_some_and(|it| it.cluster.is_some());
        has_record && (self.is_out_of_sight(name) || !self.is_empty(cluster, name))
    }

    /// Whether a member may have another id now: it has no record of itself, and the list of members is an older one.
    pub fn may_have_moved(&self, cluster: &ClusterId) -> bool {
        let records = self.records.get(cluster);
        !self.is_complete && records.is_some_and(|it| it.holder.is_none())
    }

    /// Whether this invocation read in a cluster itself whether it exports a name.
    pub fn is_read_there(&self, cluster: &ClusterId, name: &ServiceRef) -> bool {
        self.overlay_of(cluster, name).is_some()
    }

    fn overlay_of(&self, cluster: &ClusterId, name: &ServiceRef) -> Option<&Overlay> {
        self.overlay.get(cluster).filter(|overlay| overlay.covers(name))
    }

    /// The installation and the cluster that hold a cluster id, by its record in Cloud Map.
    pub fn holder_of(&self, cluster: &ClusterId) -> Option<&Owner> {
        self.records.get(cluster)?.holder.as_ref()
    }

    /// Whether Cloud Map has a record of a cluster under any id, which may have been changed.
    pub fn has_record_under_any_id(&self, arn: &ClusterArn) -> bool {
        members::has_record(self.registry, arn)
    }

    /// The loss of imports that the guard saw first, as the record of the importing cluster has it.
    pub fn sighting_note_of(&self, cluster: &ClusterId) -> Option<SightingNote> {
        SightingNote::parse(self.records.get(cluster)?.sighting.as_ref()?)
    }

    /// The problem of each member whose records could not be read.
    pub fn unread_records(&self) -> impl Iterator<Item = String> {
        let all = self.records.iter();
        all.filter_map(|(id, it)| Some(format!("records of {id}: {}", it.unread.as_ref()?)))
    }

    /// The clusters of which the guard let a large loss of exports pass in this run.
    pub fn let_pass(&self) -> BTreeSet<ClusterId> {
        let passed = self.overlay.iter().filter(|(_, overlay)| overlay.let_pass);
        passed.map(|(cluster, _)| cluster.clone()).collect()
    }

    /// Every name that a member exports or may export, as far as that is known.
    pub fn names(&self) -> &BTreeSet<ServiceRef> {
        self.names.get_or_init(|| {
            let overlay = self
                .overlay
                .values()
                .flat_map(|it| it.desired.services.keys().filter(|name| it.covers(name)));
            let recorded = self.records.iter().flat_map(|(cluster, records)| {
                records.exports.keys().filter(|name| !self.is_read_there(cluster, name))
            });
            let is_exported = |key: &&ServiceKey| {
                let mut instances = self.registry.instances(key).map(|(_, it)| it);
                instances.any(|it| attributes::is_exported_to(it, self.clusterset))
            };
            let placed = self.places.iter().filter(|(_, keys)| keys.iter().any(is_exported));
            let unusable = self.unusable().filter_map(|it| it.service.as_ref());
            let named = overlay.chain(recorded).chain(unusable);
            named.chain(placed.map(|(name, _)| name)).cloned().collect()
        })
    }

    /// The name whose import has this derived Service, if Cloud Map has a service of it.
    pub fn name_of(&self, derived: &ServiceRef) -> Option<&ServiceRef> {
        let mut placed = self.places.keys().filter(|it| it.namespace == derived.namespace);
        placed.find(|it| id::derived_service(it) == derived.name)
    }

    /// All exports of a name, merged.
    pub fn merged(&self, name: &ServiceRef) -> Option<Arc<Merged>> {
        self.named(name).merged.clone()
    }

    /// The exports of one name, for an importing cluster.
    pub fn known(
        &self,
        name: &ServiceRef,
        (importer, allows): (&ClusterArn, Allows<'_>),
    ) -> MergedName {
        let named = self.named(name);
        let mut left_out = Vec::new();
        let mut by_cluster = BTreeMap::new();
        for (cluster, of_member) in &named.members {
            let read = match of_member {
                None => Read::Unread,
                Some(of_member) => {
                    let (exported, addresses) =
                        of_member.exported(importer, |address| allows(&name.namespace, address));
                    if !addresses.is_empty() {
                        let cluster = cluster.clone();
                        left_out.push(Reason::AddressNotAllowed { cluster, addresses });
                    }
                    let is_held = match self.overlay_of(cluster, name) {
                        Some(overlay) => overlay.held.contains(name),
                        None => named.hidden.contains(cluster),
                    };
                    if is_held { Read::Held(exported) } else { Read::Whole(exported) }
                }
            };
            by_cluster.insert(cluster.clone(), read);
        }
        let is_read = named.unread.is_none();
        let is_complete = is_read && self.is_complete && named.hidden.is_empty();
        let sources = Sources { by_cluster, is_complete, is_read };
        left_out.extend(named.left_out.iter().cloned());
        MergedName { named, sources, left_out }
    }

    /// Whether no service of a name was read, and a namespace that it can be in is not shown, or one was never read: it may
    /// be out of sight, with endpoints that stand in imports.
    pub fn is_out_of_sight(&self, name: &ServiceRef) -> bool {
        let names = BTreeSet::from([name.clone()]);
        let mut keys = self.registry.keys_named(&names).peekable();
        let is_known = self.is_complete && keys.peek().is_some();
        let has_none = !self.places.contains_key(name);
        has_none && (!is_known || keys.any(|key| self.registry.is_never_read(&key)))
    }

    /// Whether the record of an export says that Cloud Map has none of its endpoints.
    fn is_empty(&self, cluster: &ClusterId, name: &ServiceRef) -> bool {
        self.record_of(cluster, name).is_some_and(|record| record.is_empty)
    }

    /// The record of an export, which one of AWS's controller does not have.
    pub fn record_of(&self, cluster: &ClusterId, name: &ServiceRef) -> Option<&ExportRecord> {
        self.records.get(cluster)?.exports.get(name)
    }

    /// The exports of a name for all importing clusters, which ask for it one after the other.
    fn named(&self, name: &ServiceRef) -> Arc<NamedExports> {
        let mut known = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(
            known.entry(name.clone()).or_insert_with(|| Arc::new(NamedExports::read(self, name))),
        )
    }

    /// The records that cannot be used, unless this invocation read their names in the clusters.
    fn unusable(&self) -> impl Iterator<Item = &UnusableRecord> {
        let all = self.records.values().flat_map(|records| &records.unusable);
        all.filter(|UnusableRecord { cluster, service, .. }| {
            service.as_ref().is_none_or(|service| !self.is_read_there(cluster, service))
        })
    }
}

// Members that were not heard of for long. Every full sync of a member writes the time on its record, up to some minutes;
// a cluster of AWS's controller has no record, and its age is unknown.
//
// A stale cluster is reported, and stays in the imports: its addresses may be right, and a perhaps wrong one is better
// than none.

/// A member that was not heard of for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    pub cluster: ClusterId,
    pub arn: ClusterArn,
    /// The last full sync of the cluster, up to some minutes.
    pub heartbeat: Timestamp,
}

impl Stale {
    /// `None` if the cluster was heard of, or need not be: it only imports. One that this invocation read itself is well,
    /// whatever its record says.
    fn of(
        cluster: &ClusterId,
        is_read_there: bool,
        record: &ClusterRecord,
        stale_before: Timestamp,
    ) -> Option<Self> {
        let is_stale = record.heartbeat < stale_before;
        (is_stale && !record.only_imports && !is_read_there).then(|| Self {
            cluster: cluster.clone(),
            arn: record.owner.cluster.clone(),
            heartbeat: record.heartbeat,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Flow, SignedDuration};

    fn id(name: &str) -> ClusterId {
        ClusterId::parse(name).expect("a cluster id")
    }

    #[test]
    fn cluster_is_stale_by_the_age_of_its_heartbeat() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().expect("a time");
        let minutes = SignedDuration::from_mins;
        let arn = ClusterArn::parse("arn:aws:eks:eu-central-1:111122223333:cluster/green");
        let cluster = arn.expect("well formed");
        let owner = Owner { id: "cloud-map-sync".into(), cluster, flow: Flow::Exports };
        let clusterset = ClustersetId::parse("shop-set").expect("an id");
        let stale_before = now.checked_sub(minutes(15)).expect("a time");
        for (age, expected) in [(-5, false), (15, false), (16, true), (9999, true)] {
            let heartbeat = now.checked_sub(minutes(age)).expect("a time");
            let owner = owner.clone();
            let clusterset = clusterset.clone();
            let only_imports = false;
            let record = ClusterRecord { owner, clusterset, heartbeat, only_imports };
            let stale = Stale::of(&id("green"), false, &record, stale_before);
            assert_eq!(stale.is_some(), expected, "{age}");
            assert_eq!(Stale::of(&id("blue"), true, &record, stale_before), None, "it was read");
            let importer = ClusterRecord { only_imports: true, ..record };
            let stale = Stale::of(&id("green"), false, &importer, stale_before);
            assert_eq!(stale, None, "it only imports");
        }
    }
}
