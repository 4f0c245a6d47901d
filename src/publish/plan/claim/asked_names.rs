//! The names that a Service asks for, as keys of Cloud Map services, and how many of them it may claim. Whoever may
//! annotate a Service may write as many names as fit into an annotation, and each costs a service, reads and writes.

use crate::model::{PublishedService, ServiceKey, ServiceRef, UnresolvedNamespace};
use crate::publish::plan::{Observation, Reason};

/// The most names that a Service claims, however many it asks for.
pub(super) const MAXIMUM: usize = 20;

/// The keys of the names that a Service asks for, in the order of its annotation, and the problem of its namespace.
pub fn all_keys(
    observation: &Observation,
    service: &ServiceRef,
    annotated: &PublishedService,
) -> (Vec<ServiceKey>, Option<UnresolvedNamespace>) {
    let mut keys = Vec::new();
    let mut unresolved = None;
    if let Ok(claims) = &annotated.claims {
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
    (keys, unresolved)
}

/// Leaves the first of the keys, as many as a Service may claim, and returns the reason if those are not all.
pub fn limit_names(
    observation: &Observation,
    service: &ServiceRef,
    annotated: &PublishedService,
    keys: &mut Vec<ServiceKey>,
) -> Option<Reason> {
    let asked = annotated.claims.as_ref().map_or(0, |claims| claims.names.len());
    let of_rule = observation.max_names(service).filter(|maximum| *maximum < keys.len());
    keys.truncate(of_rule.unwrap_or(MAXIMUM));
    let by_policy = of_rule.is_some();
    let maximum = of_rule.or((asked > MAXIMUM).then_some(MAXIMUM))?;
    Some(Reason::TooManyNames { asked, maximum, by_policy })
}
