//! The capacity of Cloud Map for instances. A service has a fixed limit of 1,000 instances, so the plan counts them. No
//! API reports the quota of a namespace, so a namespace counts as full when Cloud Map refuses a registration.
//!
//! If there is no capacity, a new endpoint is registered under the id of a surplus instance of ours under the same
//! name. This exchange is one RegisterInstance call that updates the instance, so it needs no capacity, and the name is
//! never empty. A renamed Service gives up instances under its old name for new ones under its new name. All other
//! registrations are held back. A registered instance is never removed only to get below a limit.

use std::collections::BTreeMap;

use super::change::{Change, Difference};
use super::compare::{Compared, Comparison};
use super::identity::hash_of;
use super::observation::{Observation, Plan};
use super::reason::Reason;
use super::removals::WaitsFor;
use crate::model::attributes::SIGHTING;
use crate::model::{Attributes, Place, ServiceKey, ServiceRef, count_each};

/// Turns the registrations of a plan for which there is no capacity into exchanges, and holds the rest back.
pub fn apply_capacity(observation: &Observation, compared: &Compared, plan: &mut Plan) {
    CapacityPlanner { observation, compared, plan }.apply();
}

struct CapacityPlanner<'a> {
    observation: &'a Observation,
    compared: &'a Compared,
    plan: &'a mut Plan,
}

/// A registration that was taken out of the plan.
struct WaitingRegistration {
    /// The Service for which it is registered.
    service: ServiceRef,
    instance: String,
    attributes: Attributes,
}

/// In a full namespace, one pass for a renamed Service removes a quarter of the instances under the old names, rounded
/// up, so that clients still find most of the Service. A pass takes as long as two operations.
const RENAME_DIVISOR: usize = 4;

