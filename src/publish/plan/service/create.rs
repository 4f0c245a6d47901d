//! A service is created together with its first instance. An HTTP namespace gives it no records; in a DNS namespace its
//! Service's ports and address families decide their types.

use std::collections::BTreeSet;

use crate::model::{
    Family, HealthSource, NamespaceKind, NewService, Records, ServiceKey, ServiceKind, ServiceName,
    ServiceRef,
};
use crate::publish::plan::{Change, Holders, Observation, Place, Plan, Stage};

/// TTL in seconds of the records of a new DNS service if no annotation sets one.
const DEFAULT_TTL: u32 = 60;

/// The settings of a new service under `key`, as a Service of the cluster requests.
pub fn new_service(
    observation: &Observation,
    key: &ServiceKey,
    service: &ServiceRef,
) -> Option<NewService> {
    let annotated = observation.desired.services.get(service)?;
    let claims = annotated.claims.as_ref().ok()?;
    let namespace = observation.registry.namespaces.get(&key.namespace)?;
    let same = |name: &&ServiceName| ServiceKey::new(namespace, name.as_str()) == *key;
    let kind = match namespace.kind {
        NamespaceKind::Http => ServiceKind::Http,
        NamespaceKind::Dns if !claims.ports.is_empty() => {
            ServiceKind::Dns(Records { srv: true, ..Records::default() })
        }
        NamespaceKind::Dns => ServiceKind::Dns(Records {
            a: annotated.families.contains(&Family::V4) || annotated.families.is_empty(),
            aaaa: annotated.families.contains(&Family::V6),
            ..Records::default()
        }),
    };
    let name = claims.names.iter().find(same)?.clone();
    let (namespace, ttl) = (namespace.clone(), claims.ttl.unwrap_or(DEFAULT_TTL));
    let routing_policy = claims.routing_policy.unwrap_or_default();
    let custom_health = claims.health == HealthSource::Custom;
    Some(NewService { namespace, name, kind, ttl, routing_policy, custom_health })
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
