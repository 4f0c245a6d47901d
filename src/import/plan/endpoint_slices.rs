//! The EndpointSlices of an import: for each exporting cluster, family and set of ports, as many slices as its
//! endpoints need. This module makes the endpoints and packs them into slices. `slice` makes the changes of each slice.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::change::Change;
use super::derived_service::Derived;
use super::input::{ImportedEndpoint, MemberEndpoints, PlanInput, PortKey, Read};
use super::present_objects::{Addresses, PortSet, Slice, SliceEndpoint};
use super::slice::{self, SliceContext};
use crate::clusterset::id;
use crate::model::{
    ClusterId, ClustersetService, ExportedPort, Family, ImportType, count_each, is_dns_label,
    is_publishable,
};

/// The present slices of each exporting cluster and family.
type PresentSlices<'a> = BTreeMap<(ClusterId, Family), Vec<&'a Slice>>;

/// The changes of all slices.
pub(super) fn changes(
    input: &PlanInput<'_>,
    service: &ClustersetService,
    derived: Option<&Derived>,
) -> Vec<Change> {
    let mut wanted = wanted(input, service, derived);
    let by_address = wanted.values().flat_map(BTreeMap::values);
    let address_counts = count_each(by_address.flat_map(BTreeMap::keys).copied());
    let mut present_slices = present_slices(input);
    for key in wanted.keys() {
        present_slices.entry(key.clone()).or_default();
    }
    // Includes the names of foreign slices and of slices that will be deleted.
    let mut used: BTreeSet<String> =
        input.present.slices.iter().map(|slice| slice.metadata.name.clone()).collect();
    let mut changes = Vec::new();
    let mut all_packed = Vec::new();
    for (key, present) in &present_slices {
        let (cluster, family) = key;
        let context = SliceContext {
            input,
            derived,
            address_counts: &address_counts,
            cluster,
            family: *family,
        };
        if input.sources.is_unread(cluster) {
            changes.extend(present.iter().filter_map(|slice| context.keep(slice)));
            continue;
        }
        let free_name = || {
            let mut names = (1..).map(|number| id::slice(input.service, cluster, *family, number));
            names.find(|name| used.insert(name.clone())).unwrap_or_default()
        };
        let wanted = wanted.remove(key).unwrap_or_default();
        let packed = pack(present, wanted, &address_counts, free_name);
        all_packed.extend(packed.into_iter().map(|packed| (context, packed)));
    }
    let waiting = waiting(input, &all_packed);
    for (context, mut packed) in all_packed {
        packed.keep_waiting(&waiting);
        changes.extend(match packed.present {
            Some(slice) => context.update(slice, &packed),
            None => context.create(&packed),
        });
    }
    if input.sources.is_complete {
        // A slice without a valid cluster label, or with host names instead of addresses, belongs to no cluster and is
        // deleted.
        let has_waiting =
            |slice: &Slice| slice.addresses().any(|address| waiting.contains_key(&address));
        let belongs_to_none = |slice: &&Slice| slice.source().is_none() || slice.family.is_none();
        let surplus = present(input).filter(belongs_to_none);
        let surplus = surplus.filter(|slice| !has_waiting(slice));
        changes.extend(surplus.map(|slice| slice::deletion(input, slice)));
    }
    changes
}

/// Returns the endpoints of slices that could not be written. An endpoint that would move to such a slice stays in its
/// present slice.
fn waiting(
    input: &PlanInput<'_>,
    all: &[(SliceContext<'_>, Packed<'_>)],
) -> BTreeMap<IpAddr, SliceEndpoint> {
    let failed = all.iter().filter(|(_, packed)| input.has_failed_additions(&packed.name));
    let endpoints = failed.flat_map(|(_, packed)| &packed.endpoints);
    endpoints.filter_map(|endpoint| Some((endpoint.address()?, endpoint.clone()))).collect()
}

/// Deletes all slices of an import that no longer exists.
pub(super) fn deletions(input: &PlanInput<'_>) -> Vec<Change> {
    present(input).map(|slice| slice::deletion(input, slice)).collect()
}

