//! The Cloud Map service itself: created with its first instance and, if needed, its namespace. An HTTP namespace gives it
//! no records; in a DNS namespace its Service's ports and address families decide their types. One of ours that was created
//! with records that fit no endpoint is created anew. Under a shared name the oldest Service decides the settings that
//! exist only once. Tags are read only for the services that [`tags_needed`] returns.

use std::collections::{BTreeMap, BTreeSet};
use std::slice::from_ref;

use super::change::{Change, Stage};
use super::claims::Holders;
use super::observation::Observation;
use super::reason::Reason;
use super::result::Plan;
use super::ttl::{depends_on_tags, left_by_claims};
use crate::model::{
    Claims, CloudMapService, HealthSource, NamespaceKind, NewService, Place, PublishedService,
    Records, ServiceKey, ServiceKind, ServiceName, ServiceRef, Tags,
};

/// The Cloud Map services of which a plan needs the tags: those that get our first instance and may be managed by ECS
/// Service Connect, which uses HTTP services only, those with differences that an update could change, and those that may
/// have to be created anew.
pub fn tags_needed(observation: &Observation) -> BTreeSet<ServiceKey> {
    let Observation { holders, affected, .. } = observation;
    let held = holders.held().filter(|(_, holder)| affected.contains(*holder));
    let needed = held.filter(|(key, holder)| {
        let service = observation.registry.services.get(key);
        let Some(service) = service.filter(|service| !service.is_never_read()) else {
            return false;
        };
        let claims = observation.desired.claims(holder);
        let first = service.kind == ServiceKind::Http && !has_ours(observation, key);
        let decides = holders.holder(key) == Some(*holder);
        let owner = &observation.owner;
        let differs = |claims: &Claims| depends_on_tags(service, claims.ttl, owner);
        let misfits = || service.held() == 0 && observation.may_misfit(service, holder);
        first || decides && claims.is_some_and(differs) || misfits()
    });
    let left = left_by_claims(observation)
        .filter(|(_, service, _)| depends_on_tags(service, None, &observation.owner));
    needed.map(|(key, _)| key).chain(left.map(|(key, ..)| key)).cloned().collect()
}

/// The TTL that the cluster requests under every name it holds; no entry if it requests none, or if the holder is not
/// known by a read of this run.
pub fn ttls_asked(observation: &Observation) -> BTreeMap<ServiceKey, Option<u32>> {
    let holders = &observation.holders;
    let services = &observation.registry.services;
    let is_known = |key: &&ServiceKey| services.get(key).is_none_or(CloudMapService::is_current);
    let asked = holders.keys().filter(is_known).filter_map(|key| {
        Some((key.clone(), observation.desired.claims(holders.holder(key)?)?.ttl))
    });
    asked.collect()
}

/// Whether the claims of every Service are known, with the namespaces of their names.
pub fn is_clear(observation: &Observation) -> bool {
    observation.holders.unclear().next().is_none()
}

/// Whether an instance of ours is registered under the key.
pub fn has_ours(observation: &Observation, key: &ServiceKey) -> bool {
    observation.ours(key).next().is_some()
}

/// The reason why every registration in a service of this kind would fail; `None` if registrations can succeed.
pub fn refusal(observation: &Observation, kind: ServiceKind) -> Option<Reason> {
    let has_records = matches!(kind, ServiceKind::Dns(_));
    (has_records && observation.rules.lacks_dns_rights).then_some(Reason::DnsNotAllowed)
}

/// TTL in seconds of the records of a new DNS service if no annotation sets one.
const DEFAULT_TTL: u32 = 60;

impl Observation {
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
            _ if service.kind != ServiceKind::Http || has_ours(self, key) => Ok(()),
            Tags::Read { managed_by_ecs: true, .. } => Err(Reason::ServiceConnect),
            // It is unknown whether ECS manages the service.
            Tags::Unreadable(problem) => Err(Reason::Unreadable(problem.clone())),
            Tags::Read { .. } | Tags::Unread => Ok(()),
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

impl Plan {
    /// Leaves the creation of each missing service to the oldest holder of the name that registers an instance in it.
    pub(in crate::publish::plan) fn create_once(&mut self, holders: &Holders) {
        let creates = self.changes.values().flatten().filter(|it| it.stage() == Stage::Create);
        let places: BTreeSet<Place> = creates.map(|it| it.place().clone()).collect();
        for place in places {
            let here = |change: &Change, stage| change.stage() == stage && *change.place() == place;
            let mut is_created = false;
            for holder in holders.holders(&place.key) {
                let Some(changes) = self.changes.get_mut(holder) else { continue };
                let registers = changes.iter().any(|it| here(it, Stage::Register));
                changes.retain(|it| registers && !is_created || !here(it, Stage::Create));
                is_created |= registers;
            }
        }
    }
}
