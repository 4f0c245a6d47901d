//! The EndpointSlices of an import: for each exporting cluster, family and set of ports as many as its endpoints need.
//! Each endpoint is made and packed into a slice here, and `slice` writes the changes from one state of it to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::change::Change;
use super::derived_service::Derived;
use super::input::{Basis, Exported, ImportedEndpoint, PortKey, Read};
use super::present_objects::{Addresses, PortSet, Slice, SliceEndpoint};
use super::slice::{self, Shape};
use crate::clusterset::id;
use crate::model::{
    ClusterId, ClustersetService, ExportedPort, Family, ImportType, count_each, is_dns_label,
    is_publishable,
};

/// The slices of a cluster and family.
type Groups<'a> = BTreeMap<(ClusterId, Family), Vec<&'a Slice>>;

/// The changes of all slices.
pub(super) fn changes(
    basis: &Basis<'_>,
    service: &ClustersetService,
    derived: Option<&Derived>,
) -> Vec<Change> {
    let mut wanted = wanted(basis, service, derived);
    let with_ports = wanted.values().flat_map(BTreeMap::values);
    let everywhere = count_each(with_ports.flat_map(BTreeMap::keys).copied());
    let mut groups = groups(basis);
    for key in wanted.keys() {
        groups.entry(key.clone()).or_default();
    }
    // Also the names of slices that are not ours or that will go.
    let mut used: BTreeSet<String> =
        basis.present.slices.iter().map(|slice| slice.metadata.name.clone()).collect();
    let mut changes = Vec::new();
    let mut all_packed = Vec::new();
    for (key, present) in &groups {
        let (cluster, family) = key;
        let shape = Shape { basis, derived, everywhere: &everywhere, cluster, family: *family };
        if basis.sources.is_unread(cluster) {
            changes.extend(present.iter().filter_map(|slice| shape.keep(slice)));
            continue;
        }
        let free_name = || {
            let mut names = (1..).map(|number| id::slice(basis.service, cluster, *family, number));
            names.find(|name| used.insert(name.clone())).unwrap_or_default()
        };
        let wanted = wanted.remove(key).unwrap_or_default();
        let packed = pack(present, wanted, &everywhere, free_name);
        all_packed.extend(packed.into_iter().map(|packed| (shape, packed)));
    }
    let waiting = waiting(basis, &all_packed);
    for (shape, mut packed) in all_packed {
        packed.keep_waiting(&waiting);
        changes.extend(match packed.present {
            Some(slice) => shape.update(slice, &packed),
            None => shape.create(&packed),
        });
    }
    if basis.sources.is_complete {
        // A slice without the label of a cluster, or with names, belongs to none.
        let has_waiting =
            |slice: &Slice| slice.addresses().any(|address| waiting.contains_key(&address));
        let is_of_none = |slice: &&Slice| slice.source().is_none() || slice.family.is_none();
        let of_none = present(basis).filter(is_of_none);
        let of_none = of_none.filter(|slice| !has_waiting(slice));
        changes.extend(of_none.map(|slice| slice::deletion(basis, slice)));
    }
    changes
}

/// The endpoints of slices that could not be written. They stay in the slices that they would leave for these.
fn waiting(basis: &Basis<'_>, all: &[(Shape<'_>, Packed<'_>)]) -> BTreeMap<IpAddr, SliceEndpoint> {
    let failed = all.iter().filter(|(_, packed)| basis.has_failed_additions(&packed.name));
    let endpoints = failed.flat_map(|(_, packed)| &packed.endpoints);
    endpoints.filter_map(|endpoint| Some((endpoint.address()?, endpoint.clone()))).collect()
}

/// The deletion of all slices of an import that does not exist any more.
pub(super) fn deletions(basis: &Basis<'_>) -> Vec<Change> {
    present(basis).map(|slice| slice::deletion(basis, slice)).collect()
}

/// The slices of ours. One that is being deleted takes its endpoints along, so they go to another one.
fn present<'a>(basis: &Basis<'a>) -> impl Iterator<Item = &'a Slice> {
    basis.slices().filter(|slice| !slice.metadata.is_terminating)
}

/// The slices of each cluster and family, in the order of their numbers.
fn groups<'a>(basis: &Basis<'a>) -> Groups<'a> {
    let mut groups = Groups::new();
    for slice in present(basis) {
        if let (Some(cluster), Some(family)) = (slice.source(), slice.family) {
            groups.entry((cluster, family)).or_default().push(slice);
        }
    }
    for slices in groups.values_mut() {
        slices.sort_by_key(|slice| (slice.metadata.name.len(), &slice.metadata.name));
    }
    groups
}

// The endpoints that the import shall have, as the slices have them, by exporting cluster, family and set of ports.

/// Values of `trafficDistribution` that prefer endpoints in the zone of the client; `PreferSameNode` does if there are none
/// on its node, as for endpoints of other clusters (KEP-3015).
const IN_ZONE: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];

