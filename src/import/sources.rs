//! The exports and endpoints of all members. Each member has one source: the cluster itself if the function publishes
//! its exports ([`ReadExports`]), otherwise Cloud Map. If the run has not read a served cluster, its exports are
//! unknown, and its part of each import stays unchanged.
//!
//! The exports of a name are collected and merged once for all importing clusters (`named_exports`). The addresses that
//! a cluster may not import are left out for this cluster alone. `fate` describes for people what a sync does with each
//! endpoint of a name. Pure.

mod fate;
mod named_exports;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::plan::{Read, Reason, Sources};
use crate::clusterset::members::{MemberRecords, ReadClusterset, Served};
use crate::clusterset::merge::Merged;
use crate::clusterset::record::{self, ClusterRecord, ExportRecord, UnusableRecord};
use crate::clusterset::{attributes, id};
use crate::model::{
    ClusterArn, ClusterId, ClustersetId, Member, NamePolicy, Owner, ReadExports, ServiceKey,
    ServiceRef, Timestamp,
};
use named_exports::NamedExports;

pub use named_exports::ExportsForImporter;

/// The members of a clusterset, and everything that this run knows about their exports.
pub struct Members<'a> {
    read: &'a ReadClusterset,
    clusterset: &'a ClustersetId,
    served: &'a Served,
    /// The stale members. A member that this invocation read itself is never stale.
    pub stale: Vec<Stale>,
    /// The records of each member, as Cloud Map has them.
    records: BTreeMap<ClusterId, MemberRecords>,
    /// The Cloud Map services of each name, without those of records.
    service_keys: BTreeMap<ServiceRef, Vec<&'a ServiceKey>>,
    /// The Cloud Map services in the namespace of the records whose names are not cluster ids. They are not members.
    pub unparsable_services: Vec<String>,
    /// The result of [`Self::has_silent_member_without_a_record`], computed once.
    has_silent: OnceLock<bool>,
    /// The result of [`Self::names`], computed once.
    names: OnceLock<BTreeSet<ServiceRef>>,
    /// The exports of each name that was requested.
    exports_by_name: Mutex<BTreeMap<ServiceRef, Arc<NamedExports>>>,
}

impl<'a> Members<'a> {
    /// Whether a second pass of the run may read clusters that this pass has not read.
    pub fn may_read_more(&self) -> bool {
        self.served.may_read_more
    }

    /// Returns all members, as the served clusters and Cloud Map show them.
    pub fn new(
        read: &'a ReadClusterset,
        clusterset: &'a ClustersetId,
        served: &'a Served,
        stale_before: Timestamp,
    ) -> Self {
        let registry = &read.registry;
        let mut records: BTreeMap<ClusterId, MemberRecords> = BTreeMap::new();
        let mut service_keys = BTreeMap::<_, Vec<_>>::new();
        let mut unparsable_services = Vec::new();
        let record_namespace = record::namespace(clusterset);
        for (key, service) in &registry.services {
            let Some(namespace) = registry.namespaces.get(&key.namespace) else { continue };
            if namespace.name == record_namespace {
                match ClusterId::parse(&service.name) {
                    Some(cluster) => {
                        records.entry(cluster.clone()).or_default().add(registry, key, &cluster);
                    }
                    None => {
                        unparsable_services.push(format!("{}/{}", namespace.name, service.name));
                    }
                }
            } else if !record::is_namespace(&namespace.name) {
                // In a DNS namespace another party may have spelled the service `Web`; the name of the key is `web`.
                let name = ServiceRef::new(&namespace.name, &key.name);
                service_keys.entry(name).or_default().push(key);
            }
        }
        let stale = records.iter().filter_map(|(cluster, records)| {
            let record = records.cluster.as_ref()?;
            let read = served.read.get(cluster);
            let is_read_in_cluster = read.is_some_and(|read| read.arn == record.owner.cluster);
            Stale::of(cluster, is_read_in_cluster, record, stale_before)
        });
        Self {
            read,
            clusterset,
            served,
            stale: stale.collect(),
            records,
            service_keys,
            unparsable_services,
            has_silent: OnceLock::new(),
            names: OnceLock::new(),
            exports_by_name: Mutex::default(),
        }
    }

