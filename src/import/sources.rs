//! The exports of all members and the endpoints of each: as this invocation read them in the clusters that it serves
//! ([`Overlay`]), and as Cloud Map has them for all others (`records`, `member`). The exports of a name are read and
//! merged once for all importing clusters (`named`). Addresses that may not be imported are left out for each of them
//! (`member`), and so are those of a cluster that was not heard of for long, while others have some (`records`). Pure.

mod member;
mod named;
mod records;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::plan::{Read, Reason, Sources};
use crate::clusterset::attributes;
use crate::clusterset::merge::Merged;
use crate::clusterset::record::{self, RecordName, UnusableRecord};
use crate::guard::Sighting;
use crate::model::clusterset::{ClusterId, ClustersetId, Export, Overlay};
use crate::model::{ClusterArn, Owner, Registry, ServiceKey, ServiceRef};
use member::LeftOut;
use named::Named;
use records::Records;

pub use records::{Lifetimes, Stale};

/// Whether an address may be imported into a Kubernetes namespace.
pub type Allows<'a> = &'a (dyn Fn(&str, IpAddr) -> bool + Sync);

pub use told::{Absent, Candidate};

/// Everything that is known about a clusterset.
pub struct Members<'a> {
    registry: &'a Registry,
    clusterset: &'a ClustersetId,
    overlay: &'a BTreeMap<ClusterId, Overlay>,
    /// The members that were not heard of for long.
    stale: Vec<Stale>,
    /// The records of each member, as Cloud Map has them.
    records: BTreeMap<ClusterId, Records>,
    /// The Cloud Map services of each name.
    places: BTreeMap<ServiceRef, Vec<&'a ServiceKey>>,
    /// Whether these are all members: else one may have joined meanwhile.
    is_complete: bool,
    /// Whether nothing could be read of Cloud Map.
    is_unread: bool,
    /// The Cloud Map services among the records whose names are no cluster ids.
    strangers: Vec<String>,
    names: OnceLock<BTreeSet<ServiceRef>>,
    /// The names that were asked for.
    named: Mutex<BTreeMap<ServiceRef, Arc<Named>>>,
}

/// The exports of one name, merged, with the endpoints of each exporter.
pub struct Known {
    pub merged: Option<Arc<Merged>>,
    /// The exports that were merged.
    pub exports: Arc<Vec<Export>>,
    pub sources: Sources,
    /// Whether Cloud Map shows no service of the name: it may be out of sight, with endpoints that stand in imports.
    pub is_unseen: bool,
    /// The addresses and instances that are not imported, with the reasons.
    pub left_out: Vec<Reason>,
}

impl<'a> Members<'a> {
    /// With all members, unless [`Self::may_lack_members`].
    pub fn new(
        registry: &'a Registry,
        clusterset: &'a ClustersetId,
        overlay: &'a BTreeMap<ClusterId, Overlay>,
        lifetimes: &Lifetimes,
    ) -> Self {
        let mut records: BTreeMap<ClusterId, Records> = BTreeMap::new();
        let mut places = BTreeMap::<_, Vec<_>>::new();
        let mut strangers = Vec::new();
        let of_records = record::namespace(clusterset);
        for (key, service) in &registry.services {
            let Some(namespace) = registry.namespaces.get(&key.namespace) else { continue };
            if namespace.name == of_records {
                match ClusterId::parse(&service.name) {
                    Some(it) => _ = records.insert(it.clone(), Records::read(registry, key, &it)),
                    None => strangers.push(format!("{}/{}", namespace.name, service.name)),
                }
            } else if !record::is_namespace(&namespace.name) {
                let name = ServiceRef::new(&namespace.name, &service.name);
                places.entry(name).or_default().push(key);
            }
        }
        let stale = records.iter().filter_map(|(cluster, records)| {
            Stale::of(cluster, records.cluster.as_ref()?, lifetimes)
        });
        let stale = stale.collect();
        let (is_complete, is_unread) = (true, false);
        let (names, named) = (OnceLock::new(), Mutex::default());
        Self {
            registry,
            clusterset,
            overlay,
            stale,
            records,
            places,
            is_complete,
            is_unread,
            strangers,
            names,
            named,
        }
    }

    /// The same from a list of members that was read before this invocation.
    #[must_use]
    pub fn may_lack_members(self) -> Self {
        Self { is_complete: false, ..self }
    }

    /// The clusters that this invocation read itself, while nothing could be read of Cloud Map.
    #[must_use]
    pub fn are_unread(self) -> Self {
        Self { is_complete: false, is_unread: true, ..self }
    }

    /// The Cloud Map services among the records whose names are no cluster ids: they count for no member.
    pub fn strangers(&self) -> &[String] {
        &self.strangers
    }

    /// Whether nothing could be read of Cloud Map.
    pub fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// Whether Cloud Map may be behind what was read in a cluster itself: a member has a record before it exports, and that
    /// of an export says if Cloud Map has none of its endpoints.
    pub fn may_be_behind(&self, cluster: &ClusterId, name: &ServiceRef) -> bool {
        let records = self.records.get(cluster);
        records.is_some_and(|it| it.cluster.is_some()) && !self.is_empty(cluster, name)
    }

