//! The claimants of each name in Cloud Map, and its holder. At most one Kubernetes Service of a cluster holds a key,
//! and the other claimants wait. While the guard holds the instances of a Service, no other Service gets its names. The
//! same cluster and registry contents always give the same holders. Names beyond the maximum of a Service are not
//! claimed.

use std::collections::{BTreeMap, BTreeSet};

use super::guard::held_services;
use super::names::{max_names, repeated_namespace, rule};
use super::namespaces;
use super::observation::Observation;
use super::reason::{HeldBack, Reason};
use crate::model::{Place, PublishedService, ServiceKey, ServiceRef};

/// The holder of each name, and the claims of each Service.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    names: BTreeMap<ServiceKey, Claimants>,
    services: BTreeMap<ServiceRef, ServiceClaims>,
    /// The Services whose claims are unclear. Each group of a run asks for them, so they are not searched for each time.
    unclear: BTreeSet<ServiceRef>,
}

/// The Services that claim one name.
#[derive(Clone, Debug)]
struct Claimants {
    all: BTreeSet<ServiceRef>,
    /// The claimant that holds it; `None` while the name is kept for another Service.
    holder: Option<ServiceRef>,
    /// The Service that no longer claims the name, and has instances there that the guard holds.
    kept_for: Option<ServiceRef>,
}

/// The claims of one Service, and the parts of its annotations that lead to no claim.
#[derive(Clone, Debug, Default)]
struct ServiceClaims {
    keys: BTreeSet<ServiceKey>,
    /// The excluded claims, each with the reason. `None` stands for all claims, or for an unknown key.
    excluded: Vec<(Option<ServiceKey>, Reason)>,
    is_unclear: bool,
}

impl Holders {
    /// Decides the holder of each claimed key. A Service with instances there keeps the key while it claims it, or
    /// while its annotations cannot be read; otherwise the oldest claimant gets the key.
    pub fn decide(observation: &Observation) -> Self {
        let mut services = BTreeMap::new();
        let mut unclear = BTreeSet::new();
        let mut claimants: BTreeMap<ServiceKey, BTreeSet<ServiceRef>> = BTreeMap::new();
        for (service, annotated) in &observation.desired.services {
            let claims = ServiceClaims::of(observation, service, annotated);
            if claims.is_unclear {
                unclear.insert(service.clone());
            }
            for key in &claims.keys {
                claimants.entry(key.clone()).or_default().insert(service.clone());
            }
            services.insert(service.clone(), claims);
        }
        let mut all = Self { names: BTreeMap::new(), services, unclear };
        let held = held_services(observation);
        for (key, claimants) in claimants {
            let settled = match observation.desired.held_elsewhere.get(&key) {
                Some(holder) => {
                    Claimants { all: claimants, holder: Some(holder.clone()), kept_for: None }
                }
                None => all.settle(observation, &key, claimants, &held),
            };
            all.names.insert(key, settled);
        }
        all
    }

    /// Decides which claimant holds the key. If no claimant has an instance there, an unclear Service that has one
    /// counts as a claimant too.
    ///
    /// The oldest is not always the holder. If clients find shop/web under `web`, and the older shop/cart claims `web`
    /// as well, clients of `web` would reach other pods from one sync to the next, so a Service with instances there
    /// keeps the name. Nor may a typing error end a claim: shop/web would lose `web` to the next claimant, and not get
    /// it back. But if shop/cart has instances there too, it becomes the holder: under an unclear holder nothing is
    /// compared, and the instances of shop/cart would lead to deleted pods until the error is fixed.
    fn settle(
        &self,
        observation: &Observation,
        key: &ServiceKey,
        mut claimants: BTreeSet<ServiceRef>,
        held: &BTreeSet<ServiceRef>,
    ) -> Claimants {
        let marked: BTreeSet<ServiceRef> = observation.marked_services(key).collect();
        if claimants.is_disjoint(&marked) {
            if let Some(kept_for) = marked.intersection(held).next() {
                return Claimants {
                    all: claimants,
                    holder: None,
                    kept_for: Some(kept_for.clone()),
                };
            }
            let may_claim = |service: &&ServiceRef| {
                self.is_unclear(service) && observation.name_limits(service, key).is_ok()
            };
            claimants.extend(marked.iter().filter(may_claim).cloned());
        }
        // A Service with instances comes first: `false` sorts before `true`.
        let rank = |service: &&ServiceRef| (!marked.contains(*service), age(observation, service));
        let holder = claimants.iter().min_by_key(rank).cloned();
        Claimants { all: claimants, holder, kept_for: None }
    }

