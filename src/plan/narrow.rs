//! A plan for one Service again: what of an observation it rests on, so that only that is read and
//! compared a second time.

use std::collections::BTreeSet;

use super::{Change, Holders, Observation};
use crate::model::{Desired, Registry, ServiceKey, ServiceRef};

/// What is to be read again before the changes of one Service are decided for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// The Cloud Map services that the changes and claims are about.
    pub keys: BTreeSet<ServiceKey>,
    /// The Service itself, and those in the marks of what is to be removed.
    pub services: BTreeSet<ServiceRef>,
}

impl Again {
    /// What the changes of `service` rest on.
    pub fn of(holders: &Holders, service: &ServiceRef, changes: &[Change]) -> Self {
        let changed = changes.iter().map(|change| change.place().key.clone());
        let claimed = holders.claims(service).into_iter().flatten().cloned();
        let marked = changes.iter().filter_map(Change::marked).cloned();
        Self {
            keys: changed.chain(claimed).collect(),
            services: marked.chain([service.clone()]).collect(),
        }
    }

    /// The part of an observation that these keys and Services make up, every claimant included.
    pub fn narrow(&self, observation: &Observation, holders: &Holders) -> Observation {
        let services = self.keys.iter().filter_map(|key| {
            let service = observation.registry.services.get(key)?;
            Some((key.clone(), service.clone()))
        });
        let registry = Registry {
            namespaces: observation.registry.namespaces.clone(),
            services: services.collect(),
        };
        let claimants = self.keys.iter().flat_map(|key| holders.claimants(key));
        let concerned = claimants.chain(&self.services).filter_map(|service| {
            let annotated = observation.desired.services.get(service)?;
            Some((service.clone(), annotated.clone()))
        });
        let desired = Desired { services: concerned.collect() };
        let (owner, rules) = (observation.owner.clone(), observation.rules.clone());
        Observation { owner, rules, desired, registry }
    }
}