/// Returns our slices that are not being deleted. The endpoints of a terminating slice are packed into another slice.
fn present<'a>(input: &PlanInput<'a>) -> impl Iterator<Item = &'a Slice> {
    input.slices().filter(|slice| !slice.metadata.is_terminating)
}

/// The slices of each cluster and family, in the order of their numbers.
fn present_slices<'a>(input: &PlanInput<'a>) -> PresentSlices<'a> {
    let mut all = PresentSlices::new();
    for slice in present(input) {
        if let (Some(cluster), Some(family)) = (slice.source(), slice.family) {
            all.entry((cluster, family)).or_default().push(slice);
        }
    }
    for slices in all.values_mut() {
        slices.sort_by_key(|slice| (slice.metadata.name.len(), &slice.metadata.name));
    }
    all
}

// The wanted endpoints of the import, in the form of slice endpoints, by exporting cluster, family and set of ports.

/// The values of `trafficDistribution` that prefer endpoints in the client's zone. `PreferSameNode` prefers the zone if
/// the client's node has no endpoint, as with endpoints of other clusters (KEP-3015).
const IN_ZONE: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];

/// The wanted endpoints by exporting cluster and family, without those of unread clusters.
type ByCluster = BTreeMap<(ClusterId, Family), Wanted>;

/// Returns the wanted endpoints of the service, each by the address that identifies it in its slice. If a cluster's
/// part is held, its present endpoints are included.
pub(super) fn wanted(
    input: &PlanInput<'_>,
    service: &ClustersetService,
    derived: Option<&Derived>,
) -> ByCluster {
    let families = match service.kind {
        ImportType::ClusterSetIp => {
            derived.map(|derived| derived.final_spec.families.as_slice()).unwrap_or_default()
        }
        ImportType::Headless => &service.families,
    };
    let mut all = ByCluster::new();
    for cluster in &service.clusters {
        let read = input.sources.by_cluster.get(cluster);
        let Some(member) = read.and_then(Read::endpoints) else { continue };
        let is_own = cluster == input.importer;
        let source = EndpointSource { service, member, is_own };
        for family in families {
            let wanted = source.wanted(*family);
            if !wanted.is_empty() {
                all.insert((cluster.clone(), *family), wanted);
            }
        }
    }
    for slice in present(input) {
        let held = slice.source().filter(|cluster| input.sources.is_held(cluster));
        if let (Some(cluster), Some(family)) = (held, slice.family) {
            keep(slice, all.entry((cluster, family)).or_default());
        }
    }
    all
}

/// Adds the endpoints of a slice to `wanted`, except addresses that `wanted` already has under any set of ports.
fn keep(slice: &Slice, wanted: &mut Wanted) {
    for endpoint in &slice.endpoints {
        let Some(address) = endpoint.address() else { continue };
        if !wanted.values().any(|by_address| by_address.contains_key(&address)) {
            let by_address = wanted.entry(slice.ports.clone()).or_default();
            by_address.insert(address, endpoint.clone());
        }
    }
}

/// The endpoints of an exporting cluster.
struct EndpointSource<'a> {
    service: &'a ClustersetService,
    member: &'a MemberEndpoints,
    /// Whether it is the importing cluster.
    is_own: bool,
}

