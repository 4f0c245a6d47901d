//! The registrations that a full sync makes first, before all of Cloud Map is read. They are those that need no more
//! than the cluster and their own names: these exist, no other name decides where they belong, and nothing is removed
//! for them.

use std::collections::BTreeSet;

use crate::model::{ServiceKey, ServiceRef};
use crate::publish::plan::{Basis, Change, Intent, Plan, RereadScope, Stage};

/// The data to read before registrations that seem to be missing are made; `None` if none is missing.
pub fn missing_registrations(basis: Basis<'_>) -> Option<RereadScope> {
    let Basis { observation, holders, .. } = basis;
    let mut plan = Intent::Additions.plan(basis);
    // Instances under other names decide which of several namespaces of one name is meant.
    let ambiguous: BTreeSet<ServiceRef> = observation.claims_to_choose().cloned().collect();
    let scope = |service: &ServiceRef, changes: &[Change]| {
        RereadScope::of(holders, std::iter::once(service), changes)
    };
    // A name that was never seen may exist by now, which only a list shows.
    let is_seen = |key: &ServiceKey| observation.registry.services.contains_key(key);
    plan.changes.retain(|service, changes| {
        !ambiguous.contains(service) && scope(service, changes).keys.iter().all(is_seen)
    });
    let changes: Vec<Change> = plan.changes.values().flatten().cloned().collect();
    (!changes.is_empty()).then(|| RereadScope::of(holders, plan.changes.keys(), &changes))
}

impl Plan {
    /// The registrations of new and rewritten instances of those Services that need no new Cloud Map service, without all
    /// else.
    #[must_use]
    pub fn additions_alone(self) -> Self {
        let mut changes = self.changes;
        changes.retain(|_, all| all.iter().all(|it| it.stage() > Stage::Create));
        for of_service in changes.values_mut() {
            of_service.retain(|it| it.stage() == Stage::Register && it.exchange().is_none());
        }
        changes.retain(|_, of_service| !of_service.is_empty());
        Self { changes, ..Self::default() }
    }
}
