//! The promises that every single call keeps: it touches only our instances, and no name of ours goes empty while
//! something is ready for it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::simulation::Simulation;
use crate::model::attributes::{IPV4, IPV6};
use crate::model::{Endpoint, InstanceKey, PublishedService, ServiceKey, ServiceRef};
use crate::publish::plan::identity::Identity;
use crate::publish::plan::{Change, Holders, Observation, Plan, plan, rule};

impl Simulation {
    pub fn assert_ours(&self, change: &Change) -> ServiceRef {
        let present = self.instance(&change.place().key, change.instance().expect("an instance"));
        let marked = present.and_then(|present| self.world.0.owner.service_of(present));
        marked.unwrap_or_else(|| panic!("{change}: it is not ours: {present:?}"))
    }

    /// A removal is of ours and of a Service with known claims. After a rename the Service is found under all its new
    /// names. If another Service holds the old name, that applies only as far as there is no obstacle.
    pub fn assert_may_go(&self, change: &Change) {
        let marked = self.assert_ours(change);
        let holders = Holders::decide(&self.world.0);
        let key = &change.place().key;
        let Ok(limits) = self.world.0.name_limits(&marked, key) else { return };
        assert!(!holders.is_unclear(&marked), "{change}: {marked} is unclear");
        let lost = holders.holder(key).is_some() && !holders.holds(key, &marked);
        let present = self.instance(key, change.instance().expect("an instance"));
        let allowed =
            present.is_some_and(|present| limits.allows_all(&Identity::of(present, true)));
        let known = lost || !allowed || !is_truncated(&self.world.0, &marked);
        assert!(known, "{change}: the endpoints of {marked} are known in part only");
        let Some(names) = holders.claims(&marked).filter(|names| !names.contains(key)) else {
            return;
        };
        if holders.holder(key).is_some() && self.is_hindered(&marked, names) {
            return;
        }
        // An obstacle that another cluster took away, or a check that it created, is found by the next sync.
        if self.was_interrupted() {
            return;
        }
        if self.refusals.contains(&key.namespace) {
            // It moves one for one, and is never without an instance.
            let is_found = |name: &ServiceKey, addresses: &[IpAddr]| {
                our_addresses(&self.world.0, name).any(|it| addresses.contains(&it))
            };
            let wanted = names.iter().map(|name| (name, findable(&self.world.0, &marked)));
            let wanted: Vec<_> = wanted.filter(|(_, ready)| !ready.is_empty()).collect();
            let mut found = wanted.iter().flat_map(|(name, ready)| {
                ready.iter().map(move |addresses| is_found(name, addresses))
            });
            let is_last = self.count_of(&marked) == 1;
            assert!(
                !is_last || wanted.is_empty() || found.any(|found| found),
                "{change}: it is the last instance of {marked}"
            );
            return;
        }
        let maximum = has_maximum(&self.world.0, &marked);
        for name in names {
            let ready = if maximum { publishable } else { findable };
            let ready = ready(&self.world.0, &marked);
            let there: Vec<IpAddr> = our_addresses(&self.world.0, name).collect();
            let found = |addresses: &&Vec<IpAddr>| addresses.iter().any(|it| there.contains(it));
            let enough = if maximum { 1 } else { ready.len() };
            let found = ready.iter().filter(found).count();
            assert!(
                found >= enough.min(ready.len()),
                "{change}: {found} of {ready:?} of {marked} are found under {name:?}: {there:?}"
            );
        }
    }

    fn count_of(&self, service: &ServiceRef) -> usize {
        self.world.0.count_all_marked().get(service).copied().unwrap_or_default()
    }

    /// Whether a Service cannot be found whole under the names that it asks for. A name that comes free during the sync
    /// is filled by the next sync.
    fn is_hindered(&self, service: &ServiceRef, names: &BTreeSet<ServiceKey>) -> bool {
        let holders = Holders::decide(&self.world.0);
        let at_first = |name| self.holders.get(name).is_none_or(|holder| holder == service);
        let mut held = names.iter().map(|name| holders.holds(name, service) && at_first(name));
        let affected = BTreeSet::from([service.clone()]);
        let plan =
            plan(&Observation { holders: holders.clone(), affected, ..self.world.0.clone() });
        held.any(|held| !held) || plan.held_back.iter().any(|it| it.reason.keeps_out())
    }

