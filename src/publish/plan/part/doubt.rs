//! What a look from afar cannot decide. Discovery may acquit and never convict: a Cloud Map service in which it leaves
//! nothing to do or to say is in step, and every other one is to be listed before anything is decided about it.

use std::collections::BTreeSet;

use crate::model::ServiceKey;
use crate::publish::plan::{Basis, RereadScope, plan};

/// The Cloud Map services that a plan would rest on for anything but leaving them alone.
pub fn in_doubt(basis: Basis<'_>) -> BTreeSet<ServiceKey> {
    let plan = plan(basis);
    // Whether a loss is too large depends on all that is there.
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
    keys
}
