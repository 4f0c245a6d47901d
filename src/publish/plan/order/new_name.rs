//! The wait of the instances of a renamed Service under its old name: they are deregistered when all its endpoints are
//! registered under its new names.

use crate::model::{ServiceKey, ServiceRef};
use crate::publish::plan::instances::diff::Compared;
use crate::publish::plan::{Basis, Place, WaitsFor};

/// The wait for all names that `service` claims, together; `None` if every endpoint that can be registered under them
/// is registered.
pub fn waits_for_new_name(
    basis: Basis<'_>,
    compared: &Compared,
    service: &ServiceRef,
) -> Option<WaitsFor> {
    let Basis { observation, holders, .. } = basis;
    if observation.desired.claims(service).is_some_and(|claims| !claims.publish) {
        return None;
    }
    let renamed = || service.clone();
    let name = |key: &ServiceKey| Place::of(key, &observation.registry).to_string();
    let blocked =
        |key: &ServiceKey| WaitsFor::BlockedRename { renamed: renamed(), name: name(key) };
    // If nothing can be registered in a Cloud Map service that was read, the next run finds the same.
    let is_readable = |key: &ServiceKey| {
        observation.registry.services.get(key).is_some_and(|it| it.unreadable.is_none())
    };
    let under = |key: &ServiceKey| match (holders.holder(key), compared.of(key, service)) {
        (Some(holder), _) if !holders.holds(key, service) => {
            let (renamed, name, holder) = (renamed(), name(key), holder.clone());
            Some(WaitsFor::ContestedName { renamed, name, holder })
        }
        (_, Some(comparison)) if comparison.is_whole() => None,
        (_, Some(comparison)) if comparison.is_blocked() => Some(blocked(key)),
        (_, None) if is_readable(key) => Some(blocked(key)),
        _ => Some(WaitsFor::NewName(renamed())),
    };
    let denied = holders.denied(service).iter().filter_map(|(key, _)| key.as_ref());
    let claims = holders.claims(service).into_iter().flatten();
    let all = claims.map(under).chain(denied.map(|key| Some(blocked(key))));
    all.flatten().max()
}
