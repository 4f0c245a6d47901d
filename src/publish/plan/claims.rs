//! The claimants of each name in Cloud Map, and its holder. One Kubernetes Service of a cluster holds a key, and the others
//! wait. The same cluster and registry contents always give the same holders. The names beyond the maximum of a Service
//! are not claimed.
//!
//! A Cloud Map service that no Service of any cluster claims is deleted: [`Claimed`] joins the claims of all clusters, and
//! decides.

use std::collections::{BTreeMap, BTreeSet};

use super::change::Change;
use super::observation::{Observation, Plan};
use super::reason::{HeldBack, Reason};
use crate::model::{
    CloudMapService, InstanceKey, Place, PublishedService, Registry, ServiceKey, ServiceRef, Tags,
};

/// Every claim of a cluster, settled.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    names: BTreeMap<ServiceKey, Claimants>,
    services: BTreeMap<ServiceRef, ServiceClaims>,
}

/// The Services that claim one name.
#[derive(Clone, Debug)]
struct Claimants {
    all: BTreeSet<ServiceRef>,
    /// The claimant that holds it.
    holder: ServiceRef,
}

/// The claims of one Service, and the parts of its annotations that lead to no claim.
#[derive(Clone, Debug, Default)]
struct ServiceClaims {
    keys: BTreeSet<ServiceKey>,
    /// The excluded claims, each with the reason; without a key: all of them, or one without a known key.
    excluded: Vec<(Option<ServiceKey>, Reason)>,
    is_unclear: bool,
}

impl Holders {
    /// Decides the holder of each claimed key: the present holder while it still claims the key, or may claim it as far
    /// as its annotations can be read; else the oldest claimant.
    pub fn decide(observation: &Observation) -> Self {
        let mut services = BTreeMap::new();
        let mut claimants: BTreeMap<ServiceKey, BTreeSet<ServiceRef>> = BTreeMap::new();
        for (service, annotated) in &observation.desired.services {
            let claims = ServiceClaims::of(observation, service, annotated);
            for key in &claims.keys {
                claimants.entry(key.clone()).or_default().insert(service.clone());
            }
            services.insert(service.clone(), claims);
        }
        let mut all = Self { names: BTreeMap::new(), services };
        for (key, claimants) in claimants {
            let settled = match observation.desired.held_elsewhere.get(&key) {
                Some(holder) => Some(Claimants { all: claimants, holder: holder.clone() }),
                None => all.settle(observation, &key, claimants),
            };
            all.names.extend(settled.map(|settled| (key, settled)));
        }
        all
    }

    /// Decides which of the claimants holds the key. An unclear Service with instances there may claim it, too, if none of
    /// them has any.
    ///
    /// The oldest is not always the holder. If shop/web is found under `web`, and the older shop/cart asks for `web` as
    /// well, clients of `web` would reach other pods from one sync to the next: so a Service with instances there keeps it.
    /// Nor may a typing error end a claim: shop/web would lose `web` to the next claimant, and not get it back. But if both
    /// have instances there, those of shop/cart would lead to pods that are gone until the error is mended.
    fn settle(
        &self,
        observation: &Observation,
        key: &ServiceKey,
        mut claimants: BTreeSet<ServiceRef>,
    ) -> Option<Claimants> {
        let marked: BTreeSet<ServiceRef> = observation.marked_services(key).collect();
        if claimants.is_disjoint(&marked) {
            let may_claim = |service: &&ServiceRef| {
                self.is_unclear(service) && observation.permit(service, key).is_ok()
            };
            claimants.extend(marked.iter().filter(may_claim).cloned());
        }
        // A Service with instances comes first: `false` sorts before `true`.
        let rank = |service: &&ServiceRef| (!marked.contains(*service), age(observation, service));
        let holder = claimants.iter().min_by_key(rank)?.clone();
        Some(Claimants { all: claimants, holder })
    }

    /// The holder of a key.
    pub fn holder(&self, key: &ServiceKey) -> Option<&ServiceRef> {
        self.names.get(key).map(|claimants| &claimants.holder)
    }

    /// Whether a Service holds a key.
    pub fn holds(&self, key: &ServiceKey, service: &ServiceRef) -> bool {
        self.holder(key) == Some(service)
    }

    /// Every key with its holder.
    pub fn held(&self) -> impl Iterator<Item = (&ServiceKey, &ServiceRef)> {
        self.names.iter().map(|(key, claimants)| (key, &claimants.holder))
    }

    /// Every key that is claimed.
    pub fn keys(&self) -> impl Iterator<Item = &ServiceKey> {
        self.names.keys()
    }

