//! A service is created together with its first instance. An HTTP namespace gives it no records; in a DNS namespace its
//! Service's ports and address families decide their types. One of ours that was created with records that fit no endpoint
//! is created anew.

use std::collections::BTreeSet;
use std::slice::from_ref;

use crate::model::{
    CloudMapService, HealthSource, NamespaceKind, NewService, PublishedService, Records,
    ServiceKey, ServiceKind, ServiceName, ServiceRef,
};
use crate::publish::plan::{Change, Holders, Observation, Place, Plan, Reason, Stage};

/// TTL in seconds of the records of a new DNS service if no annotation sets one.
const DEFAULT_TTL: u32 = 60;

/// The settings of a new service under `key`, as the oldest of its holders requests them. The first with an endpoint decides
/// the families if a holder states none; without any, nothing is created.
pub fn new_service(
    observation: &Observation,
    key: &ServiceKey,
    holders: &[ServiceRef],
) -> Option<NewService> {
    let annotated = observation.desired.services.get(holders.first()?)?;
    let claims = annotated.claims.as_ref().ok()?;
    let namespace = observation.registry.namespaces.get(&key.namespace)?;
    let same = |name: &&ServiceName| ServiceKey::new(namespace, name.as_str()) == *key;
    let kind = match namespace.kind {
        NamespaceKind::Http => ServiceKind::Http,
        NamespaceKind::Dns if !claims.ports.is_empty() => {
            ServiceKind::Dns(Records { srv: true, ..Records::default() })
        }
        NamespaceKind::Dns => {
            let all = holders.iter().filter_map(|it| observation.desired.services.get(it));
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
/// Returns the reason if that is [`misfit`].
pub fn fits(observation: &Observation, key: &ServiceKey, holders: &Holders) -> Result<(), Reason> {
    let mut claimants = holders.claimants(key);
    let only = claimants.next().filter(|_| claimants.next().is_none());
    only.and_then(|only| misfit(observation, key, only)).map_or(Ok(()), Err)
}

/// The reason why an empty service of ours takes no endpoint of `claimant`: its records need both families, which Cloud Map
/// does not change, and no endpoint has both.
pub fn misfit(
    observation: &Observation,
    key: &ServiceKey,
    claimant: &ServiceRef,
) -> Option<Reason> {
    let service = observation.registry.services.get(key)?;
    let is_ours = service.is_tagged(&observation.owner.id);
    let is_empty = service.instances.as_ref().is_some_and(|it| it.is_empty());
    let families = observation.desired.services.get(claimant)?.endpoint_families();
    if !is_ours || !is_empty || families.len() != 1 || !may_misfit(observation, service, claimant) {
        return None;
    }
    let fitting = new_service(observation, key, from_ref(claimant))?.kind;
    let delete = (!observation.rules.deletes_services()).then(|| service.delete_command());
    Some(Reason::RecordsMisfit { fitting, delete })
}

/// Whether a service has records of both families, and a Service that publishes itself there does not state both.
pub fn may_misfit(
    observation: &Observation,
    service: &CloudMapService,
    claimant: &ServiceRef,
) -> bool {
    let has_both = matches!(service.kind, ServiceKind::Dns(Records { a: true, aaaa: true, .. }));
    let published = observation.desired.services.get(claimant);
    let states_both = published.is_some_and(|it| it.families.len() > 1);
    let publishes = observation.desired.claims(claimant).is_some_and(|it| it.publish);
    has_both && publishes && !states_both
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
