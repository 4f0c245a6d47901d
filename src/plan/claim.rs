//! Who claims a name in Cloud Map, and who holds it. One Kubernetes Service of a cluster holds a key
//! and the others wait, or all of them share it, where all of them say so. The same cluster and registry
//! contents always give the same holders. The names of a Service that are too many are not claimed.

use std::collections::{BTreeMap, BTreeSet};

use super::asked_names::{all_keys, limit_names};
use super::{Denial, HeldBack, Observation, Place, Reason};
use crate::model::{AnnotatedService, Claim, ServiceKey, ServiceRef, UnresolvedNamespace};

/// Every claim of a cluster, settled.
#[derive(Debug, Default)]
pub struct Holders {
    held: BTreeMap<ServiceKey, Vec<ServiceRef>>,
    claimants: BTreeMap<ServiceKey, BTreeSet<ServiceRef>>,
    unresolved: BTreeMap<ServiceRef, Vec<UnresolvedNamespace>>,
    unclear: BTreeSet<ServiceRef>,
    claims: BTreeMap<ServiceRef, BTreeSet<ServiceKey>>,
    denied: BTreeMap<ServiceRef, Vec<(Option<ServiceKey>, Denial)>>,
    too_many: BTreeMap<ServiceRef, Reason>,
}

impl Holders {
    /// Settles who holds each claimed key: the present holder while it still claims the key, or may
    /// for all that can be told, with or without registered instances of this run; else the oldest
    /// claimant. A key that all of them share they hold together.
    pub fn decide(observation: &Observation) -> Self {
        let mut all = Self::default();
        for (service, annotated) in &observation.desired.services {
            match observation.rule(service) {
                Ok(_) => all.add(observation, service, annotated),
                // It may claim nothing, so it does not matter what it asks for.
                Err(denial) => {
                    all.claims.insert(service.clone(), BTreeSet::new());
                    all.denied.insert(service.clone(), vec![(None, denial)]);
                }
            }
        }
        for (key, claimants) in &mut all.claimants {
            let marked: BTreeSet<ServiceRef> = observation.marked_services(key).collect();
            let unclear = marked.intersection(&all.unclear);
            let unclear = unclear.filter(|it| observation.permit(it, key).is_ok());
            let unclear: Vec<ServiceRef> = unclear.cloned().collect();
            // Who came under the name before stays, though one of them cannot be told any more.
            let settled = unclear.is_empty() || !claimants.is_disjoint(&marked);
            let mut holders: Vec<ServiceRef> = claimants.iter().cloned().collect();
            if settled && holders.iter().all(|service| shares(observation, service)) {
                holders.sort_by_key(|service| age(observation, service));
            } else {
                claimants.extend(unclear);
                holders = holder(observation, claimants, &marked).cloned().into_iter().collect();
            }
            all.held.insert(key.clone(), holders);
        }
        all
    }

    fn add(
        &mut self,
        observation: &Observation,
        service: &ServiceRef,
        annotated: &AnnotatedService,
    ) {
        let (keys, unresolved) = all_keys(observation, annotated);
        let (mut keys, denied) = observation.allowed(service, keys);
        if let Some(reason) = limit_names(observation, service, annotated, &mut keys) {
            self.too_many.insert(service.clone(), reason);
        }
        let keys: BTreeSet<ServiceKey> = keys.into_iter().collect();
        for key in &keys {
            self.claimants.entry(key.clone()).or_default().insert(service.clone());
        }
        self.claims.insert(service.clone(), keys);
        if annotated.claims.is_err() || !unresolved.is_empty() {
            self.unclear.insert(service.clone());
        }
        if !unresolved.is_empty() {
            self.unresolved.insert(service.clone(), unresolved);
        }
        if !denied.is_empty() {
            self.denied.insert(service.clone(), denied);
        }
    }

    /// Who holds a key: of those who share it the oldest, who decides where they differ.
    pub fn holder(&self, key: &ServiceKey) -> Option<&ServiceRef> {
        self.holders(key).first()
    }

    /// All who hold a key, the oldest first.
    pub fn holders(&self, key: &ServiceKey) -> &[ServiceRef] {
        self.held.get(key).map_or(&[], Vec::as_slice)
    }

    /// Whether a Service holds a key, alone or with others.
    pub fn holds(&self, key: &ServiceKey, service: &ServiceRef) -> bool {
        self.holders(key).contains(service)
    }

    /// Every key with each of its holders.
    pub fn held(&self) -> impl Iterator<Item = (&ServiceKey, &ServiceRef)> {
        let held = self.held.iter();
        held.flat_map(|(key, holders)| holders.iter().map(move |holder| (key, holder)))
    }

    /// Every key that is claimed.
    pub fn keys(&self) -> impl Iterator<Item = &ServiceKey> {
        self.held.keys()
    }

