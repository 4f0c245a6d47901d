//! Readiness as health. By default only ready endpoints become instances. With `health: custom` all do
//! that are not on their way out: a registration carries the health of its moment, and what changes
//! later is reported to Cloud Map's custom check, which stands beside the attributes.
//!
//! Only a Cloud Map service that was created with a custom check has one; in any other the default holds.

use std::collections::BTreeSet;

use crate::model::attributes::{HEALTH, INITIAL_HEALTH};
use crate::model::{
    Attributes, Claims, CloudMapService, Endpoint, Health, HealthSource, KnownHealth, ServiceKey,
};
use crate::publish::plan::{Basis, Difference, Setting};

/// The health of an instance of ours that is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthDifference {
    /// The health that Cloud Map knows.
    pub present: Health,
    /// The health of the endpoint.
    pub wanted: Health,
}

/// The health with which an endpoint becomes an instance; `None` if it becomes none.
pub fn of_endpoint(endpoint: &Endpoint, claims: &Claims, custom: bool) -> Option<Health> {
    match (endpoint.terminating, custom) {
        (true, _) => (claims.keeps_serving && endpoint.serving).then_some(Health::Healthy),
        (false, true) => Some(Health::when(endpoint.serving)),
        (false, false) => endpoint.ready.then_some(Health::Healthy),
    }
}

/// The attributes of an instance whose health is ours to write.
pub fn attributes(health: Health) -> [(String, String); 2] {
    [(INITIAL_HEALTH.into(), health.to_string()), (HEALTH.into(), "custom".into())]
}

/// The health that a registration with these attributes begins with.
pub fn initial(attributes: &Attributes) -> Health {
    let stated = attributes.get(INITIAL_HEALTH).and_then(|text| Health::parse(text));
    stated.unwrap_or(Health::Healthy)
}

/// Whether the Service wants its health written in a Cloud Map service, and whether that can be: only
/// one with a custom check takes it.
pub fn is_custom(claims: &Claims, has_check: bool) -> Result<bool, Setting> {
    match (claims.health, has_check) {
        (HealthSource::Membership, _) => Ok(false),
        (HealthSource::Custom, false) => Err(Setting::NoCustomHealth),
        (HealthSource::Custom, true) => Ok(true),
    }
}

/// The Cloud Map services of which a plan has to know health: those with instances of ours whose holder
/// wants its health written, or for whose Service it was written before.
pub fn health_needed(basis: Basis<'_>) -> BTreeSet<ServiceKey> {
    let Basis { observation, holders, affected } = basis;
    let wants = |key: &ServiceKey, service: &CloudMapService| {
        let asking = holders.asking(key, affected).into_iter();
        let mut claims = asking.filter_map(|holder| observation.desired.claims(holder));
        claims.any(|it| it.publish && is_custom(it, service.custom_health) == Ok(true))
    };
    let written = |attributes: &Attributes| {
        let marked = observation.owner.service_of(attributes);
        attributes.contains_key(HEALTH) && marked.is_some_and(|it| affected.contains(&it))
    };
    let services = observation.registry.services.iter();
    let needed = services.filter(|(key, service)| {
        let mut ours = observation.registry.instances(key).map(|(_, attributes)| attributes);
        let wanted = wants(key, service);
        service.custom_health && ours.any(|it| written(it) || wanted && observation.owner.owns(it))
    });
    needed.map(|(key, _)| key.clone()).collect()
}

/// What Cloud Map knows of an instance's health. Of one that was registered a moment ago it may tell
/// nothing yet; then that registration says it.
pub fn present(service: Option<&CloudMapService>, id: &str, attributes: &Attributes) -> Health {
    let known = match service.map(|service| &service.health) {
        Some(KnownHealth::Read(known)) => known.get(id).copied(),
        _ => None,
    };
    known.unwrap_or_else(|| initial(attributes))
}

/// The attributes of an instance to register again as they are: that starts its health anew, so they
/// say what it is now.
pub fn as_it_is(
    service: Option<&CloudMapService>,
    id: &str,
    attributes: &Attributes,
) -> Attributes {
    let mut again = attributes.clone();
    if service.is_some_and(|service| service.custom_health) && attributes.contains_key(HEALTH) {
        let present = present(service, id, attributes);
        again.insert(INITIAL_HEALTH.to_owned(), present.to_string());
    }
    again
}

/// How the health differs from the attributes, if it is ours to write.
pub fn difference(attributes: &Attributes, present: Health) -> Option<HealthDifference> {
    let wanted = initial(attributes);
    let ours = attributes.contains_key(HEALTH);
    (ours && wanted != present).then_some(HealthDifference { present, wanted })
}

impl From<HealthDifference> for Difference {
    fn from(health: HealthDifference) -> Self {
        let text = |health: Health| Some(health.to_string());
        let (present, wanted) = (text(health.present), text(health.wanted));
        Self { attribute: "health".into(), present, wanted }
    }
}
