//! Who claims a name in Cloud Map, and who holds it. One Kubernetes Service of a cluster holds a key;
//! the others wait. The same cluster and registry contents always give the same holder.

use std::collections::{BTreeMap, BTreeSet};

use super::{Denial, HeldBack, Observation, Place, Reason};
use crate::model::{
    AnnotatedService, Marks, Selection, ServiceKey, ServiceRef, UnresolvedNamespace,
};

/// Every claim of a cluster, settled.
#[derive(Debug, Default)]
pub struct Holders {
    held: BTreeMap<ServiceKey, ServiceRef>,
    claimants: BTreeMap<ServiceKey, BTreeSet<ServiceRef>>,
    unresolved: BTreeMap<ServiceRef, Vec<UnresolvedNamespace>>,
    unclear: BTreeSet<ServiceRef>,
    claims: BTreeMap<ServiceRef, BTreeSet<ServiceKey>>,
    denied: BTreeMap<ServiceRef, Vec<(Option<ServiceKey>, Denial)>>,
}

impl Holders {
    /// Settles who holds each claimed key: the present holder while it still claims the key, or may
    /// for all that can be told, with or without registered instances of this run; else the oldest
    /// claimant.
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
            let marked = marked(observation, key);
            let unclear = marked.intersection(&all.unclear);
            claimants.extend(unclear.filter(|it| observation.permit(it, key).is_ok()).cloned());
            if let Some(holder) = holder(observation, claimants, &marked) {
                all.held.insert(key.clone(), holder.clone());
            }
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
        let (keys, denied) = observation.allowed(service, keys);
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

    /// Who holds a key.
    pub fn holder(&self, key: &ServiceKey) -> Option<&ServiceRef> {
        self.held.get(key)
    }

    /// Every key with its holder.
    pub fn held(&self) -> impl Iterator<Item = (&ServiceKey, &ServiceRef)> {
        self.held.iter()
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

    /// The claims that lead to nothing: those that are not allowed, bad annotations, namespaces that
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
            for problem in self.unresolved.get(service).into_iter().flatten() {
                hold_back(None, Reason::Namespace(problem.clone()));
            }
            let claims = self.claims.get(service).into_iter().flatten();
            for (key, holder) in claims.filter_map(|key| Some((key, self.holder(key)?))) {
                if holder != service {
                    let place = Place::of(key, &observation.registry);
                    hold_back(Some(place), Reason::DomainConflict { holder: holder.clone() });
                }
            }
        }
        held_back
    }
}

/// The Services whose endpoints and changes a run over `selection` has to look at: those selected,
/// whether they exist or only left marks, and whoever holds a name that they claim or are found under.
pub fn affected(observation: &Observation, selection: &Selection) -> BTreeSet<ServiceRef> {
    let holders = Holders::decide(observation);
    let existing = observation.desired.services.keys().cloned();
    let mut affected: BTreeSet<ServiceRef> =
        existing.filter(|service| selection.contains(service)).collect();
    let mut keys: BTreeSet<&ServiceKey> =
        affected.iter().filter_map(|service| holders.claims(service)).flatten().collect();
    for (key, marked) in marks(observation) {
        if selection.contains(&marked) {
            keys.insert(key);
            affected.insert(marked);
        }
    }
    let held = keys.into_iter().filter_map(|key| holders.holder(key).cloned());
    affected.extend(held.collect::<Vec<_>>());
    affected
}

/// The Service in the marks of every instance of ours.
fn marks(observation: &Observation) -> impl Iterator<Item = (&ServiceKey, ServiceRef)> {
    observation.registry.services.keys().flat_map(move |key| {
        let instances = observation.registry.instances(key);
        instances.filter_map(move |(_, attributes)| {
            Some((key, Marks::read(attributes, &observation.owner)?.service))
        })
    })
}

fn all_keys(
    observation: &Observation,
    annotated: &AnnotatedService,
) -> (BTreeSet<ServiceKey>, Vec<UnresolvedNamespace>) {
    let mut keys = BTreeSet::new();
    let mut unresolved = Vec::new();
    if let Ok(claims) = &annotated.claims {
        for name in &claims.names {
            match observation.registry.key(&claims.namespace, name) {
                Ok(key) => _ = keys.insert(key),
                Err(problem) => {
                    unresolved.push(observation.explained(problem, &claims.namespace));
                }
            }
        }
    }
    (keys, unresolved)
}

fn holder<'a>(
    observation: &Observation,
    claimants: &'a BTreeSet<ServiceRef>,
    marked: &BTreeSet<ServiceRef>,
) -> Option<&'a ServiceRef> {
    let age = |service: &ServiceRef| observation.desired.services[service].created;
    claimants.iter().min_by_key(|service| {
        // The present holders come first: `false` sorts before `true`.
        (!marked.contains(*service), age(service), (*service).clone())
    })
}

/// The Services in the marks of our instances under a key.
fn marked(observation: &Observation, key: &ServiceKey) -> BTreeSet<ServiceRef> {
    let instances = observation.registry.instances(key);
    let marks = instances.filter_map(|(_, it)| Marks::read(it, &observation.owner));
    marks.map(|marks| marks.service).collect()
}
