//! Which of our instances make room: those that a plan takes out in any case. The last one under a name
//! makes none before the first newcomer is there.

use std::collections::BTreeMap;

use super::newcomer::Newcomer;
use super::room::Wait;
use crate::model::{ServiceKey, ServiceRef};
use crate::plan::{Change, Observation, Plan, WaitsFor};

/// How many of our instances go under one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Going {
    /// Those that wait for nothing, or for nothing that takes room.
    pub at_once: usize,
    /// Those that may go before the first newcomer is there, if that is what gives it room.
    pub before_first: usize,
    /// Those that go once the first newcomer is there.
    pub after_first: usize,
}

/// How many go in the turn of each Service, under each name.
pub type AllGoing = BTreeMap<(ServiceRef, ServiceKey), Going>;

/// What a plan does in the turn of one Service under one name.
#[derive(Default)]
struct Here<'a> {
    registers: bool,
    /// It has an instance there: what others wait for, and it needs no room.
    rewrites: bool,
    /// What each of the instances that go waits for.
    removals: Vec<Option<&'a WaitsFor>>,
    /// How many of others who share the name wait for its instance.
    of_others: usize,
}

type ByName<'a> = BTreeMap<(ServiceRef, ServiceKey), Here<'a>>;

/// How many go where.
pub fn going(observation: &Observation, plan: &Plan) -> AllGoing {
    let mut here = by_name(plan);
    pass_on(&mut here);
    let going = here.into_iter().map(|((service, key), here)| {
        let ours = observation.ours(&key).count();
        ((service, key), here.going(ours))
    });
    going.collect()
}

fn by_name(plan: &Plan) -> ByName<'_> {
    let mut all = ByName::new();
    for (service, changes) in &plan.changes {
        for change in changes {
            let here = all.entry((service.clone(), change.place().key.clone())).or_default();
            match change {
                Change::Register { .. } => here.registers = true,
                Change::Rewrite { .. } => here.rewrites = true,
                Change::Deregister { .. } => here.removals.push(change.waits_for()),
                _ => {}
            }
        }
    }
    all
}

/// Of those who share a name one may wait for the instance of another: that one's turn decides when it goes.
fn pass_on(all: &mut ByName<'_>) {
    let mut passed = Vec::new();
    for ((service, key), here) in &mut *all {
        here.removals.retain(|wait| match wait {
            Some(WaitsFor::Holder(holder)) if holder != service => {
                passed.push((holder.clone(), key.clone()));
                false
            }
            _ => true,
        });
    }
    for name in passed {
        all.entry(name).or_default().of_others += 1;
    }
}

impl Here<'_> {
    /// How many go when, where `ours` are there.
    fn going(&self, ours: usize) -> Going {
        let count = |of: fn(&WaitsFor) -> bool| {
            self.removals.iter().flatten().filter(|wait| of(wait)).count()
        };
        let at_once = self.removals.iter().filter(|wait| wait.is_none()).count();
        let for_holder = count(|wait| matches!(wait, WaitsFor::Holder(_)));
        let last = count(|wait| matches!(wait, WaitsFor::FirstRegistration)) + self.of_others;
        if self.rewrites {
            return Going { at_once: at_once + for_holder + last, ..Going::default() };
        }
        if !self.registers {
            return Going { at_once, ..Going::default() };
        }
        let before_first = for_holder.min(ours.saturating_sub(at_once + 1));
        Going { at_once, before_first, after_first: for_holder + last - before_first }
    }
}

/// How many instances must go before newcomers of one Service can come.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    services: BTreeMap<ServiceKey, usize>,
    namespaces: BTreeMap<String, usize>,
}

impl Needs {
    /// Adds what one newcomer needs, in its service and in its namespace.
    pub fn add(&mut self, newcomer: &Newcomer, wait: Wait) {
        let key = &newcomer.key;
        *self.services.entry(key.clone()).or_default() += wait.service;
        *self.namespaces.entry(key.namespace.clone()).or_default() += wait.namespace;
    }

    fn in_service(&self, key: &ServiceKey) -> usize {
        self.services.get(key).copied().unwrap_or(0)
    }

    fn in_namespace(&self, key: &ServiceKey) -> usize {
        self.namespaces.get(&key.namespace).copied().unwrap_or(0)
    }

    fn meet(&mut self, key: &ServiceKey) {
        let service = self.services.get_mut(key);
        for need in service.into_iter().chain(self.namespaces.get_mut(&key.namespace)) {
            *need = need.saturating_sub(1);
        }
    }
}

/// Whether a removal may make room: it waits for nothing, or for nothing but a newcomer.
fn may_go(change: &Change) -> bool {
    let Change::Deregister { waits_for, .. } = change else { return false };
    matches!(waits_for, None | Some(WaitsFor::Holder(_)))
}

/// Lets those removals of a Service go first that make the room which it needs, and the others there
/// after its newcomers.
pub fn go_first(service: &ServiceRef, changes: &mut [Change], going: &AllGoing, mut needs: Needs) {
    let mut left: BTreeMap<ServiceKey, usize> = BTreeMap::new();
    for ((_, key), going) in going.iter().filter(|((turn, _), _)| turn == service) {
        let before_first = if needs.services.contains_key(key) { going.before_first } else { 0 };
        left.insert(key.clone(), going.at_once + before_first);
    }
    let concerned = |it: &&mut Change| {
        let key = &it.place().key;
        may_go(it) && needs.in_service(key) + needs.in_namespace(key) > 0
    };
    let mut removals: Vec<(&mut Change, bool)> =
        changes.iter_mut().filter(concerned).map(|change| (change, false)).collect();
    removals.sort_by_key(|(change, _)| change.waits_for().is_some());
    for need in [Needs::in_service, Needs::in_namespace] {
        for (change, goes) in removals.iter_mut().filter(|(_, goes)| !goes) {
            let key = change.place().key.clone();
            let may = left.get_mut(&key).filter(|left| **left > 0);
            if let Some(left) = may.filter(|_| need(&needs, &key) > 0) {
                *left -= 1;
                *goes = true;
                needs.meet(&key);
            }
        }
    }
    for (change, goes) in removals {
        change.go(goes);
    }
}

impl Change {
    /// Makes a removal go now, or, where nothing else keeps it, after the newcomers.
    fn go(&mut self, now: bool) {
        let Self::Deregister { waits_for, .. } = self else { return };
        if now {
            *waits_for = None;
        } else {
            waits_for.get_or_insert(WaitsFor::Newcomers);
        }
    }
}
