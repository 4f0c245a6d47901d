//! The Cloud Map service itself: created with its first instance and, if needed, its namespace. An HTTP namespace gives it
//! no records; in a DNS namespace its Service's ports and address families decide their types. One of ours that was created
//! with records that fit no endpoint is created anew. Under a shared name the oldest Service decides the settings that
//! exist only once. Tags are read only for the services that [`Observation::tags_needed`] returns.

use std::collections::{BTreeMap, BTreeSet};
use std::slice::from_ref;

use super::change::{Change, Stage};
use super::observation::Observation;
use super::reason::Reason;
use super::result::Plan;
use super::ttl::depends_on_tags;
use crate::model::{
    Claims, CloudMapService, HealthSource, InstanceKey, NamespaceKind, NewService, Place,
    PublishedService, Records, Registry, ServiceKey, ServiceKind, ServiceName, ServiceRef, Tags,
};

impl Observation {
    /// The Cloud Map services of which a plan needs the tags: those that get our first instance and may be managed by
    /// ECS Service Connect, which uses HTTP services only, those with differences that an update could change, and
    /// those that may have to be created anew.
    pub fn tags_needed(&self) -> BTreeSet<ServiceKey> {
        let Observation { holders, affected, .. } = self;
        let held = holders.held().filter(|(_, holder)| affected.contains(*holder));
        let needed = held.filter(|(key, holder)| {
            let service = self.registry.services.get(key);
            let Some(service) = service.filter(|service| !service.is_never_read()) else {
                return false;
            };
            let claims = self.desired.claims(holder);
            let first = service.kind == ServiceKind::Http && !self.has_ours(key);
            let decides = holders.holder(key) == Some(*holder);
            let owner = &self.owner;
            let differs = |claims: &Claims| depends_on_tags(service, claims.ttl, owner);
            let misfits = || service.held() == 0 && self.may_misfit(service, holder);
            first || decides && claims.is_some_and(differs) || misfits()
        });
        let left = self
            .left_by_claims()
            .filter(|(_, service, _)| depends_on_tags(service, None, &self.owner));
        needed.map(|(key, _)| key).chain(left.map(|(key, ..)| key)).cloned().collect()
    }

    /// The TTL that the cluster requests under every name it holds. A name has no entry if its holder is not known by a read
    /// of this run, or if the claims of that one are unclear: its turn sets no TTL then, in whatever order clusters are read.
    pub fn ttls_asked(&self) -> BTreeMap<ServiceKey, Option<u32>> {
        let holders = &self.holders;
        let services = &self.registry.services;
        let is_known =
            |key: &&ServiceKey| services.get(key).is_none_or(CloudMapService::is_current);
        let asked = holders.keys().filter(is_known).filter_map(|key| {
            let holder = holders.holder(key).filter(|it| !holders.is_unclear(it))?;
            Some((key.clone(), self.desired.claims(holder)?.ttl))
        });
        asked.collect()
    }

    /// Whether the claims of every Service are known, with the namespaces of their names.
    pub fn is_clear(&self) -> bool {
        self.holders.unclear().next().is_none()
    }

    /// Whether an instance of ours is registered under the key.
    pub fn has_ours(&self, key: &ServiceKey) -> bool {
        self.ours(key).next().is_some()
    }

    /// Whether instances of ours may be registered in an existing service.
    ///
    /// # Errors
    /// Returns the reason if no instance can be registered there.
    pub fn may_register_in(
        &self,
        service: &CloudMapService,
        key: &ServiceKey,
    ) -> Result<(), Reason> {
        if let Some(problem) = &service.unreadable {
            return Err(Reason::Unreadable(problem.clone()));
        }
        if service.instances.is_none() {
            return Err(Reason::Unreadable("they were not requested".to_owned()));
        }
        if matches!(service.kind, ServiceKind::Dns(Records { cname: true, .. })) {
            return Err(Reason::CnameService);
        }
        match &service.tags {
            _ if service.kind != ServiceKind::Http || self.has_ours(key) => Ok(()),
            Tags::Read(tags) if tags.managed_by_ecs => Err(Reason::ServiceConnect),
            // It is unknown whether ECS manages the service.
            Tags::Unreadable(problem) => Err(Reason::Unreadable(problem.clone())),
            Tags::Read(_) | Tags::Unread => Ok(()),
        }
    }

    /// The settings of a new service under `key`, as the oldest of its holders requests them. The first with an endpoint
    /// decides the families if a holder states none; without any, nothing is created.
    pub fn new_service(&self, key: &ServiceKey, holders: &[ServiceRef]) -> Option<NewService> {
        let annotated = self.desired.services.get(holders.first()?)?;
        let claims = annotated.claims.as_ref().ok()?;
        let namespace = self.registry.namespaces.get(&key.namespace)?;
        let same = |name: &&ServiceName| ServiceKey::new(namespace, name.as_str()) == *key;
        let kind = match namespace.kind {
            NamespaceKind::Http => ServiceKind::Http,
            NamespaceKind::Dns if !claims.ports.is_empty() => {
                ServiceKind::Dns(Records { srv: true, ..Records::default() })
            }
            NamespaceKind::Dns => {
                let all = holders.iter().filter_map(|it| self.desired.services.get(it));
                let mut all = all.map(PublishedService::record_families);
                ServiceKind::Dns(Records::of(&all.find(|families| !families.is_empty())?))
            }
        };
        let name = claims.names.iter().find(same)?.clone();
        let (namespace, ttl) = (namespace.clone(), claims.ttl.unwrap_or(DEFAULT_TTL));
        let routing_policy = claims.routing_policy.unwrap_or_default();
        let custom_health = claims.health == HealthSource::Custom;
        Some(NewService { namespace, name, kind, ttl, routing_policy, custom_health })
    }

