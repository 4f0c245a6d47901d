//! The claims that lead to nothing, each with the reason.

use std::collections::BTreeSet;

use super::Holders;
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
        // The first plan has the line about a name that is held elsewhere.
        let elsewhere = &observation.desired.held_elsewhere;
        let others = claims.keys.iter();
        let others = others.filter(|key| !self.holds(key, service) && !elsewhere.contains_key(key));
        reasons.extend(others.filter_map(|key| {
            let claimants = self.names.get(key)?;
            let (holder, alone) = (claimants.holders.first()?.clone(), claimants.alone.clone());
            Some((Some(place(key)), Reason::DomainConflict { holder, alone }))
        }));
        reasons
    }
}
