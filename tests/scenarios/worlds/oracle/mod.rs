//! What is right, by rules of its own: `publish` has what Cloud Map may hold at rest, `invariants` what holds at every
//! moment, and `clusterset` both for exports and imports. All read the registry and the clusters as they are, without
//! the function.

pub mod clusterset;
pub mod guard;
pub mod invariants;
pub mod publish;

use std::collections::{BTreeMap, BTreeSet};

use super::world::{AMBER, CLUSTERS, Claim, Service, World, addresses};
use crate::fleet::{Attributes, Fleet};
use testbed::cloud_map::RecordType;

/// A Cloud Map service by its namespace's id and its own name.
pub type Key = (String, String);

/// The Cloud Map services with what is in them.
pub type Registry = BTreeMap<Key, Held>;

/// The most instances of a Cloud Map service.
pub const MOST: usize = 1000;
/// And all in a namespace.
pub const MOST_IN_NAMESPACE: usize = 2000;

/// A Cloud Map service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub is_tagged: bool,
    pub records: Option<Vec<RecordType>>,
    pub ttls: BTreeSet<i64>,
    pub instances: BTreeMap<String, Attributes>,
}

/// The registry as it is now.
pub fn registry(fleet: &Fleet, world: &World) -> Registry {
    let namespaces = world.namespaces.iter().filter(|it| !it.is_withdrawn).map(|it| &it.id);
    let services = namespaces.flat_map(|id| {
        fleet.cloud_map.services(id).into_iter().map(move |view| (id.clone(), view))
    });
    let held = services.map(|(id, view)| {
        let held = Held {
            is_tagged: view.tags.get("cloud-map-sync/owner").map(String::as_str)
                == Some(world.settings.owner),
            ttls: view.dns.iter().flat_map(|dns| dns.records.iter().map(|(_, it)| *it)).collect(),
            records: view.dns.map(|dns| dns.records.into_iter().map(|(it, _)| it).collect()),
            instances: fleet.cloud_map.instances(&view.id),
        };
        ((id, view.name), held)
    });
    held.collect()
}

/// The number of the cluster and the name of the Service whose marks an instance has, if it is ours.
pub fn marks<'a>(world: &World, attributes: &'a Attributes) -> Option<(usize, &'a str)> {
    let mark = |key: &str| attributes.get(&format!("cloud-map-sync/{key}")).map(String::as_str);
    if mark("owner") != Some(world.settings.owner) {
        return None;
    }
    let name = mark("cluster")?.rsplit('/').next()?;
    let cluster = CLUSTERS.iter().position(|it| *it == name)?;
    Some((cluster, mark("service").unwrap_or_default()))
}

/// Whether an instance is ours, of the cluster that is gone.
pub fn is_of_amber(world: &World, attributes: &Attributes) -> bool {
    let mark = |key: &str| attributes.get(&format!("cloud-map-sync/{key}")).map(String::as_str);
    mark("owner") == Some(world.settings.owner)
        && mark("cluster").is_some_and(|it| it.ends_with(&format!("/{AMBER}")))
}

/// The addresses of an instance.
pub fn addresses_of(attributes: &Attributes) -> impl Iterator<Item = &String> {
    ["AWS_INSTANCE_IPV4", "AWS_INSTANCE_IPV6"].into_iter().filter_map(|key| attributes.get(key))
}

/// Whether the function serves a cluster.
pub fn is_served(world: &World, cluster: usize) -> bool {
    world.settings.clusters.contains(CLUSTERS[cluster])
}

/// The clusters that the function serves.
pub fn served(world: &World) -> impl Iterator<Item = usize> {
    (0..CLUSTERS.len()).filter(|it| is_served(world, *it))
}

/// Those under a name.
pub fn of<'a, K: Ord>(all: &'a BTreeMap<K, BTreeSet<String>>, name: &K) -> &'a BTreeSet<String> {
    static NONE: BTreeSet<String> = BTreeSet::new();
    all.get(name).unwrap_or(&NONE)
}

/// Every instance, with its id and the service that has it.
pub fn instances(registry: &Registry) -> impl Iterator<Item = (&Key, &Held, &String, &Attributes)> {
    registry.iter().flat_map(|(key, held)| {
        held.instances.iter().map(move |(id, attributes)| (key, held, id, attributes))
    })
}

pub fn instance<'a>(registry: &'a Registry, key: &Key, id: &str) -> Option<&'a Attributes> {
    registry.get(key)?.instances.get(id)
}

/// The Services of a cluster that opt in, under the prefix that the function reads.
pub fn opted_in(world: &World, cluster: usize) -> impl Iterator<Item = (usize, &Service)> {
    let of_cluster = world.services.iter().filter(move |((of, _), _)| *of == cluster);
    let all = of_cluster.map(|((_, name), service)| (*name, service));
    all.filter(|(_, service)| service.prefix == world.settings.prefix)
}

/// The keys that a claim may mean, in every namespace that it may mean.
pub fn possible_keys(world: &World, claim: &Claim) -> BTreeSet<Key> {
    let ids: Vec<String> = world.candidates(claim).into_iter().map(|it| it.id.clone()).collect();
    let names = claim.names.iter().filter(|it| world.allows(it));
    names.flat_map(|name| ids.iter().map(move |id| (id.clone(), (*name).to_owned()))).collect()
}

/// An endpoint as the function may see it: its addresses of the families that its Service shows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    pub v4: Option<String>,
    pub v6: Option<String>,
    /// Whether both addresses are one endpoint.
    pub is_pod: bool,
}

/// The endpoints of a Service: those that are ready, or those that serve while they terminate.
pub fn endpoints(cluster: usize, service: &Service, are_terminating: bool) -> Vec<Seen> {
    let shows = |family| !service.has_selector || service.families.contains(&family);
    let fitting = service.endpoints.iter();
    let fitting = fitting.filter(|(_, it)| it.is_ready && it.is_terminating == are_terminating);
    let seen = fitting.map(|(number, endpoint)| {
        let (v4, v6) = addresses(cluster, *number);
        Seen {
            v4: Some(v4).filter(|_| endpoint.has_v4 && shows("IPv4")),
            v6: Some(v6).filter(|_| endpoint.has_v6 && shows("IPv6")),
            is_pod: endpoint.is_pod || service.has_selector,
        }
    });
    seen.filter(|it| it.v4.is_some() || it.v6.is_some()).collect()
}
