//! A second plan for one turn: the part of an observation that it needs, so that only that part is read and compared a
//! second time.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Desired, PublishedService, Registry, ServiceKey, ServiceRef};
use crate::publish::plan::{Change, Extent, Holders, Observation};

/// The data to read again before the changes of one turn are decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RereadScope {
    /// The Cloud Map services of the changes, and those whose names the Services hold. Of a name that another Service
    /// holds a thousand others may be claimants, each with a turn of its own.
    pub keys: BTreeSet<ServiceKey>,
    /// The Services of the turn, and those in the marks of instances to remove.
    pub services: BTreeSet<ServiceRef>,
    /// These Services, and those that share a name with them: a second plan needs the endpoints of all.
    pub read: BTreeSet<ServiceRef>,
}

impl RereadScope {
    /// The data that the changes of a turn of `services` depend on.
    pub fn of<'a>(
        holders: &Holders,
        services: impl IntoIterator<Item = &'a ServiceRef>,
        changes: &'a [Change],
    ) -> Self {
        let marked = changes.iter().filter_map(Change::loses);
        let services: BTreeSet<ServiceRef> = services.into_iter().chain(marked).cloned().collect();
        let changed = changes.iter().map(|change| change.place().key.clone());
        let held = services.iter().flat_map(|service| {
            let claims = holders.claims(service).into_iter().flatten();
            claims.filter(|key| holders.holds(key, service))
        });
        let keys = changed.chain(held.cloned()).collect();
        let read = holders.with_sharers(&services);
        Self { keys, services, read }
    }

    /// The part of an observation with these keys and Services, including every claimant.
    pub fn narrow(&self, observation: &Observation, holders: &Holders) -> Observation {
        let services = self.keys.iter().filter_map(|key| {
            let service = observation.registry.services.get(key)?;
            Some((key.clone(), service.clone()))
        });
        let registry = Registry {
            namespaces: observation.registry.namespaces.clone(),
            services: services.collect(),
            capacity: observation.registry.capacity.clone(),
            account: observation.registry.account.clone(),
        };
        let claimants = self.keys.iter().flat_map(|key| holders.claimants(key));
        let concerned = claimants.chain(&self.services).filter_map(|service| {
            let annotated = observation.desired.services.get(service)?;
            Some((service.clone(), annotated.clone()))
        });
        let concerned: BTreeMap<ServiceRef, PublishedService> = concerned.collect();
        let namespaces = concerned.keys().filter_map(|service| {
            let chosen = observation.desired.namespaces.get(service)?;
            Some((service.clone(), chosen.clone()))
        });
        let unannotated = self.services.intersection(&observation.desired.unannotated).cloned();
        let claimed = holders.claimed_by(&self.services).filter(|key| !self.keys.contains(*key));
        let held_elsewhere =
            claimed.filter_map(|key| Some((key.clone(), holders.holder(key)?.clone())));
        let desired = Desired {
            held_elsewhere: held_elsewhere.collect(),
            namespaces: namespaces.collect(),
            services: concerned,
            unannotated: unannotated.collect(),
            exports: BTreeMap::new(),
            finalizers: BTreeMap::new(),
        };
        let (owner, rules) = (observation.owner.clone(), observation.rules.clone());
        let (now, extent) = (observation.now, Extent::Remainder);
        Observation { owner, rules, now, extent, judged: None, desired, registry }
    }
}
