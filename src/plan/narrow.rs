//! A plan for one Service again: what of an observation it rests on, so that only that is read and
//! compared a second time.

use std::collections::BTreeSet;

use super::{Change, Holders, Observation};
use crate::model::{ServiceKey, ServiceRef};

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
    pub fn of(observation: &Observation, service: &ServiceRef, changes: &[Change]) -> Self {
        let holders = Holders::decide(observation);
        let changed = changes.iter().map(|change| change.place().key.clone());
        let claimed = holders.claims(service).into_iter().flatten().cloned();
        let keys: BTreeSet<ServiceKey> = changed.chain(claimed).collect();
        let marked = changes.iter().filter_map(Change::marked).cloned();
        let services = marked.chain([service.clone()]).collect();
        Self { keys, services }
    }

    /// The part of an observation that these keys and Services make up, every claimant included.
    pub fn narrow(&self, observation: &Observation) -> Observation {
        let holders = Holders::decide(observation);
        let mut narrow = observation.clone();
        narrow.registry.services.retain(|key, _| self.keys.contains(key));
        narrow.desired.services.retain(|service, _| {
            let claims = holders.claims(service);
            let concerned = claims.is_some_and(|claims| !claims.is_disjoint(&self.keys));
            concerned || self.services.contains(service)
        });
        narrow
    }
}
