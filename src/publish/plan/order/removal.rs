//! Plans the removals: the instances of ours to deregister, the turn of each, and the condition it waits for. No path
//! through here lets a name become empty while ready endpoints exist for it.

use super::new_name::waits_for_new_name;
use crate::model::{Endpoint, Flow, ServiceKey, ServiceRef};
use crate::publish::plan::instances::diff::Compared;
use crate::publish::plan::instances::health;
use crate::publish::plan::instances::identity::Identity;
use crate::publish::plan::observation::MarkedInstance;
use crate::publish::plan::{Basis, DeregisterReason, Place, Plan, WaitsFor};

/// Adds the removals to a plan. A removal is among the changes of the Service in its marks if that holds the name, or
/// if no Service holds it. Otherwise it is among the changes of the holder, since it follows the holder's
/// registrations.
pub fn removals(basis: Basis<'_>, compared: &Compared, plan: &mut Plan) {
    let observation = basis.observation;
    let removals = Removals { basis, compared };
    for key in observation.registry.services.keys() {
        let place = Place::of(key, &observation.registry);
        let candidates = removals.candidates(key);
        for candidate in &candidates {
            let Some((turn, because, waits_for)) = removals.decide(key, candidate, &candidates)
            else {
                continue;
            };
            let change = candidate.removal(&place, because, waits_for);
            plan.changes.entry(turn).or_default().push(change);
        }
    }
}

struct Removals<'a> {
    basis: Basis<'a>,
    compared: &'a Compared,
}

type Decision = (ServiceRef, DeregisterReason, Option<WaitsFor>);

