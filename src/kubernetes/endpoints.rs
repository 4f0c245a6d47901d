//! Endpoints out of `EndpointSlices`, or out of the v1 Endpoints object where no slices are served, in
//! whatever condition: which of them are registered is the plan's to say. Slices are split by family,
//! by ports and by size, so one pod may stand in several.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, Endpoints, ObjectReference};

use super::object::{EndpointSlice, SliceEndpoint};
use crate::model::Endpoint;

/// The ports of all endpoints of one slice.
type Ports = Arc<BTreeMap<String, u16>>;

/// What makes two entries one endpoint: the object behind them, or else the address.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Behind {
    Object { kind: String, namespace: String, name: String, uid: String },
    Address(IpAddr),
}

impl Behind {
    fn of(target: Option<&ObjectReference>, address: IpAddr) -> Self {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        match target {
            Some(target) if target.name.is_some() => Self::Object {
                kind: text(&target.kind),
                namespace: text(&target.namespace),
                name: text(&target.name),
                uid: text(&target.uid),
            },
            _ => Self::Address(address),
        }
    }
}

/// The endpoints of all slices of a Service, those of one pod joined.
pub fn of_slices(slices: &[EndpointSlice]) -> Vec<Endpoint> {
    let slices = slices.iter().filter(|slice| slice.address_type != "FQDN");
    joined(slices.flat_map(|slice| {
        let ports = slice.ports.iter().filter_map(|port| {
            let number = u16::try_from(port.port?).ok()?;
            Some((port.name.clone(), number))
        });
        let ports: Ports = Arc::new(ports.collect());
        slice.endpoints.iter().filter_map(move |entry| of_entry(entry, &ports))
    }))
}

/// Only the first address of an entry counts; the controller writes exactly one. A condition that is
/// not told holds, but for `terminating`; what is not ready, for no other reason, does not serve.
fn of_entry(entry: &SliceEndpoint, ports: &Ports) -> Option<(Behind, Endpoint)> {
    let address = entry.addresses.first()?.parse().ok()?;
    let conditions = entry.conditions;
    let ready = conditions.ready.unwrap_or(true);
    let terminating = conditions.terminating.unwrap_or(false);
    let serving = conditions.serving.unwrap_or(ready || terminating);
    let target = entry.target_ref.as_ref();
    let endpoint = Endpoint { zone: entry.zone.clone(), ..at(address, target, ports) };
    Some((Behind::of(target, address), Endpoint { ready, serving, terminating, ..endpoint }))
}

/// The endpoints of a v1 Endpoints object. It knows neither zones nor terminating pods.
pub fn of_core(core: &Endpoints) -> Vec<Endpoint> {
    joined(core.subsets.iter().flatten().flat_map(|subset| {
        let ports = subset.ports.iter().flatten().filter_map(|port| {
            let number = u16::try_from(port.port).ok()?;
            Some((port.name.clone().unwrap_or_default(), number))
        });
        let ports: Ports = Arc::new(ports.collect());
        let all = [(&subset.addresses, true), (&subset.not_ready_addresses, false)];
        let all = all
            .into_iter()
            .flat_map(|(entries, ready)| entries.iter().flatten().map(move |entry| (entry, ready)));
        all.filter_map(move |(EndpointAddress { ip, target_ref, .. }, ready)| {
            let (address, target) = (ip.parse().ok()?, target_ref.as_ref());
            let endpoint = at(address, target, &ports);
            Some((Behind::of(target, address), Endpoint { ready, serving: ready, ..endpoint }))
        })
    }))
}

fn at(address: IpAddr, target: Option<&ObjectReference>, ports: &Ports) -> Endpoint {
    let (ipv4, ipv6) = match address {
        IpAddr::V4(v4) => (Some(v4), None),
        IpAddr::V6(v6) => (None, Some(v6)),
    };
    let pod = target.filter(|target| target.kind.as_deref() == Some("Pod"));
    let pod = pod.and_then(|pod| pod.name.clone());
    Endpoint { pod, ipv4, ipv6, ports: ports.clone(), ..Endpoint::default() }
}

/// One endpoint for everything that stands behind entries. Entries that serve come first: one is
/// enough while a pod moves between slices, and what the others say of addresses and ports only adds.
fn joined(entries: impl Iterator<Item = (Behind, Endpoint)>) -> Vec<Endpoint> {
    let (serving, others): (Vec<_>, Vec<_>) = entries.partition(|(_, endpoint)| serves(endpoint));
    let mut joined: BTreeMap<Behind, Endpoint> = BTreeMap::new();
    for (behind, entry) in serving.into_iter().chain(others) {
        match joined.entry(behind) {
            Vacant(vacant) => _ = vacant.insert(entry),
            Occupied(mut known) => join(known.get_mut(), entry),
        }
    }
    joined.into_values().collect()
}

/// A terminating pod counts by `serving`: a Service that publishes addresses that are not ready calls
/// every terminating pod ready.
fn serves(endpoint: &Endpoint) -> bool {
    if endpoint.terminating { endpoint.serving } else { endpoint.ready }
}

fn join(known: &mut Endpoint, entry: Endpoint) {
    if serves(&entry) || !serves(known) {
        known.ready |= entry.ready;
        known.serving |= entry.serving;
        known.terminating &= entry.terminating;
    }
    known.ipv4 = known.ipv4.or(entry.ipv4);
    known.ipv6 = known.ipv6.or(entry.ipv6);
    known.pod = known.pod.take().or(entry.pod);
    known.zone = known.zone.take().or(entry.zone);
    if known.ports != entry.ports {
        let mut ports = Arc::unwrap_or_clone(entry.ports);
        ports.append(&mut known.ports.as_ref().clone());
        known.ports = Arc::new(ports);
    }
}
