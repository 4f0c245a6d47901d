//! The exports of all members and the endpoints of each: as this invocation read them in the clusters that it serves
//! ([`Overlay`]), and as Cloud Map has them for all others (`records`, `member`). Addresses that may not be imported are
//! left out (`left_out`), and so are those of a cluster that was not heard of for long, while others have some
//! (`expiry`). Pure.

mod expiry;
mod left_out;
mod member;
mod records;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::plan::{Read, Reason, Sources};
use crate::clusterset::attributes::{self, ExportInstance, Skipped};
use crate::clusterset::endpoints::endpoints_of;
use crate::clusterset::merge::{Merged, merge};
use crate::clusterset::record::{self, UnusableRecord, as_recorded};
use crate::guard::Sighting;
use crate::model::clusterset::{ClusterId, ClustersetId, Export};
use crate::model::{ClusterArn, Desired, Registry, ServiceKey, ServiceRef};
use left_out::LeftOut;
use member::{OfMember, export_of_instances};
use records::Records;

pub use expiry::{Lifetimes, Stale};

/// Whether an address may be imported into a Kubernetes namespace.
pub type Allows<'a> = &'a (dyn Fn(&str, IpAddr) -> bool + Sync);

pub use told::{Absent, Candidate};

/// The exports of a cluster that this invocation read itself.
#[derive(Clone, Debug)]
pub struct Overlay {
    pub arn: ClusterArn,
    pub desired: Desired,
    /// Whether the guard let a large loss of exports pass in this run.
    pub let_pass: bool,
}

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
}

/// Instances of one name, with their ids.
type Imported<'a> = Vec<(&'a String, ExportInstance)>;