impl<'a> Removals<'a> {
    /// The surplus instances of ours under a name.
    fn candidates(&self, key: &ServiceKey) -> Vec<MarkedInstance<'a>> {
        let compared = self.compared.under(key);
        let is_surplus = |it: &MarkedInstance| {
            compared.is_none_or(|all| all.values().any(|holder| holder.surplus(it.id).is_some()))
        };
        let ours = self.basis.observation.marked(key);
        ours.filter(|it| self.basis.affected.contains(&it.service) && is_surplus(it)).collect()
    }

    fn decide(
        &self,
        key: &ServiceKey,
        candidate: &MarkedInstance,
        all: &[MarkedInstance],
    ) -> Option<Decision> {
        let marked = &candidate.service;
        let holders = self.basis.holders;
        match holders.holder(key).filter(|holder| !holders.is_unclear(holder)) {
            Some(_) if holders.holds(key, marked) => {
                let mut own = all.iter().rev().filter(|other| other.service == *marked);
                let is_last = own.next().is_some_and(|last| last.id == candidate.id);
                self.of_a_holder(key, candidate, is_last)
            }
            Some(_) => self.of_another(key, marked),
            None => self.of_nobody(key, candidate),
        }
    }

    /// An instance without an endpoint. If none of the ready endpoints is registered yet, or can be, the last instance
    /// stays until one is; if other Services share the name, until one of their endpoints is registered.
    fn of_a_holder(
        &self,
        key: &ServiceKey,
        candidate: &MarkedInstance,
        is_last: bool,
    ) -> Option<Decision> {
        let comparison = self.compared.of(key, &candidate.service)?;
        let because = comparison.surplus(candidate.id)?.clone();
        let waits_for = match comparison.has_endpoints {
            true if comparison.has_registered => None,
            true => Some(WaitsFor::FirstRegistration),
            false => self.first_to_serve(key).map(WaitsFor::Holder),
        };
        Some((candidate.service.clone(), because, waits_for.filter(|_| is_last)))
    }

    /// The holder with ready endpoints that will have the first instance under a name, if none has one yet. A holder
    /// with an instance to rewrite is preferred, since that needs no capacity.
    fn first_to_serve(&self, key: &ServiceKey) -> Option<ServiceRef> {
        let compared = self.compared.under(key)?;
        if compared.values().any(|comparison| comparison.has_registered) {
            return None;
        }
        let holders = self.basis.holders.holders(key).iter();
        let asking = holders.filter(|holder| compared[*holder].has_endpoints);
        asking.min_by_key(|holder| compared[*holder].staying() == 0).cloned()
    }

    /// An instance of a Service that lost the name, or left it to another. It is deregistered after a holder has an
    /// instance, and if its Service left, after that is complete under its new name, as far as possible. If the claim
    /// is ended and no holder requests instances, there is no wait. The instances of an unclear Service stay, unless
    /// `NAME_POLICY` denies them.
    fn of_another(&self, key: &ServiceKey, marked: &ServiceRef) -> Option<Decision> {
        let ended = self.ended(key, marked);
        if ended.is_none() && self.basis.holders.is_unclear(marked) {
            return None;
        }
        let mut holders = self.basis.holders.holders(key).iter();
        let holder = holders.find(|holder| self.basis.affected.contains(*holder))?;
        let serves = self.compared.under(key)?.values().any(|comparison| comparison.has_registered);
        let follows = match self.first_to_serve(key) {
            None if ended.is_none() && !serves => Some(holder.clone()),
            first => first,
        };
        // If a Service still requests this name, the new name is this one, and in conflict.
        let claims = self.basis.holders.claims(marked).filter(|_| ended.is_none());
        let new_name = claims.and_then(|_| self.new_name(marked));
        let moves = matches!(new_name, Some(WaitsFor::NewName(_)));
        let because = ended.unwrap_or_else(|| match claims {
            Some(claims) if !claims.contains(key) => DeregisterReason::NameChanged(marked.clone()),
            _ => DeregisterReason::NameHeldBy(holder.clone()),
        });
        let renamed = marked.clone();
        let waits_for = match (follows, moves) {
            (Some(holder), true) => Some(WaitsFor::HolderAndNewName { holder, renamed }),
            (Some(holder), false) => Some(WaitsFor::Holder(holder)),
            (None, true) => Some(WaitsFor::NewName(renamed)),
            (None, false) => None,
        };
        Some((holder.clone(), because, waits_for))
    }

    /// The reason why a Service has no claim to the name any more, independent of its present claims.
    fn ended(&self, key: &ServiceKey, marked: &ServiceRef) -> Option<DeregisterReason> {
        if self.basis.holders.claims(marked).is_none() {
            let gone = match self.basis.observation.owner.flow {
                Flow::Annotations => DeregisterReason::ServiceGone,
                Flow::Exports => DeregisterReason::NotExported,
            };
            return Some(gone(marked.clone()));
        }
        let denied = self.basis.observation.permit(marked, key).is_err();
        denied.then(|| DeregisterReason::NotAllowed(marked.clone()))
    }

    /// An instance under a name that no Service of the cluster claims, or only an unclear one.
    fn of_nobody(&self, key: &ServiceKey, candidate: &MarkedInstance) -> Option<Decision> {
        let marked = &candidate.service;
        if let Some(because) = self.ended(key, marked) {
            return Some((marked.clone(), because, None));
        }
        let claims = self.basis.holders.claims(marked)?;
        if self.basis.holders.is_unclear(marked) || claims.contains(key) {
            return None;
        }
        let waits_for = self.in_namesake(key, candidate).or_else(|| self.new_name(marked));
        Some((marked.clone(), DeregisterReason::NameChanged(marked.clone()), waits_for))
    }

    /// The wait of an instance under its Service's name in another namespace than the chosen one, if both have the name that
    /// the Service refers to: it stays as long as its endpoint does.
    fn in_namesake(&self, key: &ServiceKey, candidate: &MarkedInstance) -> Option<WaitsFor> {
        let observation = self.basis.observation;
        let published = observation.desired.services.get(&candidate.service)?;
        let claims = published.claims.as_ref().ok()?;
        let candidates = observation.registry.candidates(&claims.namespace);
        let mut keys = claims.names.iter().flat_map(|name| {
            candidates.iter().map(|namespace| ServiceKey::new(namespace, name.as_str()))
        });
        let identity = Identity::of(candidate.attributes, false);
        let stays = |endpoint: &Endpoint| {
            health::of_endpoint(endpoint, claims, false).is_some()
                && endpoint.addresses().any(|it| identity.addresses().any(|own| own == it))
        };
        let stays = || published.endpoints.iter().flatten().any(stays);
        let chooses = || WaitsFor::NamespaceById(candidate.service.clone());
        (keys.any(|it| it == *key) && stays()).then(chooses)
    }

    fn new_name(&self, service: &ServiceRef) -> Option<WaitsFor> {
        waits_for_new_name(self.basis, self.compared, service)
    }
}
