//! Ready endpoints out of `EndpointSlices`, or out of the v1 Endpoints object where no slices are
//! served. Slices are split by family, by ports and by size, so one pod may stand in several.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{EndpointAddress, Endpoints, ObjectReference};
use k8s_openapi::api::discovery::v1::{Endpoint as SliceEndpoint, EndpointSlice};

use crate::model::Endpoint;

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

/// The ready endpoints of all slices of a Service, those of one pod joined.
pub fn of_slices(slices: &[EndpointSlice]) -> Vec<Endpoint> {
    let mut joined: BTreeMap<Behind, Endpoint> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.address_type != "FQDN") {
        let ports = slice.ports.iter().flatten();
        let ports: BTreeMap<String, u16> = ports
            .filter_map(|port| {
                let number = u16::try_from(port.port?).ok()?;
                Some((port.name.clone().unwrap_or_default(), number))
            })
            .collect();
        for (entry, terminating) in slice.endpoints.iter().filter_map(serving) {
            // Only the first address counts; the controller writes exactly one.
            let Some(address) = entry.addresses.first().and_then(|text| text.parse().ok()) else {
                continue;
            };
            let target = entry.target_ref.as_ref();
            let new = || Endpoint { terminating, ..Endpoint::default() };
            let endpoint = joined.entry(Behind::of(target, address)).or_insert_with(new);
            endpoint.terminating &= terminating;
            join(endpoint, address, target, &ports);
            endpoint.zone = endpoint.zone.take().or_else(|| entry.zone.clone());
        }
    }
    joined.into_values().collect()
}

/// The ready endpoints of a v1 Endpoints object. It knows neither zones nor terminating pods.
pub fn of_core(core: &Endpoints) -> Vec<Endpoint> {
    let mut joined: BTreeMap<Behind, Endpoint> = BTreeMap::new();
    for subset in core.subsets.iter().flatten() {
        let ports = subset.ports.iter().flatten().filter_map(|port| {
            let number = u16::try_from(port.port).ok()?;
            Some((port.name.clone().unwrap_or_default(), number))
        });
        let ports: BTreeMap<String, u16> = ports.collect();
        for EndpointAddress { ip, target_ref, .. } in subset.addresses.iter().flatten() {
            let Ok(address) = ip.parse() else { continue };
            let target = target_ref.as_ref();
            join(joined.entry(Behind::of(target, address)).or_default(), address, target, &ports);
        }
    }
    joined.into_values().collect()
}

/// An endpoint that serves, and whether it is on its way out. Ready is as the API means it (unset is
/// ready); a terminating pod counts by `serving`, since a Service that publishes addresses that are
/// not ready calls every terminating pod ready.
fn serving(entry: &SliceEndpoint) -> Option<(&SliceEndpoint, bool)> {
    let conditions = entry.conditions.as_ref();
    let ready = conditions.and_then(|conditions| conditions.ready).unwrap_or(true);
    let serving = conditions.and_then(|conditions| conditions.serving).unwrap_or(true);
    let terminating = conditions.and_then(|conditions| conditions.terminating).unwrap_or(false);
    let serves = if terminating { serving } else { ready };
    serves.then_some((entry, terminating))
}

fn join(
    endpoint: &mut Endpoint,
    address: IpAddr,
    target: Option<&ObjectReference>,
    ports: &BTreeMap<String, u16>,
) {
    match address {
        IpAddr::V4(v4) => endpoint.ipv4 = endpoint.ipv4.or(Some(v4)),
        IpAddr::V6(v6) => endpoint.ipv6 = endpoint.ipv6.or(Some(v6)),
    }
    let pod = target.filter(|target| target.kind.as_deref() == Some("Pod"));
    endpoint.pod = endpoint.pod.take().or_else(|| pod.and_then(|pod| pod.name.clone()));
    endpoint.ports.extend(ports.clone());
}