/// All endpoints, by exporting cluster and family. Those of unread clusters are not among them.
type ByCluster = BTreeMap<(ClusterId, Family), Wanted>;

/// The endpoints of these families, each under the address that identifies it in its slice. Those of a cluster whose loss
/// the guard holds are beside its present ones.
pub(super) fn wanted(
    basis: &Basis<'_>,
    service: &ClustersetService,
    derived: Option<&Derived>,
) -> ByCluster {
    let families = match service.kind {
        ImportType::ClusterSetIp => {
            derived.map(|derived| derived.last.families.as_slice()).unwrap_or_default()
        }
        ImportType::Headless => &service.families,
    };
    let mut all = ByCluster::new();
    for cluster in &service.clusters {
        let read = basis.sources.by_cluster.get(cluster);
        let Some(exported) = read.and_then(Read::exported) else { continue };
        let is_own = cluster == basis.importer;
        let source = EndpointSource { service, exported, is_own };
        for family in families {
            let wanted = source.wanted(*family);
            if !wanted.is_empty() {
                all.insert((cluster.clone(), *family), wanted);
            }
        }
    }
    for slice in present(basis) {
        let held = slice.source().filter(|cluster| basis.sources.is_held(cluster));
        if let (Some(cluster), Some(family)) = (held, slice.family) {
            keep(slice, all.entry((cluster, family)).or_default());
        }
    }
    all
}

/// Keeps the endpoints of a slice that have no other ports now.
fn keep(slice: &Slice, wanted: &mut Wanted) {
    for endpoint in &slice.endpoints {
        let Some(address) = endpoint.address() else { continue };
        if !wanted.values().any(|with_ports| with_ports.contains_key(&address)) {
            let with_ports = wanted.entry(slice.ports.clone()).or_default();
            with_ports.insert(address, endpoint.clone());
        }
    }
}

/// The endpoints of an exporting cluster.
struct EndpointSource<'a> {
    service: &'a ClustersetService,
    exported: &'a Exported,
    /// Whether it is the importing cluster.
    is_own: bool,
}

impl EndpointSource<'_> {
    /// The endpoints of one family. Most have the same ports, which are found once.
    fn wanted(&self, family: Family) -> Wanted {
        let mut found: BTreeMap<&BTreeMap<PortKey, u16>, Option<PortSet>> = BTreeMap::new();
        let mut wanted = Wanted::new();
        let all = self.exported.endpoints.iter();
        let of_family = all.filter(|endpoint| Family::of(endpoint.address) == family);
        for endpoint in of_family.filter(|endpoint| is_publishable(endpoint.address)) {
            let ports = found.entry(&endpoint.ports).or_insert_with_key(|key| self.ports(key));
            let Some(ports) = ports else { continue };
            if !wanted.contains_key(ports) {
                wanted.insert(ports.clone(), BTreeMap::new());
            }
            if let Some(with_ports) = wanted.get_mut(ports) {
                with_ports.entry(endpoint.address).or_insert_with(|| self.content(endpoint));
            }
        }
        wanted
    }

    /// The target ports of an endpoint under the import's names. `None` if an IP of the import leads to none of them.
    /// Without an IP DNS leads clients to each endpoint: the ports that the import does not have keep the exporter's names.
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
        for (key @ (protocol, port), number) in targets.iter().filter(|(key, _)| is_other(key)) {
            let is_free = |name: &&String| served.iter().all(|port| port.name != **name);
            let name = self.exported.port_names.get(key).filter(is_free).cloned();
            // The API server refuses a name that occurs twice.
            let name =
                name.unwrap_or_else(|| format!("{}-{port}", protocol.as_str().to_lowercase()));
            let protocol = *protocol;
            let number = *number;
            served.insert(ExportedPort { name, protocol, number, app_protocol: None });
        }
        Some(served)
    }

    fn content(&self, endpoint: &ImportedEndpoint) -> SliceEndpoint {
        let is_known = |zone: &Arc<str>| self.exported.shares_zones && !zone.is_empty();
        let zone = endpoint.zone.clone().filter(is_known);
        let distribution = self.service.properties.traffic_distribution.as_deref();
        let prefers_zone = distribution.is_some_and(|distribution| IN_ZONE.contains(&distribution));
        SliceEndpoint {
            addresses: Addresses::One(endpoint.address),
            ready: Some(endpoint.ready),
            serving: Some(endpoint.ready || endpoint.is_leaving),
            terminating: Some(endpoint.is_leaving),
            // The API server refuses a whole slice for one bad hostname, which any client of Cloud Map can register.
            hostname: endpoint.hostname.clone().filter(|hostname| is_dns_label(hostname)),
            // A node of another cluster can have the name of one here, which internalTrafficPolicy Local would take for
            // it.
            node: endpoint.node.clone().filter(|node| self.is_own && !node.is_empty()),
            hints: zone.iter().filter(|_| prefers_zone).cloned().collect(),
            zone,
        }
    }
}

// Assigns endpoints to slices. An endpoint stays in its slice, since a move takes two writes; new ones go to the first
// slice with room. Each exporting cluster and family is packed separately.