    pub fn holder(&self, key: &ServiceKey) -> Option<&ServiceRef> {
        self.names.get(key)?.holder.as_ref()
    }

    /// The Service for which a key is kept: it no longer claims the key, and the guard holds its instances there.
    pub fn kept_for(&self, key: &ServiceKey) -> Option<&ServiceRef> {
        self.names.get(key)?.kept_for.as_ref()
    }

    /// The Service that keeps others from a key: the holder, or the Service for which the key is kept.
    pub fn keeper(&self, key: &ServiceKey) -> Option<&ServiceRef> {
        self.holder(key).or_else(|| self.kept_for(key))
    }

    pub fn holds(&self, key: &ServiceKey, service: &ServiceRef) -> bool {
        self.holder(key) == Some(service)
    }

    /// Every key with its holder.
    pub fn with_holders(&self) -> impl Iterator<Item = (&ServiceKey, &ServiceRef)> {
        self.names.iter().filter_map(|(key, claimants)| Some((key, claimants.holder.as_ref()?)))
    }

    /// Every key that is claimed.
    pub fn keys(&self) -> impl Iterator<Item = &ServiceKey> {
        self.names.keys()
    }

    /// Every key with its holder, if that is one of the `affected` Services and not unclear.
    pub fn held_clearly_by<'a>(
        &'a self,
        affected: &'a BTreeSet<ServiceRef>,
    ) -> impl Iterator<Item = (&'a ServiceKey, &'a ServiceRef)> {
        self.with_holders()
            .filter(|(_, holder)| affected.contains(*holder) && !self.is_unclear(holder))
    }

    pub fn claimed_by<'a>(
        &'a self,
        services: &'a BTreeSet<ServiceRef>,
    ) -> impl Iterator<Item = &'a ServiceKey> {
        services.iter().filter_map(|service| self.claims(service)).flatten()
    }

    /// The keys that a Service claims; `None` if it is not among the desired Services.
    pub fn claims(&self, service: &ServiceRef) -> Option<&BTreeSet<ServiceKey>> {
        self.services.get(service).map(|claims| &claims.keys)
    }

    /// Every Service that claims a key, the holder included.
    pub fn claimants(&self, key: &ServiceKey) -> impl Iterator<Item = &ServiceRef> {
        self.names.get(key).into_iter().flat_map(|claimants| &claimants.all)
    }

    /// The claims of a Service that `NAME_POLICY` denies; `None` stands for all of its claims.
    pub fn denied(&self, service: &ServiceRef) -> impl Iterator<Item = Option<&ServiceKey>> {
        let excluded = self.services.get(service).into_iter().flat_map(|claims| &claims.excluded);
        let denied = excluded.filter(|(_, reason)| matches!(reason, Reason::NotAllowed(_)));
        denied.map(|(key, _)| key.as_ref())
    }

    /// The Services whose claims are unclear.
    pub fn unclear(&self) -> impl Iterator<Item = &ServiceRef> {
        self.unclear.iter()
    }

    /// Whether the claims of the Service are unclear: an annotation is invalid, or its namespace cannot be resolved.
    /// Its instances then stay, and no Service without instances under their names gets these names.
    pub fn is_unclear(&self, service: &ServiceRef) -> bool {
        self.unclear.contains(service)
    }

    /// Returns a line for each excluded claim and for each claimed name that another Service holds. Also returns a
    /// remark for each name that repeats its namespace, for a namespace that only instances decide, and for annotations
    /// that the function does not read.
    pub fn held_back(&self, observation: &Observation) -> Vec<HeldBack> {
        // The comparison of all Services has already reported the names that a Service outside this group holds.
        let elsewhere = &observation.desired.held_elsewhere;
        let mut lines = Vec::new();
        for service in &observation.affected {
            let Some(claims) = self.services.get(service) else { continue };
            let not_held = claims.keys.iter().filter(|key| !self.holds(key, service));
            let not_held = not_held.filter(|key| !elsewhere.contains_key(key));
            let conflicts = not_held.filter_map(|key| {
                let holder = self.keeper(key)?.clone();
                Some((Some(key.clone()), Reason::DomainConflict { holder }))
            });
            let repeated = claims
                .keys
                .iter()
                .filter_map(|key| Some((Some(key.clone()), repeated_namespace(observation, key)?)));
            let published = observation.desired.services.get(service);
            let unknown = published.and_then(|published| published.unknown_annotations.clone());
            let unknown = unknown.map(Reason::UnknownAnnotation);
            let remarks = namespaces::remark(observation, service).into_iter().chain(unknown);
            let remarks = repeated.chain(remarks.map(|remark| (None, remark)));
            let all = claims.excluded.iter().cloned().chain(conflicts).chain(remarks);
            lines.extend(all.map(|(key, reason)| {
                let place = key.map(|key| Place::of(&key, &observation.registry));
                HeldBack { service: service.clone(), place, reason }
            }));
        }
        lines
    }
}

