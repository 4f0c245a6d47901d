//! Where a renamed Service stands on the way to its new names: its instances under the old one go
//! when it is found whole under the new ones.

use std::collections::BTreeSet;

use crate::model::{Registry, ServiceKey, ServiceRef};
use crate::plan::claim::Holders;
use crate::plan::instances::diff::Compared;
use crate::plan::{Observation, Place};

/// How far a Service is, in the order of what is worst.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NewName {
    /// Every endpoint that can be found there is found there.
    Whole,
    /// Registrations are still to come.
    Underway,
    /// Something is held back there, and does not come by itself.
    Hindered(Place),
    /// Another Service holds it.
    Contested(Place, ServiceRef),
}

/// How far `service` is under the names that it claims: under all of them together.
pub fn new_name(
    observation: &Observation,
    holders: &Holders,
    compared: &Compared,
    service: &ServiceRef,
    claims: &BTreeSet<ServiceKey>,
) -> NewName {
    let claimed = observation.desired.claims(service);
    if claimed.is_some_and(|claims| !claims.publish) {
        return NewName::Whole;
    }
    let under = |key: &ServiceKey| {
        let place = Place::of(key, &observation.registry);
        match (holders.holder(key), compared.of(key, service)) {
            (Some(holder), _) if !holders.holds(key, service) => {
                NewName::Contested(place, holder.clone())
            }
            (_, Some(comparison)) if comparison.is_whole() => NewName::Whole,
            (_, Some(comparison)) if comparison.is_hindered() => NewName::Hindered(place),
            (_, None) if is_readable(key, &observation.registry) => NewName::Hindered(place),
            _ => NewName::Underway,
        }
    };
    let denied = holders.denied(service).iter().filter_map(|(key, _)| key.as_ref());
    let denied = denied.map(|key| NewName::Hindered(Place::of(key, &observation.registry)));
    claims.iter().map(under).chain(denied).max().unwrap_or(NewName::Whole)
}

/// Whether a Cloud Map service in which nothing can be registered was read, so that the next run will
/// find the same.
fn is_readable(key: &ServiceKey, registry: &Registry) -> bool {
    registry.services.get(key).is_some_and(|service| service.unreadable.is_none())
}