/// The largest number of endpoints in a slice, as in Kubernetes' own controller.
const MAX_ENDPOINTS: usize = 100;

/// The endpoints of one cluster and family by their ports and address.
type Wanted = BTreeMap<PortSet, BTreeMap<IpAddr, SliceEndpoint>>;

/// All addresses of an import, each with the number of endpoints of all clusters that have it.
pub(super) type AddressCounts = BTreeMap<IpAddr, usize>;

/// A slice after packing.
#[derive(Clone, Debug)]
pub(super) struct Packed<'a> {
    pub name: String,
    /// `None` if it is new.
    pub present: Option<&'a Slice>,
    pub ports: PortSet,
    /// Those that stay, in their present order, then the new ones. If there are none, the slice goes.
    pub endpoints: Vec<SliceEndpoint>,
    /// Whether all of them wait for another slice. The ports then stay as they are.
    pub is_leaving: bool,
}

/// Packs the endpoints into the present slices, in the order of their names, and into new ones, each under a free name.
fn pack<'a>(
    present: &[&'a Slice],
    mut wanted: Wanted,
    everywhere: &AddressCounts,
    mut free_name: impl FnMut() -> String,
) -> Vec<Packed<'a>> {
    let mut packed: Vec<Packed<'a>> = present.iter().copied().map(Packed::empty).collect();
    for slice in &mut packed {
        slice.keep(&mut wanted);
    }
    for slice in packed.iter_mut().filter(|slice| slice.endpoints.is_empty()) {
        slice.change_ports(&mut wanted, everywhere);
    }
    for (ports, endpoints) in wanted {
        let mut new = endpoints.into_values();
        for slice in packed.iter_mut().filter(|slice| slice.ports == ports) {
            slice.endpoints.extend(new.by_ref().take(slice.room(everywhere)));
        }
        let mut new = new.peekable();
        while new.peek().is_some() {
            let endpoints = new.by_ref().take(MAX_ENDPOINTS).collect();
            let name = free_name();
            let ports = ports.clone();
            packed.push(Packed { name, present: None, ports, endpoints, is_leaving: false });
        }
    }
    packed
}

impl<'a> Packed<'a> {
    fn empty(slice: &'a Slice) -> Self {
        let name = slice.metadata.name.clone();
        let ports = slice.ports.clone();
        Self { name, present: Some(slice), ports, endpoints: Vec::new(), is_leaving: false }
    }

    /// Moves the endpoints that are in the slice already, with its ports, from `wanted` into it.
    fn keep(&mut self, wanted: &mut Wanted) {
        let Some(with_ports) = wanted.get_mut(&self.ports) else { return };
        let present = self.present.into_iter().flat_map(Slice::addresses);
        let kept = present.filter_map(|address| with_ports.remove(&address));
        self.endpoints.extend(kept.take(MAX_ENDPOINTS));
    }

    /// Changes the ports of a slice in place if all its endpoints change to the same other ones, and no other slice has
    /// one of them.
    fn change_ports(&mut self, wanted: &mut Wanted, everywhere: &AddressCounts) {
        let Some(slice) = self.present else { return };
        let mut sets = wanted.iter().filter(|(_, with_ports)| {
            slice.addresses().any(|address| with_ports.contains_key(&address))
        });
        let (Some((ports, with_ports)), None) = (sets.next(), sets.next()) else { return };
        let is_elsewhere = |address: IpAddr| {
            let here = usize::from(with_ports.contains_key(&address));
            everywhere.get(&address).is_some_and(|count| *count > here)
        };
        if !slice.addresses().any(is_elsewhere) {
            self.ports = ports.clone();
            self.keep(wanted);
        }
    }

    /// Keeps the endpoints that would leave it for a slice that could not be written.
    fn keep_waiting(&mut self, waiting: &BTreeMap<IpAddr, SliceEndpoint>) {
        if waiting.is_empty() {
            return;
        }
        self.is_leaving = self.endpoints.is_empty();
        let kept: BTreeSet<IpAddr> =
            self.endpoints.iter().filter_map(SliceEndpoint::address).collect();
        let present = self.present.into_iter().flat_map(Slice::addresses);
        let leaving = present.filter(|address| !kept.contains(address));
        self.endpoints.extend(leaving.filter_map(|address| waiting.get(&address).cloned()));
    }

    /// The room for new endpoints. Those that leave it for another slice of the import take up some: they are removed
    /// last.
    fn room(&self, everywhere: &AddressCounts) -> usize {
        let kept: BTreeSet<IpAddr> =
            self.endpoints.iter().filter_map(SliceEndpoint::address).collect();
        let present = self.present.into_iter().flat_map(Slice::addresses);
        let moving =
            present.filter(|address| !kept.contains(address) && everywhere.contains_key(address));
        let moving: BTreeSet<IpAddr> = moving.collect();
        MAX_ENDPOINTS.saturating_sub(self.endpoints.len() + moving.len())
    }
}