impl EndpointSource<'_> {
    /// Returns the endpoints of one family. Most endpoints have the same ports, so the port set is computed once for
    /// all of them.
    fn wanted(&self, family: Family) -> Wanted {
        let mut found: BTreeMap<&BTreeMap<PortKey, u16>, Option<PortSet>> = BTreeMap::new();
        let mut wanted = Wanted::new();
        let all = self.member.endpoints.iter();
        let same_family = all.filter(|endpoint| Family::of(endpoint.address) == family);
        for endpoint in same_family.filter(|endpoint| is_publishable(endpoint.address)) {
            let ports = found.entry(&endpoint.ports).or_insert_with_key(|key| self.ports(key));
            let Some(ports) = ports else { continue };
            if !wanted.contains_key(ports) {
                wanted.insert(ports.clone(), BTreeMap::new());
            }
            if let Some(by_address) = wanted.get_mut(ports) {
                by_address.entry(endpoint.address).or_insert_with(|| self.content(endpoint));
            }
        }
        wanted
    }

    /// Returns the target ports of an endpoint under the import's port names. If the import has an IP, returns `None`
    /// if no port of the import leads to the endpoint. Without an IP, DNS leads clients to each endpoint, so ports that
    /// the import does not have are included under the exporter's names.
    fn ports(&self, targets: &BTreeMap<PortKey, u16>) -> Option<PortSet> {
        let ports = &self.service.ports;
        let served = ports.iter().filter_map(|port| {
            let number = *targets.get(&(port.protocol, port.number))?;
            Some(ExportedPort { number, ..port.clone() })
        });
        let mut served: PortSet = served.collect();
        if self.service.kind == ImportType::ClusterSetIp {
            return (!served.is_empty() || ports.is_empty()).then_some(served);
        }
        let is_other =
            |key: &PortKey| ports.iter().all(|port| (port.protocol, port.number) != *key);
        for (key @ (protocol, _), number) in targets.iter().filter(|(key, _)| is_other(key)) {
            let name = self.free_port_name(*key, &served);
            let protocol = *protocol;
            let number = *number;
            served.insert(ExportedPort { name, protocol, number, app_protocol: None });
        }
        Some(served)
    }

    /// Returns the exporter's name of a port that the import does not have, or another name if one of the `served`
    /// ports has it: the API server refuses a slice with duplicate names.
    fn free_port_name(&self, key: PortKey, served: &PortSet) -> String {
        let is_free = |name: &str| served.iter().all(|port| port.name != name);
        if let Some(name) = self.member.port_names.get(&key).filter(|name| is_free(name)) {
            return name.clone();
        }
        let (protocol, number) = key;
        let mut name = format!("{}-{number}", protocol.as_str().to_lowercase());
        while !is_free(&name) {
            name.push_str("-x");
        }
        name
    }

    fn content(&self, endpoint: &ImportedEndpoint) -> SliceEndpoint {
        let is_known = |zone: &Arc<str>| self.member.shares_zones && !zone.is_empty();
        let zone = endpoint.zone.clone().filter(is_known);
        let distribution = self.service.properties.traffic_distribution.as_deref();
        let prefers_zone = distribution.is_some_and(|distribution| IN_ZONE.contains(&distribution));
        SliceEndpoint {
            addresses: Addresses::One(endpoint.address),
            ready: Some(endpoint.ready),
            serving: Some(endpoint.ready || endpoint.is_leaving),
            terminating: Some(endpoint.is_leaving),
            // The API server refuses a whole slice for one invalid hostname, and any client of Cloud Map can register
            // one.
            hostname: endpoint.hostname.clone().filter(|hostname| is_dns_label(hostname)),
            // A node of another cluster can have the name of a local node. internalTrafficPolicy Local would treat it
            // as that node.
            node: endpoint.node.clone().filter(|node| self.is_own && !node.is_empty()),
            hints: zone.iter().filter(|_| prefers_zone).cloned().collect(),
            zone,
        }
    }
}

// Assigns endpoints to slices. An endpoint stays in its slice, since a move takes two writes; new ones go to the first
// slice with free capacity. Each exporting cluster and family is packed separately.

/// The largest number of endpoints in a slice, as in Kubernetes' own controller.
const MAX_ENDPOINTS: usize = 100;

/// The endpoints of one cluster and family by their ports and address.
type Wanted = BTreeMap<PortSet, BTreeMap<IpAddr, SliceEndpoint>>;

/// The addresses of an import, each with the number of wanted endpoints that have it, in all clusters.
pub(super) type AddressCounts = BTreeMap<IpAddr, usize>;

/// A slice after packing.
#[derive(Clone, Debug)]
pub(super) struct Packed<'a> {
    pub name: String,
    /// `None` if it is new.
    pub present: Option<&'a Slice>,
    pub ports: PortSet,
    /// The endpoints that stay, in their present order, then the new ones. If it is empty, the slice is deleted.
    pub endpoints: Vec<SliceEndpoint>,
    /// Whether all endpoints wait to move to another slice. The ports then stay unchanged.
    pub has_only_waiting: bool,
}