    /// Every key whose holder is one of the `affected` Services and has annotations that can be read, with that holder.
    pub fn asked_by<'a>(
        &'a self,
        affected: &'a BTreeSet<ServiceRef>,
    ) -> impl Iterator<Item = (&'a ServiceKey, &'a ServiceRef)> {
        self.held().filter(|(_, holder)| affected.contains(*holder) && !self.is_unclear(holder))
    }

    /// The keys that these Services claim.
    pub fn claimed_by<'a>(
        &'a self,
        services: &'a BTreeSet<ServiceRef>,
    ) -> impl Iterator<Item = &'a ServiceKey> {
        services.iter().filter_map(|service| self.claims(service)).flatten()
    }

    /// The keys that a Service claims; `None` if it is no annotated headless Service.
    pub fn claims(&self, service: &ServiceRef) -> Option<&BTreeSet<ServiceKey>> {
        self.services.get(service).map(|claims| &claims.keys)
    }

    /// Every Service that claims a key, the holder included.
    pub fn claimants(&self, key: &ServiceKey) -> impl Iterator<Item = &ServiceRef> {
        self.names.get(key).into_iter().flat_map(|claimants| &claimants.all)
    }

    /// The claims of a Service that `NAME_POLICY` denies; without a key: all of its claims.
    pub fn denied(&self, service: &ServiceRef) -> impl Iterator<Item = Option<&ServiceKey>> {
        let excluded = self.services.get(service).into_iter().flat_map(|it| &it.excluded);
        let denied = excluded.filter(|(_, reason)| matches!(reason, Reason::NotAllowed(_)));
        denied.map(|(key, _)| key.as_ref())
    }

    /// The Services whose claims cannot be read.
    pub fn unclear(&self) -> impl Iterator<Item = &ServiceRef> {
        self.services.iter().filter(|(_, claims)| claims.is_unclear).map(|(service, _)| service)
    }

    /// Whether the claims of the Service cannot be read. Its instances stay then, and no Service that has
    /// none under their names gets these.
    pub fn is_unclear(&self, service: &ServiceRef) -> bool {
        self.services.get(service).is_some_and(|claims| claims.is_unclear)
    }

    /// The claims that lead to nothing: those that are excluded, and the names that another Service holds. And a remark on
    /// each name that repeats its namespace, on a namespace that instances alone decide, and on annotations that the
    /// function does not read.
    pub fn held_back(&self, observation: &Observation) -> Vec<HeldBack> {
        // The first plan has the line about a name that is held elsewhere.
        let elsewhere = &observation.desired.held_elsewhere;
        let mut lines = Vec::new();
        for service in &observation.affected {
            let Some(claims) = self.services.get(service) else { continue };
            let of_others = claims.keys.iter().filter(|key| !self.holds(key, service));
            let of_others = of_others.filter(|key| !elsewhere.contains_key(key));
            let conflicts = of_others.filter_map(|key| {
                let holder = self.holder(key)?.clone();
                Some((Some(key.clone()), Reason::DomainConflict { holder }))
            });
            let repeated = claims
                .keys
                .iter()
                .filter_map(|key| Some((Some(key.clone()), observation.repeated_namespace(key)?)));
            let published = observation.desired.services.get(service);
            let unknown = published.and_then(|it| it.unknown_annotations.clone());
            let unknown = unknown.map(Reason::UnknownAnnotation);
            let remarks = observation.chosen_by_instances(service).into_iter().chain(unknown);
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
        // It may claim nothing, so its annotations do not matter.
        if let Err(denial) = observation.rule(service) {
            return Self { excluded: vec![(None, Reason::NotAllowed(denial))], ..Self::default() };
        }
        let (mut keys, mut excluded, mut unresolved) = (Vec::new(), Vec::new(), None);
        match &annotated.claims {
            Ok(claims) => {
                for name in claims.names.iter().take(MAXIMUM) {
                    match observation.key(service, &claims.namespace, name) {
                        // Names that differ in case are one in a DNS namespace.
                        Ok(key) if keys.contains(&key) => {}
                        Ok(key) => keys.push(key),
                        Err(problem) => {
                            unresolved = Some(observation.explained(problem, &claims.namespace));
                        }
                    }
                }
            }
            Err(mistakes) => {
                let mistakes = mistakes.iter().cloned().map(Reason::BadAnnotation);
                excluded.extend(mistakes.map(|mistake| (None, mistake)));
            }
        }
        keys.retain(|key| match observation.permit(service, key) {
            Ok(_) => true,
            Err(denial) => {
                excluded.push((Some(key.clone()), Reason::NotAllowed(denial)));
                false
            }
        });
        let asked = annotated.claims.as_ref().map_or(0, |claims| claims.names.len());
        let of_rule = observation.max_names(service).filter(|maximum| *maximum < keys.len());
        keys.truncate(of_rule.unwrap_or(MAXIMUM));
        if let Some(maximum) = of_rule.or((asked > MAXIMUM).then_some(MAXIMUM)) {
            let by_policy = of_rule.is_some();
            excluded.push((None, Reason::TooManyNames { asked, maximum, by_policy }));
        }
        // If it got `web` while the namespace of `cart` is ambiguous, it would keep `web` from a Service that can have it.
        if unresolved.is_some() {
            keys.clear();
        }
        let is_unclear = annotated.claims.is_err() || unresolved.is_some();
        excluded.extend(unresolved.map(|problem| (None, Reason::Namespace(problem))));
        Self { keys: keys.into_iter().collect(), excluded, is_unclear }
    }
}

