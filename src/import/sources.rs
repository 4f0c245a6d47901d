//! The exports of all members and the endpoints of each: as this invocation read them in the clusters that it serves
//! ([`Overlay`]), and as Cloud Map has them for all others. The exports of a name are read and merged once for
//! all importing clusters (`named`), and each endpoint of a name has its `fate` for people. Addresses that may not be imported are left out for each of them, and so are those of
//! a cluster that was not heard of for long, while others have some. Pure.

mod fate;
mod named;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::plan::{Absent, Exported, ImportedEndpoint, PortKey, Read, Reason, Sources};
use crate::clusterset::members::{self, MemberRecords};
use crate::clusterset::merge::Merged;
use crate::clusterset::record::{self, ClusterRecord, ExportRecord, UnusableRecord};
use crate::clusterset::{attributes, id};
use crate::guard::Sighting;
use crate::model::{
    ClusterArn, ClusterId, ClustersetId, Family, Overlay, Owner, Registry, ServiceKey, ServiceRef,
    SignedDuration, Timestamp,
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
        lifetimes: &Lifetimes,
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
            Stale::of(cluster, is_read_there, records.cluster.as_ref()?, lifetimes)
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
    pub fn sighting_of(&self, cluster: &ClusterId) -> Option<Sighting> {
        Sighting::parse(self.records.get(cluster)?.sighting.as_ref()?)
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
        let expired = self.stale.iter().filter(|stale| stale.is_expired);
        leave(&mut by_cluster, &expired.map(|stale| stale.cluster.clone()).collect());
        let is_read = named.unread.is_none();
        let is_complete = is_read && self.is_complete && named.hidden.is_empty();
        let sources = Sources { by_cluster, is_complete, is_read };
        left_out.extend(named.left_out.iter().cloned());
        MergedName { named, sources, left_out }
    }

    /// Whether no service of a name was read, and a namespace that it can be in is not shown or was not listed whole: it
    /// may be out of sight, with endpoints that stand in imports.
    pub fn is_out_of_sight(&self, name: &ServiceRef) -> bool {
        let names = BTreeSet::from([name.clone()]);
        let mut keys = self.registry.keys_named(&names).peekable();
        let is_known = self.is_complete && keys.peek().is_some();
        let has_none = !self.places.contains_key(name);
        has_none && (!is_known || keys.any(|key| self.registry.is_unknown(&key)))
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
// than none. Only if the installation lets stale clusters expire, their endpoints leave an import, each while a living
// cluster has a ready one for the same ports. Their exports go on to count.

/// `STALE_CLUSTERS_AFTER` and `EXPIRE_CLUSTERS_AFTER`, at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    pub now: Timestamp,
    pub stale_after: SignedDuration,
    /// `None`: never.
    pub expire_after: Option<SignedDuration>,
}

/// A member that was not heard of for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    pub cluster: ClusterId,
    pub arn: ClusterArn,
    /// The last full sync of the cluster, up to some minutes.
    pub heartbeat: Timestamp,
    /// Whether its endpoints leave the imports in which others are ready.
    pub is_expired: bool,
}

impl Stale {
    /// `None` if the cluster was heard of, or need not be: it only imports. One that this invocation read itself is well,
    /// whatever its record says.
    fn of(
        cluster: &ClusterId,
        is_read_there: bool,
        record: &ClusterRecord,
        Lifetimes { now, stale_after, expire_after }: &Lifetimes,
    ) -> Option<Self> {
        let age = now.duration_since(record.heartbeat);
        (age > *stale_after && !record.only_imports && !is_read_there).then(|| Self {
            cluster: cluster.clone(),
            arn: record.owner.cluster.clone(),
            heartbeat: record.heartbeat,
            is_expired: expire_after.is_some_and(|after| age > after),
        })
    }
}

/// Takes the endpoints of expired clusters out, as far as living ones have ready endpoints of the same family for all of
/// their ports.
fn leave(by_cluster: &mut BTreeMap<ClusterId, Read>, expired: &BTreeSet<ClusterId>) {
    if expired.is_empty() {
        return;
    }
    let living = by_cluster.iter().filter(|(cluster, _)| !expired.contains(*cluster));
    let endpoints = living.filter_map(|(_, read)| match read {
        Read::Whole(exported) => Some(&exported.endpoints),
        Read::Unread | Read::Held(_) => None,
    });
    let ready = endpoints.flat_map(|it| it.iter()).filter(|endpoint| endpoint.ready);
    let served: BTreeSet<(Family, Option<PortKey>)> = ready.flat_map(served).collect();
    for (cluster, read) in by_cluster {
        if let (true, Read::Whole(exported)) = (expired.contains(cluster), read) {
            let Exported { endpoints, excluded, .. } = exported;
            let (endpoints, excluded) = (Arc::make_mut(endpoints), Arc::make_mut(excluded));
            endpoints.retain(|it| {
                let leaves = self::served(it).iter().all(|it| served.contains(it));
                excluded.extend(leaves.then_some((it.address, Absent::Expired)));
                !leaves
            });
        }
    }
}