/// Packs the endpoints into the present slices, in the order of their names, and into new ones, each under a free name.
fn pack<'a>(
    present: &[&'a Slice],
    mut wanted: Wanted,
    address_counts: &AddressCounts,
    mut free_name: impl FnMut() -> String,
) -> Vec<Packed<'a>> {
    let mut packed: Vec<Packed<'a>> = present.iter().copied().map(Packed::empty).collect();
    for slice in &mut packed {
        slice.keep(&mut wanted);
    }
    for slice in packed.iter_mut().filter(|slice| slice.endpoints.is_empty()) {
        slice.change_ports(&mut wanted, address_counts);
    }
    for (ports, endpoints) in wanted {
        let mut new = endpoints.into_values();
        for slice in packed.iter_mut().filter(|slice| slice.ports == ports) {
            slice.endpoints.extend(new.by_ref().take(slice.free_capacity(address_counts)));
        }
        let mut new = new.peekable();
        while new.peek().is_some() {
            let endpoints = new.by_ref().take(MAX_ENDPOINTS).collect();
            let name = free_name();
            let ports = ports.clone();
            packed.push(Packed { name, present: None, ports, endpoints, has_only_waiting: false });
        }
    }
    packed
}

impl<'a> Packed<'a> {
    fn empty(slice: &'a Slice) -> Self {
        let name = slice.metadata.name.clone();
        let ports = slice.ports.clone();
        Self { name, present: Some(slice), ports, endpoints: Vec::new(), has_only_waiting: false }
    }

    /// Moves endpoints that are already in the slice, with the same ports, from `wanted` to it.
    fn keep(&mut self, wanted: &mut Wanted) {
        let Some(by_address) = wanted.get_mut(&self.ports) else { return };
        let present = self.present.into_iter().flat_map(Slice::addresses);
        let kept = present.filter_map(|address| by_address.remove(&address));
        self.endpoints.extend(kept.take(MAX_ENDPOINTS));
    }

    /// Changes the ports of a slice in place, if all its endpoints change to the same new ports and none of its
    /// addresses occurs elsewhere in the import.
    fn change_ports(&mut self, wanted: &mut Wanted, address_counts: &AddressCounts) {
        let Some(slice) = self.present else { return };
        let mut sets = wanted.iter().filter(|(_, by_address)| {
            slice.addresses().any(|address| by_address.contains_key(&address))
        });
        let (Some((ports, by_address)), None) = (sets.next(), sets.next()) else { return };
        let is_elsewhere = |address: IpAddr| {
            let here = usize::from(by_address.contains_key(&address));
            address_counts.get(&address).is_some_and(|count| *count > here)
        };
        if !slice.addresses().any(is_elsewhere) {
            self.ports = ports.clone();
            self.keep(wanted);
        }
    }

    /// Keeps endpoints that would move to a slice that could not be written.
    fn keep_waiting(&mut self, waiting: &BTreeMap<IpAddr, SliceEndpoint>) {
        if waiting.is_empty() {
            return;
        }
        self.has_only_waiting = self.endpoints.is_empty();
        let kept: BTreeSet<IpAddr> =
            self.endpoints.iter().filter_map(SliceEndpoint::address).collect();
        let present = self.present.into_iter().flat_map(Slice::addresses);
        let not_kept = present.filter(|address| !kept.contains(address));
        self.endpoints.extend(not_kept.filter_map(|address| waiting.get(&address).cloned()));
    }

    /// Returns the number of endpoints that can be added. Endpoints that move to another slice of the import still take
    /// up capacity, since they are removed last.
    fn free_capacity(&self, address_counts: &AddressCounts) -> usize {
        let kept: BTreeSet<IpAddr> =
            self.endpoints.iter().filter_map(SliceEndpoint::address).collect();
        let present = self.present.into_iter().flat_map(Slice::addresses);
        let moving = present
            .filter(|address| !kept.contains(address) && address_counts.contains_key(address));
        let moving: BTreeSet<IpAddr> = moving.collect();
        MAX_ENDPOINTS.saturating_sub(self.endpoints.len() + moving.len())
    }
}
