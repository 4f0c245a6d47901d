//! Which of our instances go, in whose turn, and what must be seen before. No path through here lets
//! a name go empty while ready endpoints exist for it.

use std::collections::{BTreeMap, BTreeSet};

use super::change::describe;
use super::claim::Holders;
use super::compare::Comparison;
use super::new_name::{NewName, new_name};
use super::{Because, Change, Observation, Place, Plan, WaitsFor};
use crate::model::{Attributes, Marks, ServiceKey, ServiceRef};

/// Adds the removals to a plan. A removal stands among the changes of the Service whose registrations
/// it follows: the holder of the name, where there is one, else the Service in the marks.
pub fn removals(
    observation: &Observation,
    holders: &Holders,
    matched: &BTreeMap<ServiceKey, Comparison>,
    affected: &BTreeSet<ServiceRef>,
    plan: &mut Plan,
) {
    let removals = Removals { observation, holders, matched };
    for key in observation.registry.services.keys() {
        let place = Place::of(key, &observation.registry);
        let candidates = removals.candidates(key, affected);
        for candidate in &candidates {
            let Some((turn, because, waits_for)) = removals.decide(key, candidate, &candidates)
            else {
                continue;
            };
            plan.changes.entry(turn).or_default().push(Change::Deregister {
                place: place.clone(),
                instance: candidate.instance.clone(),
                marked: candidate.marked.clone(),
                address: describe(candidate.attributes),
                because,
                waits_for,
            });
        }
    }
}

/// An instance of ours that the holder of its name has no use for.
struct Candidate<'a> {
    instance: &'a String,
    marked: ServiceRef,
    attributes: &'a Attributes,
}

struct Removals<'a> {
    observation: &'a Observation,
    holders: &'a Holders,
    matched: &'a BTreeMap<ServiceKey, Comparison>,
}

type Decision = (ServiceRef, Because, Option<WaitsFor>);

impl<'a> Removals<'a> {
    fn candidates(&self, key: &ServiceKey, affected: &BTreeSet<ServiceRef>) -> Vec<Candidate<'a>> {
        let comparison = self.matched.get(key);
        let instances = self.observation.registry.instances(key);
        let ours = instances.filter_map(|(instance, attributes)| {
            let marked = Marks::read(attributes, &self.observation.owner)?.service;
            Some(Candidate { instance, marked, attributes })
        });
        let unwanted = |candidate: &Candidate| {
            comparison.is_none_or(|comparison| comparison.has_no_use_for(candidate.instance))
        };
        ours.filter(|candidate| affected.contains(&candidate.marked) && unwanted(candidate))
            .collect()
    }

    fn decide(
        &self,
        key: &ServiceKey,
        candidate: &Candidate,
        all: &[Candidate],
    ) -> Option<Decision> {
        let marked = &candidate.marked;
        match self.holders.holder(key).filter(|holder| !self.holders.is_unclear(holder)) {
            Some(holder) if holder == marked => {
                let mut own = all.iter().rev().filter(|other| other.marked == *holder);
                let is_last = own.next().is_some_and(|last| last.instance == candidate.instance);
                self.of_the_holder(key, candidate, is_last)
            }
            Some(holder) => self.of_another(key, marked, holder),
            None => self.of_nobody(key, marked),
        }
    }

    /// An endpoint that is gone. Where none of the ready endpoints is registered yet, or can be, the
    /// last instance stays until one is.
    fn of_the_holder(
        &self,
        key: &ServiceKey,
        candidate: &Candidate,
        is_last: bool,
    ) -> Option<Decision> {
        let comparison = self.matched.get(key)?;
        let because = comparison.because(candidate.instance);
        let alone = comparison.asked && !comparison.serves;
        let waits_for = (alone && is_last).then_some(WaitsFor::FirstRegistration);
        Some((candidate.marked.clone(), because, waits_for))
    }

    /// An instance of a Service that lost or left the name to another: it goes after the holder has
    /// one, and where its Service left, after that is whole under its new name, as far as it can be.
    /// Where the claim is ended and the holder asks for none, there is nothing to wait for. What an
    /// unclear Service has stays, unless it may not be there.
    fn of_another(
        &self,
        key: &ServiceKey,
        marked: &ServiceRef,
        holder: &ServiceRef,
    ) -> Option<Decision> {
        let ended = self.ended(key, marked);
        if ended.is_none() && self.holders.is_unclear(marked) {
            return None;
        }
        let comparison = self.matched.get(key)?;
        let follows = !comparison.serves && (comparison.asked || ended.is_none());
        // Of a Service that still asks for this name, the new name is this one, and contested.
        let claims = self.holders.claims(marked).filter(|_| ended.is_none());
        let moves = claims.is_some_and(|claims| self.new_name(marked, claims) == NewName::Underway);
        let because = ended.unwrap_or_else(|| Because::NameHeldBy(holder.clone()));
        let (holder, renamed) = (holder.clone(), marked.clone());
        let waits_for = match (follows, moves) {
            (true, true) => Some(WaitsFor::HolderAndNewName { holder: holder.clone(), renamed }),
            (true, false) => Some(WaitsFor::Holder(holder.clone())),
            (false, true) => Some(WaitsFor::NewName(renamed)),
            (false, false) => None,
        };
        Some((holder, because, waits_for))
    }

    /// Why a Service has no claim to the name any more, whatever it asks for now.
    fn ended(&self, key: &ServiceKey, marked: &ServiceRef) -> Option<Because> {
        if self.holders.claims(marked).is_none() {
            return Some(Because::ServiceGone(marked.clone()));
        }
        let denied = self.observation.permit(marked, key).is_err();
        denied.then(|| Because::NotAllowed(marked.clone()))
    }

    /// An instance under a name that no Service of the cluster claims, or only one of which nobody can
    /// tell.
    fn of_nobody(&self, key: &ServiceKey, marked: &ServiceRef) -> Option<Decision> {
        if let Some(because) = self.ended(key, marked) {
            return Some((marked.clone(), because, None));
        }
        let claims = self.holders.claims(marked)?;
        if self.holders.is_unclear(marked) || claims.contains(key) {
            return None;
        }
        let renamed = marked.clone();
        let waits_for = match self.new_name(marked, claims) {
            NewName::Whole => None,
            NewName::Underway => Some(WaitsFor::NewName(renamed)),
            NewName::Hindered(place) => {
                Some(WaitsFor::HinderedName { renamed, name: place.to_string() })
            }
            NewName::Contested(place, holder) => {
                Some(WaitsFor::ContestedName { renamed, name: place.to_string(), holder })
            }
        };
        Some((marked.clone(), Because::NameChanged(marked.clone()), waits_for))
    }

    fn new_name(&self, service: &ServiceRef, claims: &BTreeSet<ServiceKey>) -> NewName {
        new_name(self.observation, self.holders, self.matched, service, claims)
    }
}
