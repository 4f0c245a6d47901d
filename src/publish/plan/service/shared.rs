//! A Cloud Map service under a name that several Services share: the oldest Service decides the settings that exist
//! only once, and the others get a held-back line if theirs differ.

use std::slice::from_ref;

use super::new_service;
use crate::model::{ServiceKey, ServiceKind, ServiceRef};
use crate::publish::plan::{Observation, Reason, Setting};

/// The settings that `service` requests and `oldest`, which shares the name with it, overrides.
pub fn overridden_settings(
    observation: &Observation,
    key: &ServiceKey,
    service: &ServiceRef,
    oldest: &ServiceRef,
) -> Option<Reason> {
    let (decided, asked) = match observation.registry.services.get(key) {
        Some(existing) if existing.kind == ServiceKind::Http => return None,
        Some(_) => {
            let ttl = |service: &ServiceRef| observation.desired.claims(service)?.ttl;
            let asked = format!("a TTL of {} s", ttl(service)?);
            let decided = ttl(oldest).map(|ttl| format!("a TTL of {ttl} s"));
            (decided.unwrap_or_else(|| "the TTL that the service has".to_owned()), asked)
        }
        None => {
            let new = |service| new_service(observation, key, from_ref(service));
            let new = |service| new(service).map(|new| new.to_string());
            (new(oldest)?, new(service)?)
        }
    };
    let oldest = oldest.clone();
    (decided != asked).then_some(Setting::SharedName { oldest, decided, asked }.into())
}
