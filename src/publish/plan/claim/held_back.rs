//! The claims that lead to nothing, each with the reason.

use std::collections::BTreeSet;

use super::{Holders, shares};
use crate::model::{ServiceKey, ServiceRef};
use crate::publish::plan::{HeldBack, Observation, Place, Reason};

impl Holders {
    /// The claims that lead to nothing: those that are not allowed or too many, bad annotations, namespaces that
    /// are not to be found, names that another Service holds.
    pub fn held_back(
        &self,
        observation: &Observation,
        affected: &BTreeSet<ServiceRef>,
    ) -> Vec<HeldBack> {
        let all = affected.iter().flat_map(|service| {
            self.reasons(observation, service).into_iter().map(|(place, reason)| HeldBack {
                service: service.clone(),
                place,
                reason,
            })
        });
        all.collect()
    }

    fn reasons(
        &self,
        observation: &Observation,
        service: &ServiceRef,
    ) -> Vec<(Option<Place>, Reason)> {
        let Some(claims) = self.services.get(service) else { return Vec::new() };
        let place = |key: &ServiceKey| Place::of(key, &observation.registry);
        let denied = claims.denied.iter();
        let denied =
            denied.map(|(key, why)| (key.as_ref().map(place), Reason::NotAllowed(why.clone())));
        let mut reasons: Vec<(Option<Place>, Reason)> = denied.collect();
        let annotated = observation.desired.services.get(service);
        if observation.rule(service).is_ok()
            && let Some(Err(mistakes)) = annotated.map(|annotated| &annotated.claims)
        {
            reasons.extend(mistakes.iter().map(|it| (None, Reason::BadAnnotation(it.clone()))));
        }
        reasons.extend(claims.too_many.iter().map(|reason| (None, reason.clone())));
        reasons.extend(claims.unresolved.iter().map(|it| (None, Reason::Namespace(it.clone()))));
        let others = claims.keys.iter().filter(|key| !self.holds(key, service));
        reasons.extend(others.filter_map(|key| {
            let (holder, alone) = (self.holder(key)?.clone(), self.alone(observation, key));
            Some((Some(place(key)), Reason::DomainConflict { holder, alone }))
        }));
        reasons
    }

    /// The Services that claim a key for themselves alone, if others would share it.
    fn alone(&self, observation: &Observation, key: &ServiceKey) -> Vec<ServiceRef> {
        let claimants = self.claimants(key).filter(|service| !self.is_unclear(service));
        let (sharing, alone): (Vec<_>, Vec<_>) =
            claimants.cloned().partition(|service| shares(observation, service));
        if sharing.is_empty() { Vec::new() } else { alone }
    }
}
