//! Capacity of Cloud Map for instances. A service has a limit of 1,000, which is counted beforehand. A namespace is
//! full when Cloud Map refuses a registration, since no API reports that quota.
//!
//! A new endpoint without capacity is registered under the id of a surplus instance of ours under the same name
//! (`exchange`): that needs no further capacity, and the name is never empty. A renamed Service gives up instances
//! under its old name for those under its new one (`rename`). All other registrations are held back, and Services with
//! the fewest instances come first (`pending`). A registered instance is never removed only to get below a limit.

mod exchange;
mod pending;
mod rename;

use std::collections::{BTreeMap, BTreeSet};

use super::instances::diff::{Compared, Comparison};
use super::{Change, Observation, Place, Plan, Reason};
use crate::model::{ServiceKey, ServiceRef};

use pending::Pending;

/// The limit of Cloud Map for instances in one service, counting all owners. AWS does not raise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceLimit(pub usize);

impl Default for ServiceLimit {
    fn default() -> Self {
        Self(1000)
    }
}

/// The limit that a registration reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit<'a> {
    /// The limit of the Cloud Map service.
    Service,
    /// The limit of the namespace, with Cloud Map's message.
    Namespace(&'a str),
}

/// Makes a plan fit the capacity: exchanges registrations without capacity, and holds the rest back.
pub fn fit(observation: &Observation, compared: &Compared, plan: &mut Plan) {
    let staying = |service: &ServiceRef, key: &ServiceKey| {
        compared.of(key, service).map_or(0, Comparison::staying)
    };
    let mut freed: BTreeMap<(ServiceRef, String), usize> = BTreeMap::new();
    let are_too_many = |key: &ServiceKey, count| {
        observation.registry.capacity.refusal(key).is_some() || count > observation.free_places(key)
    };
    for (place, pending) in pending::by_place(plan, are_too_many, staying) {
        let refusal = observation.registry.capacity.refusal(&place.key);
        let mut free = observation.free_places(&place.key);
        let without: Vec<Pending> = pending
            .into_iter()
            .filter(|pending| {
                let freed = freed
                    .entry((pending.service.clone(), place.key.namespace.clone()))
                    .or_insert_with(|| {
                        observation.registry.capacity.freed(&pending.service, &place.key)
                    });
                let finds_place = free > 0 && (refusal.is_none() || *freed > 0);
                if finds_place {
                    free -= 1;
                    *freed = freed.saturating_sub(1);
                }
                !finds_place
            })
            .collect();
        if without.is_empty() {
            continue;
        }
        let refused = exchange::exchange(observation, &place, without, plan);
        let limit = refusal.map_or(Limit::Service, |message| Limit::Namespace(message));
        hold_back(observation, compared, &place, &refused, (limit, free), plan);
    }
}

impl Observation {
    /// The number of further instances that a Cloud Map service can take by its own limit.
    fn free_places(&self, key: &ServiceKey) -> usize {
        self.rules.service_limit.0.saturating_sub(self.registry.instances(key).count())
    }
}

/// Takes the refused registrations out of the plan, with one line for each Service; the Cloud Map service can take
/// `free` more by its own limit.
fn hold_back(
    observation: &Observation,
    compared: &Compared,
    place: &Place,
    refused: &[Pending],
    (limit, free): (Limit, usize),
    plan: &mut Plan,
) {
    let mut by_service: BTreeMap<&ServiceRef, BTreeSet<&str>> = BTreeMap::new();
    for Pending { service, instance, .. } in refused {
        by_service.entry(service).or_default().insert(instance);
    }
    let instances = observation.registry.instances(&place.key);
    let others = instances.filter(|(_, it)| !observation.owner.owns(it)).count();
    for (service, refused) in by_service {
        plan.remove_registrations(service, &refused, place);
        let count = refused.len();
        let wanted = compared.of(&place.key, service).map_or(count, Comparison::wanted);
        let fit = wanted.saturating_sub(count);
        let reason = match limit {
            Limit::Service => {
                let limit = observation.rules.service_limit.0;
                Reason::ServiceFull { wanted, fit, limit, others }
            }
            Limit::Namespace(message) => {
                let old = rename::give_up(observation, service, place, count.min(free), plan);
                let message = message.to_owned();
                Reason::LimitExceeded { wanted, fit, message, old }
            }
        };
        plan.hold_back(service, place, reason);
    }
}

impl Plan {
    fn remove_registrations(
        &mut self,
        service: &ServiceRef,
        instances: &BTreeSet<&str>,
        place: &Place,
    ) {
        if let Some(changes) = self.changes.get_mut(service) {
            changes.retain(|change| {
                let registers = matches!(change, Change::Register { .. });
                let is_one = change.instance().is_some_and(|id| instances.contains(id));
                !(registers && is_one && change.place() == place)
            });
        }
    }
}