impl CapacityPlanner<'_> {
    fn apply(&mut self) {
        let mut capacity = self.observation.registry.capacity.clone();
        for (place, pending) in self.take_pending() {
            let is_full = capacity.refusal(&place.key).is_some();
            let mut remaining = remaining_capacity(self.observation, &place.key);
            let mut without_capacity = Vec::new();
            for pending in pending {
                if remaining > 0 && (!is_full || capacity.freed(&pending.service, &place.key) > 0) {
                    remaining -= 1;
                    capacity.take(&pending.service, &place.key);
                    let WaitingRegistration { service, instance, attributes } = pending;
                    let register = Change::Register { place: place.clone(), instance, attributes };
                    self.plan.add(service, register);
                } else {
                    without_capacity.push(pending);
                }
            }
            if !without_capacity.is_empty() {
                let without_exchange = self.exchange(&place, without_capacity);
                self.hold_back(&place, remaining, &without_exchange);
            }
        }
    }

    /// Holds the registrations without an exchange back with one line. All of them are the holder's. `remaining` is the
    /// number of further instances that the limit of the Cloud Map service allows.
    fn hold_back(
        &mut self,
        place: &Place,
        remaining: usize,
        without_exchange: &[WaitingRegistration],
    ) {
        let Some(WaitingRegistration { service: holder, .. }) = without_exchange.first() else {
            return;
        };
        let count = without_exchange.len();
        let wanted = self.compared.get(&place.key).map_or(count, Comparison::wanted);
        let fit = wanted.saturating_sub(count);
        let observation = self.observation;
        let reason = match observation.registry.capacity.refusal(&place.key) {
            None => {
                let limit = observation.rules.service_limit.0;
                let instances = observation.registry.instances(&place.key);
                let foreign = instances.filter(|(_, instance)| !observation.owner.owns(instance));
                Reason::ServiceFull { wanted, fit, limit, others: foreign.count() }
            }
            Some(message) => {
                let old = self.give_up(holder, place, count.min(remaining));
                Reason::LimitExceeded { wanted, fit, message: message.to_owned(), old }
            }
        };
        for registration in without_exchange {
            self.plan.record_left_out(place, &registration.instance, &reason);
        }
        self.plan.hold_back(holder, place, reason);
    }

    /// Takes the registrations out of the plan, under each name that lacks capacity for all of them. Orders them by the
    /// hash in their ids.
    fn take_pending(&mut self) -> BTreeMap<Place, Vec<WaitingRegistration>> {
        let is_new = |change: &Change| matches!(change, Change::Register { .. });
        let new = self.plan.changes.values().flatten().filter(|change| is_new(change));
        let mut counts = count_each(new.map(|change| change.place().clone()));
        counts.retain(|place, count| {
            self.observation.registry.capacity.refusal(&place.key).is_some()
                || *count > remaining_capacity(self.observation, &place.key)
        });
        let is_pending = |change: &Change| is_new(change) && counts.contains_key(change.place());
        let mut places: BTreeMap<Place, Vec<WaitingRegistration>> = BTreeMap::new();
        for (service, change) in self.plan.take(is_pending) {
            let Change::Register { place, instance, attributes } = change else { continue };
            let pending = WaitingRegistration { service, instance, attributes };
            places.entry(place).or_default().push(pending);
        }
        for pending in places.values_mut() {
            pending.sort_by_cached_key(|pending| {
                (hash_of(&pending.instance).to_owned(), pending.instance.clone())
            });
        }
        places
    }

    /// Pairs pending registrations with removals under the same name, in order, and adds each pair as an exchange.
    /// Returns the registrations for which there was no removal.
    fn exchange(
        &mut self,
        place: &Place,
        pending: Vec<WaitingRegistration>,
    ) -> Vec<WaitingRegistration> {
        let mut surplus = self.take_surplus(place, pending.len());
        let mut without_exchange = Vec::new();
        for pending in pending {
            let is_own =
                |removal: &Change| removal.deregisters_instance_of() == Some(&pending.service);
            let own = surplus.iter().position(is_own);
            let index = own.or((!surplus.is_empty()).then_some(0));
            let removal = index.map(|index| surplus.remove(index));
            match removal.and_then(|removal| self.exchanged(&removal, &pending)) {
                Some(exchange) => self.plan.add(pending.service, exchange),
                None => without_exchange.push(pending),
            }
        }
        without_exchange
    }

    /// Takes up to `count` removals under a name out of the plan, for exchanges. An instance that carries a note is
    /// taken last.
    fn take_surplus(&mut self, place: &Place, count: usize) -> Vec<Change> {
        let may_be_displaced =
            |change: &Change| change.place() == place && change.may_be_exchanged();
        let mut candidates = self.plan.take(may_be_displaced);
        candidates.sort_by_cached_key(|(planned_for, change)| {
            let instance = change.instance().unwrap_or_default().to_owned();
            let present = self.observation.registry.instance(&place.key, &instance);
            let noted = present.is_some_and(|attributes| attributes.contains_key(SIGHTING));
            (noted, change.waits_for().is_some(), planned_for.clone(), instance)
        });
        for (planned_for, change) in candidates.split_off(count.min(candidates.len())) {
            self.plan.add(planned_for, change);
        }
        candidates.into_iter().map(|(_, change)| change).collect()
    }

    /// Returns the change that writes the new endpoint over the displaced instance. It drops the attributes that other
    /// writers added, since they describe the old endpoint, and a note of the guard.
    fn exchanged(&self, removal: &Change, pending: &WaitingRegistration) -> Option<Change> {
        let place = removal.place();
        let instance = removal.instance()?;
        let exchange = removal.exchanged_for(&pending.instance)?;
        let empty = Attributes::new();
        let present = self.observation.registry.instance(&place.key, instance).unwrap_or(&empty);
        Some(Change::Rewrite {
            place: place.clone(),
            instance: instance.to_owned(),
            differences: Difference::between(present, &pending.attributes),
            attributes: pending.attributes.clone(),
            exchange: Some(Box::new(exchange)),
            adopted: None,
        })
    }

    /// Lets up to `count` removals under the Service's old names proceed, to free capacity for its registrations at
    /// `new`. Returns an old name if none may proceed and the Service has no instance at `new` yet.
    ///
    /// Cloud Map reports a full namespace only by refusing a registration. If the removals of a renamed web waited
    /// until all its pods are under the new name, they would wait forever: web's old instances use up the capacity.
    fn give_up(&mut self, service: &ServiceRef, new: &Place, count: usize) -> Option<String> {
        let is_found = self.stays_registered(service, new);
        let changes = self.plan.changes.values_mut().flatten();
        let mut removals: Vec<&mut Change> =
            changes.filter(|change| gives_way(change, service, new)).collect();
        let last = removals.last().map(|change| change.place().to_string())?;
        let part = removals.len().div_ceil(RENAME_DIVISOR).min(count);
        let kept = usize::from(!is_found);
        let is_closed = self.observation.registry.capacity.is_closed(&new.key);
        let may_go = if is_closed { 0 } else { removals.len().saturating_sub(kept).min(part) };
        let mut released = 0;
        let mut remaining = BTreeMap::new();
        for change in &mut removals {
            let key = change.place().key.clone();
            let remaining = remaining
                .entry(key.clone())
                .or_insert_with(|| self.observation.our_instances(&key).count());
            let keeps_last = matches!(change.waits_for(), Some(WaitsFor::HolderAndNewName { .. }));
            if released < may_go && (*remaining > 1 || !keeps_last) {
                change.clear_wait();
                *remaining -= 1;
                released += 1;
            }
        }
        (released == 0 && !is_found).then_some(last)
    }

    /// Whether the Service has an instance at `new` that the plan neither removes nor exchanges for one of another
    /// Service.
    fn stays_registered(&self, service: &ServiceRef, new: &Place) -> bool {
        let loses = |id: &str| {
            self.plan.changes.iter().any(|(planned_for, changes)| {
                changes.iter().any(|change| {
                    let is_lost = change.deregisters_instance_of().is_some()
                        || change.exchange().is_some() && planned_for != service;
                    is_lost && change.place() == new && change.instance() == Some(id)
                })
            })
        };
        let mut marked = self.observation.our_instances_with_service(&new.key);
        marked.any(|instance| instance.service == *service && !loses(instance.id))
    }
}

