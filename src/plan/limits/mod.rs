//! How many instances Cloud Map takes in one service and in one namespace, whoever registered them. What
//! stands stays. The room that is left is given out (`room`) in an order that is fair and does not
//! change from run to run (`newcomer`); what finds none is held back, with the numbers.
//!
//! Where nothing is free, those of our instances that go in any case go first (`going`): as few as are
//! needed, and never the last one under a name.

mod count;
mod going;
mod newcomer;
mod room;

use std::collections::{BTreeMap, BTreeSet};

use super::instances::comparison::Comparison;
use super::order::removal::Matched;
use super::{Change, Observation, Place, Plan, Reason, WaitsFor};
use crate::model::{ServiceKey, ServiceRef};

use going::Needs;
use newcomer::Newcomer;
use room::{Full, Room};

pub use count::registrations;

/// The most instances that Cloud Map takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In one service. AWS raises it for nobody.
    pub service: usize,
    /// In one namespace. AWS raises it on request, and no API of Cloud Map says to what.
    pub namespace: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { service: 1000, namespace: 2000 }
    }
}

/// Takes out of a plan what there is no room for.
pub fn keep_within(observation: &Observation, matched: &Matched, plan: &mut Plan) {
    let going = going::going(observation, plan);
    let mut room = Room::of(observation, plan, going.clone());
    if room.is_ample() {
        return;
    }
    let standing = |service: &ServiceRef, key: &ServiceKey| {
        let compared = matched.get(key).and_then(|compared| compared.get(service));
        compared.map_or(0, Comparison::standing)
    };
    let newcomers = newcomer::newcomers(plan, standing);
    let refused = room.give(&newcomers);
    let mut waiting = BTreeSet::new();
    let mut needs: BTreeMap<ServiceRef, Needs> = BTreeMap::new();
    for newcomer in newcomers.iter().filter(|newcomer| !refused.contains_key(newcomer)) {
        if let Some(wait) = room.enter(newcomer) {
            waiting.insert(newcomer);
            needs.entry(newcomer.service.clone()).or_default().add(newcomer, wait);
        }
    }
    let lines = lines(observation, matched, &refused);
    for (service, changes) in &mut plan.changes {
        if let Some(needs) = needs.remove(service) {
            going::go_first(service, changes, &going, needs);
        }
        changes.retain_mut(|change| {
            let newcomer = Newcomer::of(service, change);
            if newcomer.as_ref().is_some_and(|it| waiting.contains(it)) {
                change.wait(WaitsFor::Room);
            }
            !newcomer.is_some_and(|it| refused.contains_key(&it))
        });
    }
    for (service, place, reason) in lines {
        plan.create_only_for_instances(&service, &place);
        plan.hold_back(&service, &place, reason);
    }
}

/// One line for each name of a Service that is left with fewer instances than it wants.
fn lines(
    observation: &Observation,
    matched: &Matched,
    refused: &BTreeMap<Newcomer, Full>,
) -> Vec<(ServiceRef, Place, Reason)> {
    let limits = observation.rules.limits;
    let mut counts: BTreeMap<(&ServiceRef, &ServiceKey), (usize, Full)> = BTreeMap::new();
    for (newcomer, full) in refused {
        let entry = counts.entry((&newcomer.service, &newcomer.key)).or_insert((0, *full));
        *entry = (entry.0 + 1, entry.1.min(*full));
    }
    let lines = counts.into_iter().map(|((service, key), (refused, full))| {
        let compared = matched.get(key).and_then(|compared| compared.get(service));
        let wanted = compared.map_or(refused, Comparison::wanted);
        let fit = wanted.saturating_sub(refused);
        let instances = observation.registry.instances(key);
        let others = instances.filter(|(_, it)| !observation.owner.owns(it)).count();
        let reason = match full {
            Full::Service => Reason::ServiceFull { wanted, fit, limit: limits.service, others },
            Full::Namespace => Reason::NamespaceFull { wanted, fit, limit: limits.namespace },
        };
        (service.clone(), Place::of(key, &observation.registry), reason)
    });
    lines.collect()
}

impl Plan {
    /// A Cloud Map service is created together with its first instance or not at all: where the Service
    /// that was to create it registers nothing there, another that does creates it.
    fn create_only_for_instances(&mut self, service: &ServiceRef, place: &Place) {
        let registers = |changes: &[Change]| {
            let mut here = changes.iter().filter(|change| change.place() == place);
            here.any(|change| matches!(change, Change::Register { .. }))
        };
        let creates = |change: &mut Change| {
            change.place() == place && matches!(change, Change::CreateService { .. })
        };
        let Some(changes) = self.changes.get_mut(service).filter(|it| !registers(it)) else {
            return;
        };
        let Some(create) = changes.extract_if(.., creates).next() else { return };
        if let Some(changes) = self.changes.values_mut().find(|changes| registers(changes)) {
            changes.push(create);
        }
    }
}