/// The sort key of the oldest first; of the same age the first by name counts as older.
fn age(observation: &Observation, service: &ServiceRef) -> (i64, ServiceRef) {
    (observation.desired.services[service].created, service.clone())
}

/// The most names that a Service claims, however many it asks for.
pub(super) const MAXIMUM: usize = 20;

// A service is deleted if it has our tag, no Service of any cluster claims its name, and it has no instances; with a single
// claim, if it is a [`misfit`](Observation::misfit). The claims of all clusters are joined in [`Claimed`]; if anything is
// uncertain, the service stays.

/// The claims of clusters to Cloud Map services, and the instances that a plan removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    keys: BTreeSet<ServiceKey>,
    /// Those of one claimant each, which the service does not fit.
    misfits: BTreeSet<ServiceKey>,
    /// Names, in lower case, that are claimed in a namespace that was not found.
    names: BTreeSet<String>,
    /// The Services with invalid annotations, which may claim any name. While there is one, no service is deleted.
    pub unclear: BTreeSet<String>,
    leaving: Leaving,
}

/// Instances that a plan removes, or that were removed.
pub type Leaving = BTreeSet<InstanceKey>;

impl Claimed {
    /// The claims of one cluster, and the instances that a sync of all of it has removed, or a plan would remove.
    pub fn of(observation: &Observation, leaving: Leaving) -> Self {
        let mut claimed = Self { leaving, ..Self::default() };
        let mut claimants: BTreeMap<ServiceKey, Vec<&ServiceRef>> = BTreeMap::new();
        for (service, annotated) in &observation.desired.services {
            let Ok(claims) = &annotated.claims else {
                let cluster = observation.owner.cluster.name();
                claimed.unclear.insert(format!("{service} of cluster {cluster}"));
                continue;
            };
            for name in &claims.names {
                match observation.key(service, &claims.namespace, name) {
                    Ok(key) => claimants.entry(key).or_default().push(service),
                    Err(_) => _ = claimed.names.insert(name.as_str().to_ascii_lowercase()),
                }
            }
        }
        for (key, all) in claimants {
            let misfit = matches!(all[..], [only] if observation.misfit(&key, only).is_some());
            let keys = if misfit { &mut claimed.misfits } else { &mut claimed.keys };
            keys.insert(key);
        }
        claimed
    }

    /// The claims of this cluster and of others.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.keys.extend(self.misfits.intersection(&other.misfits).cloned());
        self.keys.extend(other.keys);
        self.misfits.extend(other.misfits);
        self.names.extend(other.names);
        self.unclear.extend(other.unclear);
        self.leaving.extend(other.leaving);
        self
    }

    /// The services that may be deleted, judged by the data already read: no Service claims them, and no instance is
    /// known to stay in them.
    pub fn deletable(&self, registry: &Registry) -> BTreeSet<ServiceKey> {
        let services = registry.services.iter().filter(|(key, service)| {
            let in_lower_case = key.name.to_ascii_lowercase();
            let may_be_claimed = self.keys.contains(key) || self.names.contains(&in_lower_case);
            service.unreadable.is_none() && !may_be_claimed && self.leaves(key, service)
        });
        services.map(|(key, _)| key.clone()).collect()
    }

    /// Decides on a deletable service. Its tags were read just now; so were its instances, if it is ours.
    pub fn verdict(
        &self,
        key: &ServiceKey,
        service: &CloudMapService,
        owner: &str,
    ) -> DeletionVerdict {
        match (&service.tags, &service.unreadable) {
            (Tags::Unreadable(problem), _) => DeletionVerdict::Unreadable(problem.clone()),
            _ if !service.is_tagged(owner) => DeletionVerdict::Keep,
            (_, Some(problem)) => DeletionVerdict::Unreadable(problem.clone()),
            _ if service.instances.is_some() && self.leaves(key, service) => {
                DeletionVerdict::Delete
            }
            _ => DeletionVerdict::Keep,
        }
    }

    /// Whether none of the instances that were read in a service stays.
    fn leaves(&self, key: &ServiceKey, service: &CloudMapService) -> bool {
        let mut instances = service.instances.iter().flatten();
        instances.all(|(id, _)| self.leaving.contains(&InstanceKey::new(key, id)))
    }
}

impl Plan {
    /// The instances that the plan removes, including those that have to wait.
    pub fn leaving(&self) -> Leaving {
        let removals = self.changes.values().flatten().filter(|it| it.marked().is_some());
        removals.filter_map(Change::instance_key).collect()
    }
}

/// The decision on a service that may be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletionVerdict {
    Delete,
    /// It stays: it is not ours, or has instances.
    Keep,
    /// Its tags or instances could not be read.
    Unreadable(String),
}
