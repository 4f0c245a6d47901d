//! Converts `EndpointSlices` into endpoints, or the v1 Endpoints object if the server has no slices. All conditions are
//! kept: the plan decides which endpoints are registered. Slices are split by IP family, by ports and by size, so
//! several may list the same pod; its entries are merged.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, Endpoints};

use super::object::{EndpointSlice, SliceEndpoint, TargetRef, parse_address};
use crate::model::Endpoint;
use crate::model::name::{is_dns_subdomain, is_label_word};

/// The ports of all endpoints of one slice.
type Ports = Arc<BTreeMap<String, u16>>;

/// An address, or a text that is none.
type Address = Result<IpAddr, Box<str>>;

/// The identity of an endpoint: its pod, or its address. Objects of other kinds may have many addresses.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum EndpointKey {
    Pod { namespace: String, name: String, uid: String },
    Address(Address),
}

impl EndpointKey {
    fn new(target: Option<&TargetRef>, address: &Address) -> Self {
        let text = |value: &Option<Box<str>>| value.as_deref().unwrap_or_default().to_owned();
        match target {
            Some(target) if target.is_pod() && target.name.is_some() => Self::Pod {
                namespace: text(&target.namespace),
                name: text(&target.name),
                uid: text(&target.uid),
            },
            _ => Self::Address(address.clone()),
        }
    }
}

/// The endpoints of all slices of a Service.
pub fn from_slices(slices: &[EndpointSlice]) -> Vec<Endpoint> {
    let slices = slices.iter().filter(|slice| slice.address_type != "FQDN");
    merge_entries(slices.flat_map(|slice| {
        let ports = slice.ports.iter().filter_map(|port| {
            let number = u16::try_from(port.port?).ok().filter(|number| *number > 0)?;
            Some((port.name.clone(), number))
        });
        let ports: Ports = Arc::new(ports.collect());
        slice.endpoints.iter().filter_map(move |entry| from_entry(entry, &ports))
    }))
}

/// A missing `ready` is true and a missing `terminating` false. A missing `serving` is `ready`, or true if the endpoint is
/// terminating.
fn from_entry(entry: &SliceEndpoint, ports: &Ports) -> Option<(EndpointKey, Endpoint)> {
    let address = entry.address.as_ref()?;
    let conditions = entry.conditions;
    let ready = conditions.ready.unwrap_or(true);
    let terminating = conditions.terminating.unwrap_or(false);
    let serving = conditions.serving.unwrap_or(ready || terminating);
    let target = entry.target_ref.as_ref();
    let [zone, node, hostname] = [&entry.zone, &entry.node_name, &entry.hostname]
        .map(|text| text.as_deref().map(str::to_owned));
    // A value of a label, which a node's zone is. The API server takes any text from a writer of slices, and one that is
    // no attribute of Cloud Map would keep the pod out.
    let zone = zone.filter(|zone| zone.is_empty() || is_label_word(zone));
    let endpoint = Endpoint { zone, hostname, node, ..endpoint_at(address, target, ports) };
    Some((EndpointKey::new(target, address), Endpoint { ready, serving, terminating, ..endpoint }))
}

/// The endpoints of a v1 Endpoints object, which has neither zones nor terminating pods.
pub fn from_core(core: &Endpoints) -> Vec<Endpoint> {
    merge_entries(core.subsets.iter().flatten().flat_map(|subset| {
        let ports = subset.ports.iter().flatten().filter_map(|port| {
            let number = u16::try_from(port.port).ok().filter(|number| *number > 0)?;
            Some((port.name.clone().unwrap_or_default(), number))
        });
        let ports: Ports = Arc::new(ports.collect());
        let all = [(&subset.addresses, true), (&subset.not_ready_addresses, false)];
        let all = all
            .into_iter()
            .flat_map(|(entries, ready)| entries.iter().flatten().map(move |entry| (entry, ready)));
        all.map(move |(EndpointAddress { ip, target_ref, .. }, ready)| {
            let address = parse_address(ip);
            let target = target_ref.as_ref().map(TargetRef::from);
            let target = target.as_ref();
            let endpoint = endpoint_at(&address, target, &ports);
            let key = EndpointKey::new(target, &address);
            (key, Endpoint { ready, serving: ready, ..endpoint })
        })
    }))
}

fn endpoint_at(address: &Address, target: Option<&TargetRef>, ports: &Ports) -> Endpoint {
    let (ipv4, ipv6, malformed) = match address {
        Ok(IpAddr::V4(v4)) => (Some(*v4), None, None),
        Ok(IpAddr::V6(v6)) => (None, Some(*v6), None),
        Err(text) => (None, None, Some(text.clone())),
    };
    let pod = target.filter(|target| target.is_pod());
    let pod = pod.and_then(|pod| pod.name.as_deref()).map(str::to_owned);
    // As with the zone: what no pod can be called is no pod's name.
    let pod = pod.filter(|name| is_dns_subdomain(name));
    Endpoint { pod, ipv4, ipv6, malformed, ports: ports.clone(), ..Endpoint::default() }
}

/// Merges the entries of each endpoint. Serving entries come first: while a pod moves between slices one such entry is
/// enough, and the other entries only add addresses and ports.
fn merge_entries(entries: impl Iterator<Item = (EndpointKey, Endpoint)>) -> Vec<Endpoint> {
    let (serving, others): (Vec<_>, Vec<_>) =
        entries.partition(|(_, endpoint)| is_serving(endpoint));
    let mut merged: BTreeMap<EndpointKey, Endpoint> = BTreeMap::new();
    for (key, entry) in serving.into_iter().chain(others) {
        match merged.entry(key) {
            Vacant(vacant) => _ = vacant.insert(entry),
            Occupied(mut known) => merge_entry(known.get_mut(), entry),
        }
    }
    merged.into_values().collect()
}

/// A terminating pod is judged by `serving`: a Service that publishes unready addresses marks every terminating pod as
/// ready.
fn is_serving(endpoint: &Endpoint) -> bool {
    if endpoint.terminating { endpoint.serving } else { endpoint.ready }
}

fn merge_entry(known: &mut Endpoint, entry: Endpoint) {
    if is_serving(&entry) || !is_serving(known) {
        known.ready |= entry.ready;
        known.serving |= entry.serving;
        known.terminating &= entry.terminating;
    }
    known.ipv4 = known.ipv4.or(entry.ipv4);
    known.ipv6 = known.ipv6.or(entry.ipv6);
    known.malformed = known.malformed.take().or(entry.malformed);
    known.pod = known.pod.take().or(entry.pod);
    known.zone = known.zone.take().or(entry.zone);
    if known.ports != entry.ports {
        let mut ports = Arc::unwrap_or_clone(entry.ports);
        ports.append(&mut known.ports.as_ref().clone());
        known.ports = Arc::new(ports);
    }
}