/// The number of further instances that the limit of a Cloud Map service allows.
fn remaining_capacity(observation: &Observation, key: &ServiceKey) -> usize {
    observation.rules.service_limit.0.saturating_sub(observation.registry.instances(key).count())
}

/// The service and the namespace with the most instances, counting all owners and the registrations of the plan.
pub fn peaks(observation: &Observation, plan: &Plan) -> Vec<Peak> {
    let registry = &observation.registry;
    let mut services: BTreeMap<Place, usize> = BTreeMap::new();
    for (key, service) in &registry.services {
        *services.entry(Place::of(key, registry)).or_default() += service.instance_total();
    }
    for change in plan.changes.values().flatten() {
        if let Change::Register { place, .. } = change {
            *services.entry(place.clone()).or_default() += 1;
        }
    }
    // Several namespaces may have one name.
    let mut namespaces: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (place, count) in &services {
        *namespaces.entry((&place.key.namespace, &place.namespace)).or_default() += count;
    }
    let service = services.iter().max_by_key(|(_, count)| **count);
    let service = service.map(|(place, count)| Peak {
        of: place.to_string(),
        count: *count,
        quota: observation.rules.service_limit.0,
        is_fixed: true,
    });
    let namespace = namespaces.into_iter().max_by_key(|(_, count)| *count);
    let namespace = namespace.map(|((_, name), count)| Peak {
        of: name.to_owned(),
        count,
        quota: DEFAULT_NAMESPACE_QUOTA,
        is_fixed: false,
    });
    service.into_iter().chain(namespace).collect()
}

/// Whether a change removes an instance of the Service and waits for the registrations under its new name.
fn gives_way(change: &Change, service: &ServiceRef, new: &Place) -> bool {
    let renamed = change.waits_for().and_then(WaitsFor::renamed);
    let same_namespace = change.place().key.namespace == new.key.namespace;
    renamed == Some(service) && same_namespace && change.deregisters_instance_of() == Some(service)
}

/// The Cloud Map service, or the namespace, with the most instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The namespace, or the service in it.
    pub of: String,
    /// The largest number of instances during the run.
    pub count: usize,
    pub quota: usize,
    /// Whether the quota is that of a service, which is fixed. AWS may have raised that of a namespace: no API reports
    /// it.
    pub is_fixed: bool,
}

/// AWS's default of the quota "instances per namespace".
pub const DEFAULT_NAMESPACE_QUOTA: usize = 2000;
