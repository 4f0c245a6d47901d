//! The endpoints of one Service, from its `EndpointSlices` or from its v1 Endpoints.
//!
//! Endpoints are kept whether they are ready or not: the plan decides which are registered. Slices are split by IP
//! family, by ports and by size, so several slices may list the same pod; its entries are merged. Anyone who may write
//! slices may write any number of them, so the endpoints of a Service are cut to [`ENDPOINTS_OF_SERVICE`] while its
//! slices are read.

use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, Endpoints as CoreEndpoints};
use k8s_openapi::api::discovery::v1::EndpointConditions;

use super::object::{EndpointSlice, ObjectPort, SliceEntry, TargetRef, parse_address};
use crate::model::{
    ENDPOINTS_OF_SERVICE, Endpoint, Health, NoAddress, PORTS_OF_ENDPOINT, fingerprint,
    is_dns_subdomain, is_label_word,
};

/// The address type of slices with host names.
const FQDN: &str = "FQDN";
/// The annotation of an Endpoints object whose addresses are truncated (value `truncated`). Before Kubernetes 1.22 its
/// value was `warning`, and nothing was truncated.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// The endpoints of one Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Endpoints {
    pub all: Vec<Endpoint>,
    /// Whether the cluster has truncated the endpoints.
    pub truncated: bool,
    /// The number of endpoints beyond [`ENDPOINTS_OF_SERVICE`], which are left out.
    pub left_out: usize,
}

impl FromIterator<EndpointSlice> for Endpoints {
    fn from_iter<S: IntoIterator<Item = EndpointSlice>>(slices: S) -> Self {
        let mut collected = CollectedEndpoints::default();
        slices.into_iter().for_each(|slice| collected.add(slice));
        collected.finish()
    }
}

/// The endpoints of a Service while its slices are read. Endpoints with a serving entry take precedence over the
/// others. While a pod moves between slices, its entries may differ: one serving entry is enough, and the other entries
/// only add addresses and ports.
#[derive(Debug, Default)]
pub struct CollectedEndpoints {
    serving: FirstEndpoints,
    others: FirstEndpoints,
    truncated: bool,
}

impl CollectedEndpoints {
    /// Adds the endpoints of a slice.
    pub fn add(&mut self, slice: EndpointSlice) {
        self.truncated |= is_over_capacity(&slice.metadata.annotations);
        let ports = slice.ports.iter();
        let ports = ports.filter_map(|port| Some((port.name.clone(), port.number()?)));
        let ports: Ports = Arc::new(limited(ports.collect()));
        let is_fqdn = slice.address_type == FQDN;
        for entry in slice.endpoints {
            let Some((key, endpoint)) = from_entry(entry, is_fqdn, &ports) else { continue };
            let is_serving = is_serving(&endpoint);
            let endpoints = if is_serving { &mut self.serving } else { &mut self.others };
            endpoints.add(key, endpoint);
        }
    }

    /// Returns the endpoints of all added slices.
    pub fn finish(self) -> Endpoints {
        let Self { mut serving, mut others, truncated } = self;
        serving.limit(ENDPOINTS_OF_SERVICE);
        let capacity = ENDPOINTS_OF_SERVICE - serving.kept.len().min(ENDPOINTS_OF_SERVICE);
        let mut kept = serving.kept;
        let mut left_out = serving.left_out;
        others.kept = std::mem::take(&mut others.kept)
            .into_iter()
            .filter_map(|(key, other)| match kept.get_mut(&key) {
                Some(known) => {
                    add_parts(known, other);
                    None
                }
                None => Some((key, other)),
            })
            .collect();
        others.limit(capacity);
        kept.append(&mut others.kept);
        left_out.append(&mut others.left_out);
        if !left_out.is_empty() {
            for key in kept.keys() {
                left_out.remove(&key.rank());
            }
        }
        Endpoints { all: kept.into_values().collect(), truncated, left_out: left_out.len() }
    }
}