/// What an endpoint serves: its family, for each of its ports, or for none.
fn served(endpoint: &ImportedEndpoint) -> Vec<(Family, Option<PortKey>)> {
    let family = Family::of(endpoint.address);
    let ports = endpoint.ports.keys().map(|port| (family, Some(*port)));
    let without = endpoint.ports.is_empty().then_some((family, None));
    ports.chain(without).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClustersetId, Flow, Owner, Protocol};

    fn id(name: &str) -> ClusterId {
        ClusterId::parse(name).expect("a cluster id")
    }

    #[test]
    fn cluster_is_stale_and_then_expired_by_the_age_of_its_heartbeat() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().expect("a time");
        let minutes = SignedDuration::from_mins;
        let arn = ClusterArn::parse("arn:aws:eks:eu-central-1:111122223333:cluster/green");
        let cluster = arn.expect("well formed");
        let owner = Owner { id: "cloud-map-sync".into(), cluster, flow: Flow::Exports };
        let clusterset = ClustersetId::parse("shop-set").expect("an id");
        for (age, expire_after, expected) in [
            (-5, Some(30), None),
            (15, Some(30), None),
            (16, Some(30), Some(false)),
            (16, None, Some(false)),
            (30, Some(30), Some(false)),
            (31, Some(30), Some(true)),
            (9999, None, Some(false)),
            // It expires no sooner than it is stale.
            (10, Some(5), None),
            (16, Some(5), Some(true)),
        ] {
            let heartbeat = now.checked_sub(minutes(age)).expect("a time");
            let (owner, clusterset) = (owner.clone(), clusterset.clone());
            let only_imports = false;
            let record = ClusterRecord { owner, clusterset, heartbeat, only_imports };
            let expire_after = expire_after.map(minutes);
            let lifetimes = Lifetimes { now, stale_after: minutes(15), expire_after };
            let stale = Stale::of(&id("green"), false, &record, &lifetimes);
            assert_eq!(stale.map(|it| it.is_expired), expected, "{age} {expire_after:?}");
            assert_eq!(Stale::of(&id("blue"), true, &record, &lifetimes), None, "it was read");
            let importer = ClusterRecord { only_imports: true, ..record };
            let stale = Stale::of(&id("green"), false, &importer, &lifetimes);
            assert_eq!(stale, None, "it only imports");
        }
    }

    /// Endpoints as `10.0.0.1:80,443 10.0.0.2!` (with ports, and one that is not ready).
    fn endpoints(text: &str) -> Vec<ImportedEndpoint> {
        let endpoint = |text: &str| {
            let (text, ready) = text.strip_suffix('!').map_or((text, true), |text| (text, false));
            let (address, ports) = text.split_once('/').unwrap_or((text, ""));
            let ports = ports.split(',').filter(|port| !port.is_empty());
            let ports = ports.map(|port| ((Protocol::Tcp, port.parse().expect("a port")), 8080));
            ImportedEndpoint {
                address: address.parse().expect("an address"),
                ready,
                is_leaving: false,
                hostname: None,
                node: None,
                zone: None,
                ports: ports.collect(),
            }
        };
        text.split_whitespace().map(endpoint).collect()
    }

    #[test]
    fn endpoint_of_an_expired_cluster_leaves_while_a_living_one_is_ready_for_all_its_ports() {
        for (living, expired, left) in [
            ("10.1.0.1/80", "10.0.0.1/80 10.0.0.2/80", ""),
            ("", "10.0.0.1/80", "10.0.0.1/80"),
            ("10.1.0.1/80!", "10.0.0.1/80", "10.0.0.1/80"),
            ("10.1.0.1/80", "10.0.0.1/80,443", "10.0.0.1/80,443"),
            ("10.1.0.1/80 10.1.0.2/443", "10.0.0.1/80,443", ""),
            ("10.1.0.1/80", "10.0.0.1/81 10.0.0.2/80", "10.0.0.1/81"),
            ("fd00::1/80", "10.0.0.1/80", "10.0.0.1/80"),
            // Headless, without ports.
            ("10.1.0.1", "10.0.0.1 fd00::2", "fd00::2"),
        ] {
            let whole = |text: &str| {
                Read::Whole(Exported { endpoints: endpoints(text).into(), ..Exported::default() })
            };
            let mut all = BTreeMap::from([
                (id("blue"), whole(living)),
                (id("green"), whole(expired)),
                (id("red"), Read::Unread),
            ]);
            leave(&mut all, &BTreeSet::from([id("green"), id("red")]));
            let left_in = |it: &Read| it.exported().map(|it| it.endpoints.to_vec());
            let expected = [Some(endpoints(living)), Some(endpoints(left)), None];
            let found: Vec<_> = all.values().map(left_in).collect();
            assert_eq!(found, expected, "{living} | {expired}");
            let stays = |it: IpAddr| endpoints(left).iter().any(|left| left.address == it);
            let reasons = endpoints(expired).into_iter().map(|it| it.address);
            let reasons = reasons.filter(|it| !stays(*it)).map(|it| (it, Absent::Expired));
            let excluded = all[&id("green")].exported().map(|it| BTreeMap::clone(&it.excluded));
            assert_eq!(excluded, Some(reasons.collect()), "{living} | {expired}");
        }
    }

    #[test]
    fn endpoints_of_clusters_that_all_expired_stay() {
        let exported =
            Exported { endpoints: endpoints("10.0.0.1/80").into(), ..Exported::default() };
        let before =
            BTreeMap::from(["blue", "green"].map(|it| (id(it), Read::Whole(exported.clone()))));
        let mut after = before.clone();
        leave(&mut after, &before.keys().cloned().collect());
        assert_eq!(after, before);
    }
}