    /// A registration leaves its service with no more instances than that takes.
    pub fn assert_within_limits(&self, change: &Change) {
        let held = self.world.0.registry.services[&change.place().key].instance_total();
        assert!(held <= self.course.rules.service_limit.0, "{change}: {held} in the service");
    }

    /// A name of ours goes empty only if its holder has no endpoint that could be found there.
    pub fn assert_still_served(&self, change: &Change) {
        let key = &change.place().key;
        let empty = our_addresses(&self.world.0, key).next().is_none();
        if let Some(holder) = self.holders.get(key).filter(|_| empty) {
            let ready = findable(&self.world.0, holder);
            assert!(ready.is_empty(), "{change}: empty, and {holder} has {ready:?} ready");
        }
    }

    pub fn held(&self, plan: &Plan) -> Vec<InstanceKey> {
        let planned = plan.guard.iter().filter(|planned| planned.verdict.state.holds());
        let services =
            planned.flat_map(|planned| planned.verdict.losses().iter().map(|it| it.0.clone()));
        let services: BTreeSet<ServiceRef> = services.collect();
        let keys = self.world.0.registry.services.keys();
        let all = keys
            .flat_map(|key| self.world.0.our_instances_with_service(key).map(move |it| (key, it)));
        let of_held = all.filter(|(_, it)| services.contains(&it.service));
        of_held.map(|(key, it)| InstanceKey::new(key, it.id)).collect()
    }

    /// Instances that the guard holds are there when the run is over.
    pub fn assert_that_they_stay(&self, held: &[InstanceKey]) {
        for it in held {
            let is_there = self.instance(&it.service, &it.id).is_some();
            assert!(is_there, "{it:?} was held, and is gone");
        }
    }
}

/// Whether a Service publishes endpoints and the cluster reports only a part of them.
fn is_truncated(observation: &Observation, service: &ServiceRef) -> bool {
    let service = observation.desired.services.get(service);
    let truncated = service.filter(|service| service.truncated);
    truncated.is_some_and(|it| it.claims.as_ref().is_ok_and(|claims| claims.publish))
}

/// Whether a Service wants fewer instances than it may have endpoints.
fn has_maximum(observation: &Observation, service: &ServiceRef) -> bool {
    let claims = observation.desired.services.get(service).map(|service| &service.claims);
    let rule = rule(observation, service).ok().flatten();
    rule.is_some_and(|rule| rule.max_instances.is_some())
        || claims.is_some_and(|claims| claims.as_ref().is_ok_and(|it| it.maximum.is_some()))
}

/// The addresses of endpoints that are to be found under a name and may be published, by endpoint.
pub fn publishable(observation: &Observation, service: &ServiceRef) -> Vec<Vec<IpAddr>> {
    let Ok(rule) = rule(observation, service) else { return Vec::new() };
    let allowed = |address: &IpAddr| rule.is_none_or(|rule| rule.allows_address(*address));
    let mut found = to_be_found(observation, service);
    for addresses in &mut found {
        addresses.retain(allowed);
    }
    found.retain(|addresses| !addresses.is_empty());
    found
}

/// The endpoints of which no address is refused. The remaining addresses of an endpoint may be of a family that the
/// records do not carry.
pub fn findable(observation: &Observation, service: &ServiceRef) -> Vec<Vec<IpAddr>> {
    let found = to_be_found(observation, service);
    let mut publishable = publishable(observation, service);
    publishable.retain(|addresses| found.contains(addresses));
    publishable
}

/// The addresses of endpoints that are to be found, without those that no Service may publish.
fn to_be_found(observation: &Observation, service: &ServiceRef) -> Vec<Vec<IpAddr>> {
    let service = observation.desired.services.get(service);
    let published =
        |service: &&PublishedService| service.claims.as_ref().map_or(true, |claims| claims.publish);
    let service = service.filter(published);
    let keeps = service
        .is_some_and(|service| service.claims.as_ref().is_ok_and(|claims| claims.keeps_serving));
    let endpoints = service.into_iter().flat_map(PublishedService::read_endpoints);
    let endpoints = endpoints.filter(|endpoint| {
        if endpoint.terminating { keeps && endpoint.serving } else { endpoint.ready }
    });
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