    /// Whether this invocation read in a cluster itself whether it exports a name.
    pub fn is_read_there(&self, cluster: &ClusterId, name: &ServiceRef) -> bool {
        self.overlay.get(cluster).is_some_and(|overlay| overlay.covers(name))
    }

    /// The installation and the cluster that hold a cluster id, by its record in Cloud Map.
    pub fn holder_of(&self, cluster: &ClusterId) -> Option<&Owner> {
        self.records.get(cluster)?.cluster.as_ref().map(|record| &record.owner)
    }

    /// Whether Cloud Map has a record of a cluster under any id, which may have been changed.
    pub fn has_record_under_any_id(&self, arn: &ClusterArn) -> bool {
        let mut records = self.records.values().filter_map(|records| records.cluster.as_ref());
        records.any(|record| record.owner.cluster == *arn)
    }

    /// The loss of imports that the guard saw first, as the record of the importing cluster has it.
    pub fn sighting_of(&self, cluster: &ClusterId) -> Option<Sighting> {
        Sighting::parse(self.records.get(cluster)?.sighting.as_ref()?)
    }

    /// The clusters of which the guard let a large loss of exports pass in this run.
    pub fn let_pass(&self) -> BTreeSet<ClusterId> {
        let passed = self.overlay.iter().filter(|(_, overlay)| overlay.let_pass);
        passed.map(|(cluster, _)| cluster.clone()).collect()
    }

    /// The members that were not heard of for long. One that this invocation read itself is none.
    pub fn stale(&self) -> &[Stale] {
        &self.stale
    }

    /// The names that a cluster exports which this invocation read itself.
    pub fn own_names(&self) -> BTreeSet<ServiceRef> {
        let exported = self.overlay.values().flat_map(|overlay| {
            let services = overlay.desired.services.iter();
            let exported = services.filter(|(_, published)| published.export.is_some());
            exported.map(|(name, _)| name).filter(|name| overlay.covers(name))
        });
        exported.cloned().collect()
    }

    /// Every name that a member exports or may export.
    pub fn names(&self) -> &BTreeSet<ServiceRef> {
        self.names.get_or_init(|| self.all_names())
    }

    fn all_names(&self) -> BTreeSet<ServiceRef> {
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
        let unusable = self.unusable().filter_map(|it| it.record.service.as_ref());
        let named = overlay.chain(recorded).chain(unusable);
        named.chain(placed.map(|(name, _)| name)).cloned().collect()
    }

    /// All exports of a name, merged.
    pub fn merged(&self, name: &ServiceRef) -> Option<Arc<Merged>> {
        self.named(name).merged.clone()
    }

    /// The exports of one name, for an importing cluster.
    pub fn known(&self, name: &ServiceRef, (importer, allows): (&ClusterArn, Allows<'_>)) -> Known {
        let named = self.named(name);
        let is_unseen = !self.places.contains_key(name);
        let is_exporter =
            |cluster: &ClusterId| named.exports.iter().any(|it| it.cluster == *cluster);
        let mut left_out = LeftOut::new(|address| allows(&name.namespace, address));
        let by_cluster = named.members.iter().map(|(cluster, of_member)| {
            let read = of_member.as_ref().map_or(Read::Unread, |of_member| {
                let endpoints = left_out.filter(cluster, of_member);
                let exported = of_member.exported(endpoints, importer);
                let overlay = self.overlay.get(cluster);
                let is_held = match overlay.filter(|overlay| overlay.covers(name)) {
                    Some(overlay) => overlay.held.contains(name),
                    // Its record says that it exports the name, and nothing says with which endpoints.
                    None => is_unseen && !self.is_empty(cluster, name) && is_exporter(cluster),
                };
                if is_held { Read::Held(exported) } else { Read::Whole(exported) }
            });
            (cluster.clone(), read)
        });
        let mut by_cluster = by_cluster.collect();
        let expired = self.stale.iter().filter(|stale| stale.is_expired);
        records::leave(&mut by_cluster, &expired.map(|stale| stale.cluster.clone()).collect());
        let is_complete = named.is_read && self.is_complete;
        let sources = Sources { by_cluster, is_complete };
        let left_out = left_out.reasons().into_iter().chain(named.left_out.iter().cloned());
        let (merged, exports) = (named.merged.clone(), Arc::clone(&named.exports));
        Known { merged, exports, sources, is_unseen, left_out: left_out.collect() }
    }

    /// Whether the record of an export says that Cloud Map has none of its endpoints.
    fn is_empty(&self, cluster: &ClusterId, name: &ServiceRef) -> bool {
        let record = self.records.get(cluster).and_then(|records| records.exports.get(name));
        record.is_some_and(|record| record.is_empty)
    }

    /// The exports of a name for all importing clusters, which ask for it one after the other.
    fn named(&self, name: &ServiceRef) -> Arc<Named> {
        let mut known = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(name.clone()).or_insert_with(|| Arc::new(Named::read(self, name))))
    }

    /// The records that cannot be used, unless this invocation read their names in the clusters.
    fn unusable(&self) -> impl Iterator<Item = &UnusableRecord> {
        let all = self.records.values().flat_map(|records| &records.unusable);
        all.filter(|unusable| {
            let RecordName { cluster, service, .. } = &*unusable.record;
            service.as_ref().is_none_or(|service| !self.is_read_there(cluster, service))
        })
    }
}
