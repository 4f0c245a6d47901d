//! What every single call keeps, whatever happens: only ours is touched, and no name of ours goes empty
//! while something is ready for it.

use std::net::IpAddr;

use super::simulation::Simulation;
use crate::model::attributes::{IPV4, IPV6};
use crate::model::{Endpoint, Marks, ServiceKey, ServiceRef};
use crate::plan::{Change, Holders, Observation};

impl Simulation {
    pub fn assert_ours(&self, change: &Change) -> Marks {
        let present = self.instance(&change.place().key, change.instance().expect("an instance"));
        let marks = present.and_then(|present| Marks::read(present, &self.world.0.owner));
        marks.unwrap_or_else(|| panic!("{change}: it is not ours: {present:?}"))
    }

    /// A removal is of ours, of a Service that can be told what it asks for, and in case of a rename
    /// the Service is found under all its new names.
    pub fn assert_may_go(&self, change: &Change) {
        let marked = self.assert_ours(change).service;
        let holders = Holders::decide(&self.world.0);
        assert!(!holders.is_unclear(&marked, &self.world.0), "{change}: {marked} is unclear");
        let key = &change.place().key;
        let Some(names) = holders.claims(&marked).filter(|_| holders.holder(key).is_none()) else {
            return;
        };
        for (name, address) in names.iter().flat_map(|name| {
            let ready = publishable(&self.world.0, &marked);
            ready.into_iter().map(move |addresses| (name, addresses))
        }) {
            let mut there = our_addresses(&self.world.0, name);
            let found = there.any(|registered| address.contains(&registered));
            assert!(found, "{change}: {address:?} of {marked} is not found under {name:?}");
        }
    }

    /// A name of ours goes empty only where its holder has nothing that could be found under it.
    pub fn assert_still_served(&self, change: &Change) {
        let key = &change.place().key;
        let Some(holder) = self.holders.get(key) else { return };
        let ready = publishable(&self.world.0, holder);
        let empty = our_addresses(&self.world.0, key).next().is_none();
        assert!(!empty || ready.is_empty(), "{change}: empty, and {holder} has {ready:?} ready");
    }
}

/// The addresses of ready endpoints that may be published, by endpoint.
pub fn publishable(observation: &Observation, service: &ServiceRef) -> Vec<Vec<IpAddr>> {
    let service = observation.desired.services.get(service);
    let endpoints = service.and_then(|service| service.endpoints.as_ref()).into_iter().flatten();
    let addresses = endpoints.map(|endpoint: &Endpoint| {
        let addresses = endpoint.addresses();
        addresses.filter(|address| !address.is_loopback()).collect::<Vec<_>>()
    });
    addresses.filter(|addresses| !addresses.is_empty()).collect()
}

/// The addresses of our instances in one Cloud Map service.
pub fn our_addresses(observation: &Observation, key: &ServiceKey) -> impl Iterator<Item = IpAddr> {
    let instances = observation.registry.instances(key);
    let ours = instances.filter(|(_, attributes)| observation.owner.owns(attributes));
    ours.flat_map(|(_, attributes)| {
        [IPV4, IPV6].into_iter().filter_map(|key| attributes.get(key)?.parse().ok())
    })
}
