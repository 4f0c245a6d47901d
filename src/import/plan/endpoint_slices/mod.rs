//! The EndpointSlices of an import: for each exporting cluster, family and set of ports as many as its endpoints need.
//! `endpoint` makes the endpoints, each is packed into a slice here, and `slice` writes the changes from one state of it
//! to the next.

mod endpoint;
mod slice;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use slice::Shape;

use super::basis::Basis;
use super::change::Change;
use super::derived_service::Derived;
use super::present::{PortSet, Slice, SliceEndpoint};
use crate::clusterset::id;
use crate::model::Family;
use crate::model::clusterset::{ClusterId, ClustersetService, ImportType};

/// The slices of a cluster and family. A slice without the label of a cluster belongs to none.
type Groups<'a> = BTreeMap<(Option<ClusterId>, Family), Vec<&'a Slice>>;

/// The changes of all slices.
pub(super) fn changes(
    basis: &Basis<'_>,
    service: &ClustersetService,
    derived: Option<&Derived<'_>>,
) -> Vec<Change> {
    let mut wanted = wanted(basis, service, derived);
    let everywhere = endpoint::addresses(&wanted);
    let mut groups = groups(basis);
    for (cluster, family) in wanted.keys() {
        groups.entry((Some(cluster.clone()), *family)).or_default();
    }
    let mut names = Names::new(basis);
    let mut changes = Vec::new();
    for ((cluster, family), present) in groups {
        let shape = Shape { basis, derived, cluster: cluster.as_ref(), family };
        if is_unread(basis, cluster.as_ref()) {
            changes.extend(present.into_iter().filter_map(|slice| shape.keep(slice)));
            continue;
        }
        let wanted = cluster.clone().and_then(|cluster| wanted.remove(&(cluster, family)));
        for packed in pack(&present, wanted.unwrap_or_default(), &everywhere) {
            changes.extend(match (packed.present, &cluster) {
                (Some(slice), _) => shape.update(slice, &packed),
                (None, Some(cluster)) => shape.create(&names.next_free(cluster, family), &packed),
                (None, None) => Vec::new(),
            });
        }
    }
    changes
}

/// The endpoints that the slices shall have.
pub(super) fn wanted(
    basis: &Basis<'_>,
    service: &ClustersetService,
    derived: Option<&Derived<'_>>,
) -> endpoint::ByCluster {
    let families = match service.kind {
        ImportType::ClusterSetIp => derived.map(Derived::served_families).unwrap_or_default(),
        ImportType::Headless => &service.families,
    };
    endpoint::wanted(basis, service, families)
}

/// The deletion of all slices of an import that does not exist any more.
pub(super) fn deletions(basis: &Basis<'_>) -> Vec<Change> {
    let slices = basis.slices().filter(|slice| !slice.metadata.is_terminating);
    slices.map(|slice| slice::deletion(basis, slice)).collect()
}

fn is_unread(basis: &Basis<'_>, cluster: Option<&ClusterId>) -> bool {
    cluster.map_or(!basis.sources.is_complete, |cluster| basis.sources.is_unread(cluster))
}

/// The slices of ours, in the order of their numbers. One that is being deleted takes its endpoints along, so they go to
/// another one.
fn groups<'a>(basis: &Basis<'a>) -> Groups<'a> {
    let mut groups = Groups::new();
    for slice in basis.slices().filter(|slice| !slice.metadata.is_terminating) {
        groups.entry((slice.source(), slice.family)).or_default().push(slice);
    }
    for slices in groups.values_mut() {
        slices.sort_by_key(|slice| (slice.metadata.name.len(), &slice.metadata.name));
    }
    groups
}

/// The names in use, also of slices that are not ours or that will go.
struct Names<'a> {
    basis: &'a Basis<'a>,
    used: BTreeSet<String>,
}

impl<'a> Names<'a> {
    fn new(basis: &'a Basis<'a>) -> Self {
        let used = basis.present.slices.iter().map(|slice| slice.metadata.name.clone()).collect();
        Self { basis, used }
    }

    /// The name with the smallest free number.
    fn next_free(&mut self, cluster: &ClusterId, family: Family) -> String {
        let mut number = 1;
        loop {
            let name = id::slice(self.basis.service, cluster, family, number);
            if self.used.insert(name.clone()) {
                return name;
            }
            number += 1;
        }
    }
}

