//! Readiness as health. By default only ready endpoints are registered. With `health: custom` all endpoints are, except
//! for terminating ones: a registration contains the health at its time, and later changes are reported to Cloud Map's
//! custom health check, which is not part of the attributes.
//!
//! A custom health check can only be added when a Cloud Map service is created; in services without one the default
//! applies.

use std::collections::BTreeSet;

use super::observation::Observation;
use crate::model::attributes::{HEALTH, INITIAL_HEALTH};
use crate::model::{
    Attributes, Claims, CloudMapService, Endpoint, Health, HealthSource, KnownHealth, ServiceKey,
    ServiceRef,
};

/// The health with which an endpoint is registered; `None` if it is not.
pub fn of_endpoint(endpoint: &Endpoint, claims: &Claims, custom: bool) -> Option<Health> {
    match (endpoint.terminating, custom) {
        (true, _) => (claims.keeps_serving && endpoint.serving).then_some(Health::Healthy),
        (false, true) => Some(Health::when(endpoint.serving)),
        (false, false) => endpoint.ready.then_some(Health::Healthy),
    }
}

/// The attributes of an instance with a health that we report.
pub fn attributes(health: Health) -> [(&'static str, &'static str); 2] {
    [(INITIAL_HEALTH, health.as_str()), (HEALTH, "custom")]
}

/// Sets the health of a registration with these attributes, if they have one.
pub fn set_initial(attributes: &mut Attributes, health: Health) {
    if attributes.contains_key(INITIAL_HEALTH) {
        attributes.insert(INITIAL_HEALTH, health.as_str());
    }
}

/// The health right after a registration with these attributes.
pub fn initial(attributes: &Attributes) -> Health {
    let stated = attributes.get(INITIAL_HEALTH).and_then(Health::parse);
    stated.unwrap_or(Health::Healthy)
}

impl Observation {
    /// The Cloud Map services of which a plan needs the health: those with instances of ours, if their holder requests
    /// `health: custom`, or if the health of one was reported before.
    pub fn health_needed(&self, affected: &BTreeSet<ServiceRef>) -> BTreeSet<ServiceKey> {
        let holders = &self.holders;
        let with_check = self.registry.services.iter().filter(|(_, service)| service.custom_health);
        let needed = with_check.map(|(key, _)| key).filter(|key| {
            let asking = holders.asking(key, affected).into_iter();
            let mut claims = asking.filter_map(|holder| self.desired.claims(holder));
            let wanted = claims.any(|it| it.publish && it.health == HealthSource::Custom);
            self.marked(key).any(|it| {
                wanted || it.attributes.contains_key(HEALTH) && affected.contains(&it.service)
            })
        });
        needed.cloned().collect()
    }
}

/// The health of an instance in Cloud Map. Right after a registration Cloud Map may not report it yet; then it is the
/// initial health of the attributes.
pub fn present(service: Option<&CloudMapService>, id: &str, attributes: &Attributes) -> Health {
    let known = match service.map(|service| &service.health) {
        Some(KnownHealth::Read(known)) => known.get(id).copied(),
        _ => None,
    };
    known.unwrap_or_else(|| initial(attributes))
}

/// The attributes to register an instance again without a change. A registration resets the health, so the initial
/// health is set to the present one.
pub fn as_it_is(
    service: Option<&CloudMapService>,
    id: &str,
    attributes: &Attributes,
) -> Attributes {
    let mut again = attributes.clone();
    if service.is_some_and(|service| service.custom_health) && attributes.contains_key(HEALTH) {
        let present = present(service, id, attributes);
        again.insert(INITIAL_HEALTH, present.as_str());
    }
    again
}
