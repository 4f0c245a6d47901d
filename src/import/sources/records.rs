//! The records of one member, as Cloud Map has them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::clusterset::record::{self, ClusterRecord, ExportRecord, Record, UnusableRecord};
use crate::import::plan::{ImportedEndpoint, PortKey, Read};
use crate::model::attributes::SIGHTING;
use crate::model::clusterset::ClusterId;
use crate::model::{
    ClusterArn, Family, Registry, ServiceKey, ServiceRef, SignedDuration, Timestamp,
};

/// The records of one member.
#[derive(Default)]
pub(super) struct Records {
    pub exports: BTreeMap<ServiceRef, ExportRecord>,
    pub unusable: Vec<UnusableRecord>,
    /// Whether they could not be read.
    pub is_unread: bool,
    /// The record of the cluster itself.
    pub cluster: Option<ClusterRecord>,
    /// The loss of imports that the guard saw first, on the record of the cluster.
    pub sighting: Option<String>,
}

impl Records {
    pub fn read(registry: &Registry, key: &ServiceKey, cluster: &ClusterId) -> Self {
        let service = registry.services.get(key);
        let is_unread = service.is_some_and(|service| service.unreadable.is_some());
        let mut records = Self { is_unread, ..Self::default() };
        for (id, attributes) in registry.instances(key) {
            match record::read(cluster, id, attributes) {
                Ok(Some(Record::Export(record))) => {
                    records.exports.insert(record.service.clone(), record);
                }
                Ok(Some(Record::Cluster(record))) => {
                    records.cluster = Some(record);
                    records.sighting = attributes.get(SIGHTING).map(str::to_owned);
                }
                Ok(None) => {}
                Err(unusable) => records.unusable.push(unusable),
            }
        }
        records
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
    /// The members that this invocation read itself: they are well, whatever their records say.
    pub read: BTreeSet<ClusterId>,
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
    /// `None` if the cluster was heard of, or need not be: it only imports.
    pub fn of(cluster: &ClusterId, record: &ClusterRecord, lifetimes: &Lifetimes) -> Option<Self> {
        let Lifetimes { now, stale_after, expire_after, read } = lifetimes;
        let age = now.duration_since(record.heartbeat);
        (age > *stale_after && !record.only_imports && !read.contains(cluster)).then(|| Self {
            cluster: cluster.clone(),
            arn: record.owner.cluster.clone(),
            heartbeat: record.heartbeat,
            is_expired: expire_after.is_some_and(|after| age > after),
        })
    }
}

/// Takes the endpoints of expired clusters out, as far as living ones have ready endpoints of the same family for all of
/// their ports.
pub(super) fn leave(by_cluster: &mut BTreeMap<ClusterId, Read>, expired: &BTreeSet<ClusterId>) {
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
            let endpoints = Arc::make_mut(&mut exported.endpoints);
            endpoints.retain(|it| !self::served(it).iter().all(|it| served.contains(it)));
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
    use crate::import::plan::Exported;
    use crate::model::clusterset::{ClustersetId, Protocol};
    use crate::model::{Flow, Owner};

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
            let (stale_after, read) = (minutes(15), BTreeSet::from([id("blue")]));
            let lifetimes = Lifetimes { now, stale_after, expire_after, read };
            let stale = Stale::of(&id("green"), &record, &lifetimes);
            assert_eq!(stale.map(|it| it.is_expired), expected, "{age} {expire_after:?}");
            assert_eq!(Stale::of(&id("blue"), &record, &lifetimes), None, "it was read");
            let importer = ClusterRecord { only_imports: true, ..record };
            assert_eq!(Stale::of(&id("green"), &importer, &lifetimes), None, "it only imports");
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
            let expected = [whole(living), whole(left), Read::Unread];
            assert_eq!(all.into_values().collect::<Vec<_>>(), expected, "{living} | {expired}");
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