/// The exports of one name, merged, with the endpoints of each exporter.
pub struct Known {
    pub merged: Option<Merged>,
    /// The exports that were merged.
    pub exports: Vec<Export>,
    pub sources: Sources,
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
        let of_records = record::namespace(clusterset);
        for (key, service) in &registry.services {
            let Some(namespace) = registry.namespaces.get(&key.namespace) else { continue };
            if namespace.name == of_records {
                let cluster = ClusterId::parse(&service.name);
                records.extend(cluster.map(|it| (it.clone(), Records::read(registry, key, &it))));
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
        Self { registry, clusterset, overlay, stale, records, places, is_complete, is_unread }
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

    /// Whether nothing could be read of Cloud Map.
    pub fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// Whether this invocation read the exports of a cluster itself.
    pub fn is_overlaid(&self, cluster: &ClusterId) -> bool {
        self.overlay.contains_key(cluster)
    }

    /// Whether Cloud Map has the record of a cluster itself.
    pub fn has_record_of(&self, cluster: &ClusterId) -> bool {
        self.records.get(cluster).is_some_and(|records| records.cluster.is_some())
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
        let services = self.overlay.values().flat_map(|it| &it.desired.services);
        let exported = services.filter(|(_, published)| published.export.is_some());
        exported.map(|(name, _)| name.clone()).collect()
    }

    /// Every name that a member exports or may export.
    pub fn names(&self) -> BTreeSet<ServiceRef> {
        let overlay = self.overlay.values().flat_map(|it| it.desired.services.keys());
        let others =
            self.records.iter().filter(|(cluster, _)| !self.overlay.contains_key(*cluster));
        let recorded = others.flat_map(|(_, records)| records.exports.keys());
        let is_exported = |key: &&ServiceKey| {
            let mut instances = self.registry.instances(key).map(|(_, it)| it);
            instances.any(|it| attributes::is_exported_to(it, self.clusterset))
        };
        let placed = self.places.iter().filter(|(_, keys)| keys.iter().any(is_exported));
        let unusable = self.unusable().filter_map(|it| it.record.service.as_ref());
        let named = overlay.chain(recorded).chain(unusable);
        named.chain(placed.map(|(name, _)| name)).cloned().collect()
    }

    /// The exports of one name, for an importing cluster.
    pub fn known(&self, name: &ServiceRef, (importer, allows): (&ClusterArn, Allows<'_>)) -> Known {
        let instances = self.instances(name);
        let is_read = instances.is_some();
        let (instances, skipped) = instances.unwrap_or_default();
        let mut members: BTreeMap<ClusterId, Option<OfMember>> = BTreeMap::new();
        for (cluster, overlay) in self.overlay {
            members.insert(cluster.clone(), Some(overlay.member(name)));
        }
        let recorded = self.records.keys().cloned();
        let registered = instances.iter().map(|(_, instance)| instance.cluster.clone());
        for cluster in recorded.chain(registered).collect::<BTreeSet<_>>() {
            members.entry(cluster).or_insert_with_key(|cluster| {
                self.of_registry(cluster, name, &instances).filter(|_| is_read)
            });
        }
        let read = members.values().flatten();
        let exports: Vec<Export> =
            read.filter_map(|it| it.export.as_ref().map(|(export, _)| export.clone())).collect();
        let merged = merge(name, &exports);
        let mut left_out = LeftOut::new(skipped, |address| allows(&name.namespace, address));
        let by_cluster = members.into_iter().map(|(cluster, of_member)| {
            let read = of_member.map_or(Read::Unread, |of_member| {
                let of_member = left_out.filter(&cluster, of_member);
                Read::Whole(of_member.exported(merged.as_ref(), importer))
            });
            (cluster, read)
        });
        let mut by_cluster = by_cluster.collect();
        let expired = self.stale.iter().filter(|stale| stale.is_expired);
        expiry::leave(&mut by_cluster, &expired.map(|stale| stale.cluster.clone()).collect());
        let sources = Sources { by_cluster, is_complete: is_read && self.is_complete };
        let unusable = self.unusable().filter(|it| it.record.may_be_of(name));
        let unusable = unusable.map(|it| Reason::UnusableRecord { record: it.to_string() });
        let left_out = left_out.reasons().into_iter().chain(unusable).collect();
        Known { merged, exports, sources, left_out }
    }

    /// The records that cannot be used, of clusters that this invocation did not read.
    fn unusable(&self) -> impl Iterator<Item = &UnusableRecord> {
        let others =
            self.records.iter().filter(|(cluster, _)| !self.overlay.contains_key(*cluster));
        others.flat_map(|(_, records)| &records.unusable)
    }

    /// All instances of the name that belong to the clusterset and can be imported, and those that cannot; `None` if a
    /// Cloud Map service of the name could not be read.
    fn instances(&self, name: &ServiceRef) -> Option<(Imported<'a>, Vec<(String, Skipped)>)> {
        let (mut all, mut skipped) = (Vec::new(), Vec::new());
        for key in self.places.get(name).into_iter().flatten() {
            let service = self.registry.services.get(*key)?;
            if service.unreadable.is_some() {
                return None;
            }
            for (id, attributes) in self.registry.instances(key) {
                match attributes::read(attributes, self.clusterset) {
                    Ok(instance) => all.extend(instance.map(|instance| (id, instance))),
                    Err(reason) => skipped.push((id.clone(), reason)),
                }
            }
        }
        Some((all, skipped))
    }

    /// The export of a member as Cloud Map has it; `None` if that is not known.
    fn of_registry(
        &self,
        cluster: &ClusterId,
        name: &ServiceRef,
        instances: &[(&String, ExportInstance)],
    ) -> Option<OfMember> {
        let none = Records::default();
        let records = self.records.get(cluster).unwrap_or(&none);
        if records.is_unread || records.unusable.iter().any(|it| it.record.may_be_of(name)) {
            return None;
        }
        let own: Vec<&(&String, ExportInstance)> =
            instances.iter().filter(|(_, it)| it.cluster == *cluster).collect();
        // Its record may have been written since the members were listed.
        let is_new = !self.is_complete && !self.records.contains_key(cluster);
        if is_new && own.iter().any(|(_, it)| it.is_marked) {
            return None;
        }
        let arn = records.exports.get(name).map(|record| record.owner.cluster.clone());
        let export = match records.exports.get(name) {
            Some(record) => Some(record.export.clone()),
            None => export_of_instances(cluster, &own),
        };
        let endpoints = own.into_iter().map(|(_, instance)| instance.endpoint.clone());
        Some(OfMember { arn, export: export.map(|export| (export, endpoints.collect())) })
    }
}

impl Overlay {
    fn member(&self, name: &ServiceRef) -> OfMember {
        let published = self.desired.services.get(name);
        let export = published.and_then(|published| {
            let exported = published.export.as_ref()?;
            let endpoints = published.endpoints.iter().flatten().filter(|endpoint| endpoint.ready);
            let endpoints = endpoints.flat_map(|it| endpoints_of(exported, it, self.arn.region()));
            Some((as_recorded(&exported.export), endpoints.collect()))
        });
        OfMember { arn: Some(self.arn.clone()), export }
    }
}