    /// Whether the only claimant of a name can be registered in its Cloud Map service.
    ///
    /// # Errors
    /// Returns the reason if that is [`Self::misfit`].
    pub fn fits(&self, key: &ServiceKey) -> Result<(), Reason> {
        let mut claimants = self.holders.claimants(key);
        let only = claimants.next().filter(|_| claimants.next().is_none());
        only.and_then(|only| self.misfit(key, only)).map_or(Ok(()), Err)
    }

    /// The reason why an empty service of ours takes no endpoint of `claimant`: its records need both families, which
    /// Cloud Map does not change, and no endpoint has both.
    pub fn misfit(&self, key: &ServiceKey, claimant: &ServiceRef) -> Option<Reason> {
        let service = self.registry.services.get(key)?;
        let is_ours = service.is_tagged(&self.owner.id);
        let is_empty = service.instances.as_ref().is_some_and(|it| it.is_empty());
        let families = self.desired.services.get(claimant)?.endpoint_families();
        if !is_ours || !is_empty || families.len() != 1 || !self.may_misfit(service, claimant) {
            return None;
        }
        let fitting = self.new_service(key, from_ref(claimant))?.kind;
        let delete = (!self.rules.deletes_services()).then(|| service.delete_command());
        Some(Reason::RecordsMisfit { fitting, delete })
    }

    /// Whether a service has records of both families, and a Service that publishes itself there does not state both.
    pub fn may_misfit(&self, service: &CloudMapService, claimant: &ServiceRef) -> bool {
        let has_both =
            matches!(service.kind, ServiceKind::Dns(Records { a: true, aaaa: true, .. }));
        let published = self.desired.services.get(claimant);
        let states_both = published.is_some_and(|it| it.families.len() > 1);
        let publishes = self.desired.claims(claimant).is_some_and(|it| it.publish);
        has_both && publishes && !states_both
    }

    /// The settings that `service` requests and `oldest`, which shares the name with it, overrides.
    pub fn overridden_settings(
        &self,
        key: &ServiceKey,
        service: &ServiceRef,
        oldest: &ServiceRef,
    ) -> Option<Reason> {
        let (decided, asked) = match self.registry.services.get(key) {
            Some(existing) if existing.kind == ServiceKind::Http => return None,
            Some(_) => {
                let ttl = |service: &ServiceRef| self.desired.claims(service)?.ttl;
                let asked = format!("a TTL of {} s", ttl(service)?);
                let decided = ttl(oldest).map(|ttl| format!("a TTL of {ttl} s"));
                (decided.unwrap_or_else(|| "the TTL that the service has".to_owned()), asked)
            }
            None => {
                let new = |service| self.new_service(key, from_ref(service));
                let new = |service| new(service).map(|new| new.to_string());
                (new(oldest)?, new(service)?)
            }
        };
        let oldest = oldest.clone();
        (decided != asked).then_some(Reason::SharedName { oldest, decided, asked })
    }
}

/// TTL in seconds of the records of a new DNS service if no annotation sets one.
const DEFAULT_TTL: u32 = 60;

impl Plan {
    /// Adds the creation of each missing service to the changes of the oldest holder of the name that registers an
    /// instance in it.
    pub(super) fn create_services(&mut self, observation: &Observation) {
        let registers = |it: &&Change| it.stage() == Stage::Register;
        let places = self.changes.values().flatten().filter(registers).map(Change::place);
        let exists = |place: &Place| observation.registry.services.contains_key(&place.key);
        let missing: BTreeSet<Place> = places.filter(|it| !exists(it)).cloned().collect();
        for place in missing {
            let holders = observation.holders.holders(&place.key);
            let changes = |it: &ServiceRef| self.changes.get(it).into_iter().flatten();
            let here = |it: &Change| registers(&it) && *it.place() == place;
            let first = holders.iter().find(|holder| changes(holder).any(here)).cloned();
            if let Some((turn, service)) = first.zip(observation.new_service(&place.key, holders)) {
                self.add(turn, Change::CreateService { place, service });
            }
        }
    }
}

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

/// The services that may be deleted, judged by the data already read: no Service claims them, and no instance is known
/// to stay in them.
pub fn deletable(registry: &Registry, claimed: &Claimed) -> BTreeSet<ServiceKey> {
    let services = registry.services.iter().filter(|(key, service)| {
        let in_lower_case = key.name.to_ascii_lowercase();
        let may_be_claimed = claimed.keys.contains(key) || claimed.names.contains(&in_lower_case);
        service.unreadable.is_none() && !may_be_claimed && claimed.leaves(key, service)
    });
    services.map(|(key, _)| key.clone()).collect()
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

/// Decides on a deletable service. Its tags were read just now; so were its instances, if it is ours.
pub fn verdict(
    key: &ServiceKey,
    service: &CloudMapService,
    claimed: &Claimed,
    owner: &str,
) -> DeletionVerdict {
    match (&service.tags, &service.unreadable) {
        (Tags::Unreadable(problem), _) => DeletionVerdict::Unreadable(problem.clone()),
        _ if !service.is_tagged(owner) => DeletionVerdict::Keep,
        (_, Some(problem)) => DeletionVerdict::Unreadable(problem.clone()),
        _ if service.instances.is_some() && claimed.leaves(key, service) => DeletionVerdict::Delete,
        _ => DeletionVerdict::Keep,
    }
}