/// The first endpoints by rank, and the ranks of the others.
///
/// The rank is a hash. If endpoints were ranked by name or age, the pods of one rollout or node would come first, and
/// an update of these pods would replace everything that is registered.
#[derive(Debug, Default)]
struct FirstEndpoints {
    kept: BTreeMap<EndpointKey, Endpoint>,
    /// The highest rank that is kept. `None` while no endpoint was left out.
    highest: Option<u64>,
    /// The ranks of the endpoints that were left out.
    left_out: BTreeSet<u64>,
}

impl FirstEndpoints {
    fn add(&mut self, key: EndpointKey, endpoint: Endpoint) {
        if let Some(highest) = self.highest {
            let rank = key.rank();
            if rank > highest {
                self.left_out.insert(rank);
                return;
            }
        }
        match self.kept.entry(key) {
            Vacant(vacant) => _ = vacant.insert(endpoint),
            Occupied(mut known) => merge_entry(known.get_mut(), endpoint),
        }
        // A small Service never needs the ranks.
        if self.kept.len() >= 2 * ENDPOINTS_OF_SERVICE {
            self.limit(ENDPOINTS_OF_SERVICE);
        }
    }

    fn limit(&mut self, maximum: usize) {
        if self.kept.len() <= maximum {
            return;
        }
        let mut ranks: Vec<u64> = self.kept.keys().map(EndpointKey::rank).collect();
        ranks.sort_unstable();
        let left_out = ranks.split_off(maximum);
        self.highest = Some(ranks.last().copied().unwrap_or_default());
        self.left_out.extend(&left_out);
        self.kept.retain(|key, _| !self.left_out.contains(&key.rank()));
    }
}

/// Whether an object says that its addresses are truncated. The endpoints controller truncates an Endpoints object at
/// 1,000 addresses and annotates it. Slices have no such limit, but a slice that is mirrored from an Endpoints object
/// has its annotations.
fn is_over_capacity(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(OVER_CAPACITY).is_some_and(|capacity| capacity == "truncated")
}

/// The ports of all endpoints of one slice.
type Ports = Arc<BTreeMap<String, u16>>;

/// The identity of an endpoint: its pod, or else its address, since objects of other kinds may have many addresses.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EndpointKey {
    Pod(TargetRef),
    Address(Result<IpAddr, Box<str>>),
}

impl EndpointKey {
    /// Returns a number that is evenly distributed and the same in every run.
    fn rank(&self) -> u64 {
        let hash = match self {
            Self::Pod(pod) => {
                let parts = [&pod.namespace, &pod.name, &pod.uid];
                fingerprint::<8>(&parts.map(|part| part.as_deref().unwrap_or_default()))
            }
            Self::Address(Ok(address)) => fingerprint::<8>(&[&address.to_string()]),
            Self::Address(Err(text)) => fingerprint::<8>(&[text]),
        };
        u64::from_str_radix(&hash, 16).unwrap_or_default()
    }
}