    /// Returns the only source of a cluster's exports, which is the same in every run. Two sources would disagree:
    /// Cloud Map may lag, refuse an endpoint or lack a record, and a run that used it would remove endpoints that the
    /// cluster itself has.
    fn source(&self, cluster: &ClusterId) -> Source<'a> {
        let read = self.served.read.get(cluster);
        match self.owner_of_id(cluster) {
            Some(owner) if self.served.is_exporting_owner(owner) => {
                Source::Cluster(read.filter(|read| read.arn == owner.cluster))
            }
            // An exporter states this id, and the records name another owner or none. The exports under the id may be
            // those of the exporter, which the run never reads from Cloud Map, so they are unknown.
            _ if self.served.is_id_of_exporter(cluster) => Source::Cluster(None),
            // Only a record shows which cluster owns an id. Without one, a served cluster that did not answer may own
            // it.
            None if self.has_silent_member_without_a_record() => Source::Cluster(None),
            _ => Source::CloudMap,
        }
    }

    /// Returns the exports that this run has read in a cluster, if that read covers a name.
    fn read_in_cluster(&self, cluster: &ClusterId, name: &ServiceRef) -> Option<&'a ReadExports> {
        let Source::Cluster(read) = self.source(cluster) else { return None };
        read.filter(|read| read.covers(name))
    }

    /// Whether this run has read the cluster itself, and so knows whether the cluster exports the name.
    pub fn is_read_in_cluster(&self, cluster: &ClusterId, name: &ServiceRef) -> bool {
        self.read_in_cluster(cluster, name).is_some()
    }

    /// Returns the present id of the served cluster that owns a former id, if this run has read the cluster under its
    /// present id.
    fn present_id_of(&self, former: &ClusterId) -> Option<&'a ClusterId> {
        let owner =
            self.owner_of_id(former).filter(|owner| self.served.is_exporting_owner(owner))?;
        let mut others = self.served.read.iter().filter(|(id, _)| *id != former);
        others.find(|(_, read)| read.arn == owner.cluster).map(|(id, _)| id)
    }

    /// Whether the owner of a former id has given it up: the owner has export records under its present id.
    fn has_given_up_id(&self, former: &ClusterId) -> bool {
        self.present_id_of(former).is_some_and(|present| {
            let records = self.records.get(present);
            self.owner_of_id(present) == self.owner_of_id(former)
                && records.is_some_and(|records| !records.exports.is_empty())
        })
    }

    /// Whether Cloud Map is the source of a cluster's exports.
    fn is_of_cloud_map(&self, cluster: &ClusterId) -> bool {
        matches!(self.source(cluster), Source::CloudMap)
    }

    /// Returns the owner of a cluster id, from the cluster record as it was last read.
    pub fn owner_of_id(&self, cluster: &ClusterId) -> Option<&Owner> {
        let recorded = self.records.get(cluster).and_then(|records| records.id_owner.as_ref());
        recorded.or_else(|| self.read.id_owners.get(cluster))
    }

    /// Returns another id that a cluster owns. It may be the cluster's former id.
    pub fn other_id_of(&self, owner: &Owner, member: &Member) -> Option<&ClusterId> {
        let recorded = self.records.iter();
        let recorded = recorded.filter_map(|(id, records)| Some((id, records.id_owner.as_ref()?)));
        let mut owned = recorded.chain(&self.read.id_owners);
        owned.find(|(id, id_owner)| **id != member.cluster && *id_owner == owner).map(|(id, _)| id)
    }

    /// Whether there is a served exporter that did not answer and whose id no record shows. Any part of an import may
    /// then belong to that cluster.
    fn has_silent_member_without_a_record(&self) -> bool {
        *self.has_silent.get_or_init(|| self.silent_without_a_record().next().is_some())
    }

    /// Lists the served exporters that did not answer and whose id no record shows. [`Sources`] has no entry for them,
    /// since its keys are cluster ids.
    pub fn silent_without_a_record(&self) -> impl Iterator<Item = &ClusterArn> {
        let recorded = self.records.values().filter_map(|records| records.id_owner.as_ref());
        let owners = recorded.chain(self.read.id_owners.values());
        let recorded: BTreeSet<&ClusterArn> = owners.map(|owner| &owner.cluster).collect();
        self.served.silent.iter().filter(move |arn| !recorded.contains(arn))
    }

    /// Whether Cloud Map could not be read. Only the exports of served clusters are then known.
    pub fn is_unread(&self) -> bool {
        self.read.problem.is_some()
    }

    /// Whether the registry shows the cluster record of a member, or this run has written it. Otherwise this may be the
    /// wrong Cloud Map for the member's imports.
    fn has_own_record(&self, member: &Member, owner: &Owner) -> bool {
        self.shows_own_record(member, owner) || self.is_accepted_now(member, owner)
    }

    fn shows_own_record(&self, member: &Member, owner: &Owner) -> bool {
        let records = self.records.get(&member.cluster);
        records.is_some_and(|records| records.id_owner.as_ref() == Some(owner))
    }

    /// Whether this run has written the cluster record of a member, or in a plan would write it, and the registry does
    /// not show it yet.
    ///
    /// Say all services of a Cloud Map were deleted, and a person confirmed this for one function. The records of
    /// another function's clusters return once it is confirmed for that function, too. This run leaves the parts of
    /// those clusters in the imports, so the imports keep their IPs.
    fn is_accepted_now(&self, member: &Member, owner: &Owner) -> bool {
        self.read.written_or_planned.contains(&member.cluster)
            && !self.shows_own_record(member, owner)
    }

    /// Lists a sentence for each member whose records could not be read.
    pub fn unread_records(&self) -> impl Iterator<Item = String> {
        let all = self.records.iter();
        all.filter_map(|(id, records)| {
            Some(format!("records of {id}: {}", records.unread.as_ref()?))
        })
    }

    /// Returns every name that a member exports or may export, as far as this run has read the members.
    pub fn names(&self) -> &BTreeSet<ServiceRef> {
        self.names.get_or_init(|| {
            let read = self.served.read.iter().flat_map(|(cluster, read)| {
                let names = read.desired.services.keys();
                names.filter(|name| self.is_read_in_cluster(cluster, name))
            });
            let recorded = self.records.iter().filter(|(cluster, _)| self.is_of_cloud_map(cluster));
            let recorded = recorded.flat_map(|(_, records)| records.exports.keys());
            let is_exported = |key: &&ServiceKey| {
                let mut instances =
                    self.read.registry.instances(key).map(|(_, attributes)| attributes);
                instances.any(|attributes| attributes::is_exported_to(attributes, self.clusterset))
            };
            let with_instances =
                self.service_keys.iter().filter(|(_, keys)| keys.iter().any(is_exported));
            let unusable = self.unusable().filter_map(|record| record.service.as_ref());
            let names = read.chain(recorded).chain(unusable);
            names.chain(with_instances.map(|(name, _)| name)).cloned().collect()
        })
    }

    /// Returns the name whose import has this derived Service, if Cloud Map has a service of that name.
    pub fn name_of(&self, derived: &ServiceRef) -> Option<&ServiceRef> {
        let mut names = self.service_keys.keys().filter(|name| name.namespace == derived.namespace);
        names.find(|name| id::derived_service(name) == derived.name)
    }

    /// Merges all exports of a name. Returns `None` if a member that may export the name was not read.
    pub fn merged(&self, name: &ServiceRef) -> Option<Arc<Merged>> {
        self.exports_of(name).merged_if_complete()
    }

    /// Returns the exports of one name for an importing cluster. `in_import` has the clusters with a part in its
    /// import.
    pub fn exports_for(
        &self,
        name: &ServiceRef,
        importer: &Importer<'_>,
        in_import: &BTreeSet<ClusterId>,
    ) -> ExportsForImporter {
        let Importer { member, owner, .. } = *importer;
        let named = self.exports_of(name);
        let mut left_out = Vec::new();
        let mut by_cluster = BTreeMap::new();
        for (cluster, export) in &named.members {
            let read = match export {
                None => Read::Unread,
                Some(export) => {
                    let allows = |address| importer.allows(&name.namespace, address);
                    let (endpoints, denied) = export.endpoints_for(&owner.cluster, allows);
                    if !denied.is_empty() {
                        let cluster = cluster.clone();
                        left_out.push(Reason::AddressNotAllowed { cluster, addresses: denied });
                    }
                    let is_hidden = named.hidden.contains(cluster);
                    if is_hidden { Read::Held(endpoints) } else { Read::Whole(endpoints) }
                }
            };
            by_cluster.insert(cluster.clone(), read);
        }
        let is_read = named.unread.is_none();
        let is_complete = is_read
            && self.read.has_all_members
            && named.hidden.is_empty()
            && !self.has_silent_member_without_a_record();
        let mut sources = Sources { by_cluster, is_complete, is_read };
        // A cluster with a part in the import may export the name although no read shows it. Either the run has not
        // read the service of the name, which alone shows the exports of AWS's controller. Or the records of the
        // cluster return later.
        let is_out_of_sight = self.is_out_of_sight(name);
        let is_accepted_now = self.is_accepted_now(member, owner);
        for cluster in in_import.iter().filter(|_| is_out_of_sight || is_accepted_now) {
            sources.by_cluster.entry(cluster.clone()).or_insert(Read::Unread);
        }
        if !self.has_own_record(member, owner) {
            sources.mark_cloud_map_unread();
        }
        left_out.extend(named.left_out.iter().cloned());
        ExportsForImporter { named, sources, left_out }
    }

    /// Whether Cloud Map may have a service of the name although this run knows none: members may be missing in its
    /// read, or it knows no Cloud Map namespace for the name.
    pub fn is_out_of_sight(&self, name: &ServiceRef) -> bool {
        let names = BTreeSet::from([name.clone()]);
        let is_namespace_unknown = self.read.registry.keys_of_same_name(&names).next().is_none();
        let may_exist = is_namespace_unknown || !self.read.has_all_members;
        may_exist && !self.service_keys.contains_key(name)
    }

    /// Whether the registry could be read but lacks the cluster record of a member.
    pub fn lacks_own_record(&self, member: &Member, owner: &Owner) -> bool {
        !self.is_unread() && !self.has_own_record(member, owner)
    }

    /// Whether the record of an export says that Cloud Map has none of its endpoints.
    fn is_empty(&self, cluster: &ClusterId, name: &ServiceRef) -> bool {
        self.record_of(cluster, name).is_some_and(|record| record.is_empty)
    }

    /// The record of an export. Exports of AWS's controller have none.
    pub fn record_of(&self, cluster: &ClusterId, name: &ServiceRef) -> Option<&ExportRecord> {
        self.records.get(cluster)?.exports.get(name)
    }

    /// Returns the exports of a name. They are computed once for all importing clusters.
    fn exports_of(&self, name: &ServiceRef) -> Arc<NamedExports> {
        let mut computed = self.exports_by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let exports = computed.entry(name.clone());
        Arc::clone(exports.or_insert_with(|| Arc::new(NamedExports::read(self, name))))
    }

    /// The unusable records of the members whose source is Cloud Map.
    fn unusable(&self) -> impl Iterator<Item = &UnusableRecord> {
        let all = self.records.values().flat_map(|records| &records.unusable);
        all.filter(|record| self.is_of_cloud_map(&record.cluster))
    }
}