    /// Who of the `affected` Services holds a key, as far as it can be told what they ask for.
    pub fn asking(&self, key: &ServiceKey, affected: &BTreeSet<ServiceRef>) -> Vec<&ServiceRef> {
        let asks = |it: &&ServiceRef| affected.contains(*it) && !self.is_unclear(it);
        self.holders(key).iter().filter(asks).collect()
    }

    /// The Services and those who share a name with them: what one of them leaves another may want.
    pub fn with_sharers(&self, services: &BTreeSet<ServiceRef>) -> BTreeSet<ServiceRef> {
        let shared = self.claimed_by(services).map(|key| self.holders(key));
        let shared = shared.filter(|holders| holders.len() > 1);
        shared.flatten().chain(services).cloned().collect()
    }

    /// The keys that these Services claim.
    pub fn claimed_by<'a>(
        &'a self,
        services: &'a BTreeSet<ServiceRef>,
    ) -> impl Iterator<Item = &'a ServiceKey> {
        services.iter().filter_map(|service| self.claims(service)).flatten()
    }

    /// The keys that a Service claims; `None` where it is no annotated headless Service.
    pub fn claims(&self, service: &ServiceRef) -> Option<&BTreeSet<ServiceKey>> {
        self.claims.get(service)
    }

    /// Every Service that claims a key, the holder included.
    pub fn claimants(&self, key: &ServiceKey) -> impl Iterator<Item = &ServiceRef> {
        self.claimants.get(key).into_iter().flatten()
    }

    /// What the Service claims and may not; without a key: whatever it claims.
    pub fn denied(&self, service: &ServiceRef) -> &[(Option<ServiceKey>, Denial)] {
        self.denied.get(service).map_or(&[], Vec::as_slice)
    }

    /// Whether the Service asks for something that cannot be told: then nothing of it is taken out, and
    /// nobody else comes under the names it has.
    pub fn is_unclear(&self, service: &ServiceRef) -> bool {
        self.unclear.contains(service)
    }

    /// The claims that lead to nothing: those that are not allowed or too many, bad annotations, namespaces that
    /// are not to be found, names that another Service holds.
    pub fn held_back(
        &self,
        observation: &Observation,
        affected: &BTreeSet<ServiceRef>,
    ) -> Vec<HeldBack> {
        let mut held_back = Vec::new();
        for service in affected {
            let mut hold_back = |place, reason| {
                held_back.push(HeldBack { service: service.clone(), place, reason });
            };
            let denied = self.denied(service);
            for (key, denial) in denied {
                let place = key.as_ref().map(|key| Place::of(key, &observation.registry));
                hold_back(place, Reason::NotAllowed(denial.clone()));
            }
            if denied.iter().any(|(key, _)| key.is_none()) {
                continue;
            }
            let annotated = observation.desired.services.get(service);
            if let Some(Err(mistakes)) = annotated.map(|annotated| &annotated.claims) {
                for mistake in mistakes {
                    hold_back(None, Reason::BadAnnotation(mistake.clone()));
                }
            }
            if let Some(reason) = self.too_many.get(service) {
                hold_back(None, reason.clone());
            }
            for problem in self.unresolved.get(service).into_iter().flatten() {
                hold_back(None, Reason::Namespace(problem.clone()));
            }
            let claims = self.claims.get(service).into_iter().flatten();
            for key in claims.filter(|key| !self.holds(key, service)) {
                let Some(holder) = self.holder(key).cloned() else { continue };
                let alone = self.alone(observation, key);
                let place = Place::of(key, &observation.registry);
                hold_back(Some(place), Reason::DomainConflict { holder, alone });
            }
        }
        held_back
    }

    /// The Services that claim a key for themselves alone, where others would share it.
    fn alone(&self, observation: &Observation, key: &ServiceKey) -> Vec<ServiceRef> {
        let claimants = self.claimants(key).filter(|service| !self.is_unclear(service));
        let (sharing, alone): (Vec<_>, Vec<_>) =
            claimants.cloned().partition(|service| shares(observation, service));
        if sharing.is_empty() { Vec::new() } else { alone }
    }
}

fn holder<'a>(
    observation: &Observation,
    claimants: &'a BTreeSet<ServiceRef>,
    marked: &BTreeSet<ServiceRef>,
) -> Option<&'a ServiceRef> {
    // The present holders come first: `false` sorts before `true`.
    let rank = |service: &&ServiceRef| (!marked.contains(*service), age(observation, service));
    claimants.iter().min_by_key(rank)
}

/// What the older of two Services has less of; of the same age the first by name counts as older.
fn age(observation: &Observation, service: &ServiceRef) -> (i64, ServiceRef) {
    (observation.desired.services[service].created, service.clone())
}

fn shares(observation: &Observation, service: &ServiceRef) -> bool {
    let claims = observation.desired.claims(service);
    claims.is_some_and(|claims| claims.claim == Claim::Shared)
}