impl ServiceClaims {
    fn of(observation: &Observation, service: &ServiceRef, annotated: &PublishedService) -> Self {
        // The Service may claim nothing, so mistakes in its annotations are not reported.
        if let Err(denial) = rule(observation, service) {
            return Self { excluded: vec![(None, Reason::NotAllowed(denial))], ..Self::default() };
        }
        let mut keys = Vec::new();
        let mut excluded = Vec::new();
        let mut unresolved = None;
        match &annotated.claims {
            Ok(claims) => {
                for name in &claims.names {
                    match observation.key(service, &claims.namespace, name) {
                        // Names that differ in case are one in a DNS namespace.
                        Ok(key) if keys.contains(&key) => {}
                        Ok(key) => keys.push(key),
                        Err(problem) => {
                            unresolved = Some(namespaces::complete_problem(
                                observation,
                                problem,
                                &claims.namespace,
                            ));
                        }
                    }
                }
            }
            Err(mistakes) => {
                let mistakes = mistakes.iter().cloned().map(Reason::BadAnnotation);
                excluded.extend(mistakes.map(|mistake| (None, mistake)));
            }
        }
        keys.retain(|key| match observation.name_limits(service, key) {
            Ok(_) => true,
            Err(denial) => {
                excluded.push((Some(key.clone()), Reason::NotAllowed(denial)));
                false
            }
        });
        let left_out = annotated.claims.as_ref().map_or(0, |claims| claims.names_left_out);
        let first = annotated.claims.as_ref().map_or(0, |claims| claims.names.len());
        let policy_maximum =
            max_names(observation, service).filter(|maximum| *maximum < keys.len());
        keys.truncate(policy_maximum.unwrap_or(first));
        if let Some(maximum) = policy_maximum.or((left_out > 0).then_some(first)) {
            let asked = first + left_out;
            let by_policy = policy_maximum.is_some();
            excluded.push((None, Reason::TooManyNames { asked, maximum, by_policy }));
        }
        // An unclear Service gets no new instances. If the namespace of its name `cart` is ambiguous and it still
        // claimed `web`, it would only keep `web` from another Service.
        if unresolved.is_some() {
            keys.clear();
        }
        let is_unclear = annotated.claims.is_err() || unresolved.is_some();
        excluded.extend(unresolved.map(|problem| (None, Reason::Namespace(problem))));
        Self { keys: keys.into_iter().collect(), excluded, is_unclear }
    }
}

/// The sort key for the oldest Service first. Services of the same age are ordered by name.
fn age(observation: &Observation, service: &ServiceRef) -> (i64, ServiceRef) {
    (observation.desired.services[service].created, service.clone())
}
