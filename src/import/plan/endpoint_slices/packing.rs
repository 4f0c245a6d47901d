//! Assigns endpoints to slices. An endpoint stays in its slice, since a move takes two writes; new ones go to the first
//! slice with room. Each exporting cluster and family is packed separately.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::import::plan::present::{PortSet, Slice, SliceEndpoint};

/// The largest number of endpoints in a slice, as in Kubernetes' own controller.
pub(super) const MAX_ENDPOINTS: usize = 100;

/// The endpoints of one cluster and family by their ports and address.
pub(super) type Wanted = BTreeMap<PortSet, BTreeMap<IpAddr, SliceEndpoint>>;

/// AddressCounts, each with the number of endpoints of all clusters that have it.
pub(super) type AddressCounts = BTreeMap<IpAddr, usize>;

/// A slice after packing.
#[derive(Clone, Debug)]
pub(super) struct Packed<'a> {
    /// `None` if it is new.
    pub present: Option<&'a Slice>,
    pub ports: PortSet,
    /// Those that stay, in their present order, then the new ones. If there are none, the slice goes.
    pub endpoints: Vec<SliceEndpoint>,
    /// Those that leave it for another slice of the import. They are removed last, and take up room until then.
    pub moving: BTreeSet<IpAddr>,
}

/// Packs the endpoints into the present slices, in the order of their names, and into new ones.
pub(super) fn pack<'a>(
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