/// The source of a cluster's exports.
enum Source<'a> {
    /// The cluster itself; `None` if this run has not read it.
    Cluster(Option<&'a ReadExports>),
    CloudMap,
}

/// A cluster that imports.
#[derive(Clone, Copy)]
pub struct Importer<'a> {
    pub member: &'a Member,
    /// The owner of its records and of its cluster id.
    pub owner: &'a Owner,
    pub name_policy: Option<&'a NamePolicy>,
}

impl Importer<'_> {
    /// Whether `NAME_POLICY` allows an address in the imports of a Kubernetes namespace. Only the address ranges of its
    /// rule count.
    fn allows(&self, namespace: &str, address: IpAddr) -> bool {
        let rule = self.name_policy.and_then(|policy| policy.rule(&self.owner.cluster, namespace));
        rule.is_none_or(|rule| rule.allows_address(address))
    }
}

// Stale members. Every full sync of a member updates the heartbeat in its cluster record, accurate to some minutes. A
// cluster of AWS's controller has no record, and its age is unknown.
//
// A stale cluster is reported, and its endpoints stay in the imports. Their addresses may still be right, and a
// possibly wrong address is better than none.

/// A member whose heartbeat is too old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    pub cluster: ClusterId,
    pub arn: ClusterArn,
    /// The time of the cluster's last full sync, accurate to some minutes.
    pub heartbeat: Timestamp,
}

impl Stale {
    /// Returns `None` if the heartbeat is recent, if the cluster only imports and so needs none, or if this invocation
    /// read the cluster itself, whatever its record says.
    fn of(
        cluster: &ClusterId,
        is_read_in_cluster: bool,
        record: &ClusterRecord,
        stale_before: Timestamp,
    ) -> Option<Self> {
        let is_stale = record.heartbeat < stale_before;
        (is_stale && !record.only_imports && !is_read_in_cluster).then(|| Self {
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
