//! The services that discovery alone cannot decide. If discovery shows that a Cloud Map service needs no change and no
//! report, the service is in sync; every other one must be listed before anything is decided about it. Discovery alone
//! never causes a change.

use std::collections::BTreeSet;

use crate::model::ServiceKey;
use crate::publish::plan::{Basis, RereadScope, plan};

/// The Cloud Map services that a plan would change or report on.
pub fn in_doubt(basis: Basis<'_>) -> BTreeSet<ServiceKey> {
    let plan = plan(basis);
    // The verdict of the guard depends on all instances.
    if plan.guard.is_some() {
        let services = basis.observation.registry.services.iter();
        let seen = services.filter(|(_, service)| service.instances.is_some());
        return seen.map(|(key, _)| key.clone()).collect();
    }
    let changes: Vec<_> = plan.changes.values().flatten().cloned().collect();
    let held_back = plan.held_back.iter().map(|held| &held.service);
    let mut keys =
        RereadScope::of(basis.holders, plan.changes.keys().chain(held_back), &changes).keys;
    let places = plan.held_back.iter().filter_map(|held| held.place.as_ref());
    keys.extend(places.map(|place| place.key.clone()));
    // An instance that discovery does not show may be in another namespace of the same name.
    keys.extend(basis.observation.keys_to_choose_from(|it| plan.changes.contains_key(it)));
    keys
}