/// Converts an entry of a slice; `None` if it has no address. A missing `ready` is true, and a missing `terminating` is
/// false. A missing `serving` is `ready`, or true if the endpoint is terminating.
fn from_entry(entry: SliceEntry, is_fqdn: bool, ports: &Ports) -> Option<(EndpointKey, Endpoint)> {
    let address = match entry.address? {
        // In a slice of host names, a text that parses as an address is a host name too.
        Ok(address) if is_fqdn => Err(address.to_string().into()),
        address => address,
    };
    let (ipv4, ipv6, malformed) = match &address {
        Ok(IpAddr::V4(v4)) => (Some(*v4), None, None),
        Ok(IpAddr::V6(v6)) => (None, Some(*v6), None),
        Err(text) if is_fqdn => (None, None, Some(NoAddress::HostName(text.clone()))),
        Err(text) => (None, None, Some(NoAddress::Malformed(text.clone()))),
    };
    let EndpointConditions { ready, serving, terminating } = entry.conditions;
    let ready = ready.unwrap_or(true);
    let terminating = terminating.unwrap_or(false);
    let serving = serving.unwrap_or(ready || terminating);
    let pod = entry.target_ref.filter(|target| target.is_pod() && target.name.is_some());
    let name = pod.as_ref().and_then(|pod| pod.name.clone());
    let key = pod.map_or_else(|| EndpointKey::Address(address), EndpointKey::Pod);
    let [pod, zone, node, hostname] =
        [name, entry.zone, entry.node_name, entry.hostname].map(|text| text.map(String::from));
    // A node's zone is the value of a label. The API server accepts any text from a writer of slices, and Cloud Map
    // would refuse the pod's instance if the text is not a valid attribute.
    let zone = zone.filter(|zone| zone.is_empty() || is_label_word(zone));
    // As with the zone, a text that cannot be the name of a pod is dropped.
    let pod = pod.filter(|name| is_dns_subdomain(name));
    let ports = ports.clone();
    let endpoint = Endpoint {
        pod,
        ipv4,
        ipv6,
        malformed,
        zone,
        ready,
        serving,
        terminating,
        hostname,
        node,
        ports,
    };
    Some((key, endpoint))
}

/// Converts a v1 Endpoints object, which has neither zones nor terminating pods.
pub fn from_core(core: &CoreEndpoints) -> Endpoints {
    let slices = core.subsets.iter().flatten().map(|subset| {
        let entry = |address: &EndpointAddress, ready| SliceEntry {
            address: Some(parse_address(&address.ip)),
            conditions: EndpointConditions { ready: Some(ready), ..Default::default() },
            target_ref: address.target_ref.as_ref().map(TargetRef::from),
            ..SliceEntry::default()
        };
        let ready = subset.addresses.iter().flatten().map(|address| entry(address, true));
        let others =
            subset.not_ready_addresses.iter().flatten().map(|address| entry(address, false));
        let ports = subset.ports.iter().flatten().map(|port| {
            let name = port.name.clone().unwrap_or_default();
            let port = Some(port.port);
            ObjectPort { name, port, ..ObjectPort::default() }
        });
        let endpoints = ready.chain(others).collect();
        let ports = ports.collect();
        EndpointSlice { endpoints, ports, ..EndpointSlice::default() }
    });
    let truncated = core.metadata.annotations.as_ref().is_some_and(is_over_capacity);
    Endpoints { truncated, ..slices.collect() }
}

fn is_serving(endpoint: &Endpoint) -> bool {
    endpoint.health() != Health::NotReady
}

fn merge_entry(known: &mut Endpoint, entry: Endpoint) {
    if is_serving(&entry) || !is_serving(known) {
        known.ready |= entry.ready;
        known.serving |= entry.serving;
        known.terminating &= entry.terminating;
    }
    add_parts(known, entry);
}

/// Adds the addresses, ports, pod and zone of another entry for the same endpoint.
fn add_parts(known: &mut Endpoint, entry: Endpoint) {
    known.ipv4 = known.ipv4.or(entry.ipv4);
    known.ipv6 = known.ipv6.or(entry.ipv6);
    known.malformed = known.malformed.take().or(entry.malformed);
    known.pod = known.pod.take().or(entry.pod);
    known.zone = known.zone.take().or(entry.zone);
    if entry.ports.keys().any(|name| !known.ports.contains_key(name)) {
        let mut ports = Arc::unwrap_or_clone(entry.ports);
        ports.append(&mut known.ports.as_ref().clone());
        known.ports = Arc::new(limited(ports));
    }
}

/// Returns the first [`PORTS_OF_ENDPOINT`] ports by name. Kubernetes documents a maximum of 100 ports for an
/// EndpointSlice, but does not enforce it: two slices of a tenant, with 1,000 endpoints and thousands of ports each,
/// would take all of the function's memory.
fn limited(mut ports: BTreeMap<String, u16>) -> BTreeMap<String, u16> {
    while ports.len() > PORTS_OF_ENDPOINT {
        ports.pop_last();
    }
    ports
}