// Assigns endpoints to slices. An endpoint stays in its slice, since a move takes two writes; new ones go to the first
// slice with room. Each exporting cluster and family is packed separately.

/// The largest number of endpoints in a slice, as in Kubernetes' own controller.
const MAX_ENDPOINTS: usize = 100;

/// The endpoints of one cluster and family by their ports and address.
type Wanted = BTreeMap<PortSet, BTreeMap<IpAddr, SliceEndpoint>>;

/// AddressCounts, each with the number of endpoints of all clusters that have it.
type AddressCounts = BTreeMap<IpAddr, usize>;

/// A slice after packing.
#[derive(Clone, Debug)]
struct Packed<'a> {
    /// `None` if it is new.
    pub present: Option<&'a Slice>,
    pub ports: PortSet,
    /// Those that stay, in their present order, then the new ones. If there are none, the slice goes.
    pub endpoints: Vec<SliceEndpoint>,
    /// Those that leave it for another slice of the import. They are removed last, and take up room until then.
    pub moving: BTreeSet<IpAddr>,
}

/// Packs the endpoints into the present slices, in the order of their names, and into new ones.
fn pack<'a>(
    present: &[&'a Slice],
    mut wanted: Wanted,
    everywhere: &AddressCounts,
) -> Vec<Packed<'a>> {
    let mut packed: Vec<Packed<'a>> = present.iter().copied().map(Packed::empty).collect();
    for slice in &mut packed {
        slice.keep(&mut wanted);
    }
    for slice in packed.iter_mut().filter(|slice| slice.endpoints.is_empty()) {
        slice.change_ports(&mut wanted, everywhere);
    }
    for slice in &mut packed {
        slice.find_moving(everywhere);
    }
    for (ports, endpoints) in wanted {
        let mut new = endpoints.into_values();
        for slice in packed.iter_mut().filter(|slice| slice.ports == ports) {
            slice.endpoints.extend(new.by_ref().take(slice.room()));
        }
        let mut new = new.peekable();
        while new.peek().is_some() {
            let endpoints = new.by_ref().take(MAX_ENDPOINTS).collect();
            let (ports, moving) = (ports.clone(), BTreeSet::new());
            packed.push(Packed { present: None, ports, endpoints, moving });
        }
    }
    packed
}

impl<'a> Packed<'a> {
    fn empty(slice: &'a Slice) -> Self {
        let (endpoints, moving) = (Vec::new(), BTreeSet::new());
        Self { present: Some(slice), ports: slice.ports.clone(), endpoints, moving }
    }

    /// Moves the endpoints that are in the slice already, with its ports, from `wanted` into it.
    fn keep(&mut self, wanted: &mut Wanted) {
        let Some(with_ports) = wanted.get_mut(&self.ports) else { return };
        let present = self.present.into_iter().flat_map(addresses);
        let kept = present.filter_map(|address| with_ports.remove(&address));
        self.endpoints.extend(kept.take(MAX_ENDPOINTS));
    }

    /// Changes the ports of a slice in place if all its endpoints change to the same other ones, and no other slice has
    /// one of them.
    fn change_ports(&mut self, wanted: &mut Wanted, everywhere: &AddressCounts) {
        let Some(slice) = self.present else { return };
        let mut sets = wanted.iter().filter(|(_, with_ports)| {
            addresses(slice).any(|address| with_ports.contains_key(&address))
        });
        let (Some((ports, with_ports)), None) = (sets.next(), sets.next()) else { return };
        let is_elsewhere = |address: IpAddr| {
            let here = usize::from(with_ports.contains_key(&address));
            everywhere.get(&address).is_some_and(|count| *count > here)
        };
        if !addresses(slice).any(is_elsewhere) {
            self.ports = ports.clone();
            self.keep(wanted);
        }
    }

    fn find_moving(&mut self, everywhere: &AddressCounts) {
        let kept: BTreeSet<IpAddr> =
            self.endpoints.iter().filter_map(SliceEndpoint::address).collect();
        let present = self.present.into_iter().flat_map(addresses);
        let leaving = present.filter(|address| !kept.contains(address));
        self.moving = leaving.filter(|address| everywhere.contains_key(address)).collect();
    }

    fn room(&self) -> usize {
        MAX_ENDPOINTS.saturating_sub(self.endpoints.len() + self.moving.len())
    }
}

fn addresses(slice: &Slice) -> impl Iterator<Item = IpAddr> {
    slice.endpoints.iter().filter_map(SliceEndpoint::address)
}
