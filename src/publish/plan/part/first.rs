//! What a full sync makes first, before all of Cloud Map is read: new Cloud Map services and registrations that need no
//! more than the cluster and their own names. No other name decides where they belong, and nothing is removed for them.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{ServiceKey, ServiceRef};
use crate::publish::plan::{Basis, Change, Intent, Plan, RereadScope, Stage};

/// The additions that seem to be missing, by Service.
#[derive(Debug)]
pub struct Missing(BTreeMap<ServiceRef, Vec<Change>>);

impl Missing {
    /// Those that an observation of a part of Cloud Map lacks.
    pub fn of(basis: Basis<'_>) -> Self {
        let mut changes = Intent::Additions.plan(basis).changes;
        // Instances under other names decide which of several namespaces of one name is meant.
        for service in basis.observation.claims_to_choose() {
            changes.remove(service);
        }
        Self(changes)
    }

    /// The Cloud Map services that they are in.
    pub fn keys(&self) -> BTreeSet<ServiceKey> {
        self.0.values().flatten().map(|change| change.place().key.clone()).collect()
    }

    /// Leaves out the Services of which no more is missing than `is_there`.
    pub fn leave_out(&mut self, is_there: impl Fn(&ServiceKey, &str) -> bool) {
        let is_missing = |change: &Change| {
            change.instance().is_some_and(|id| !is_there(&change.place().key, id))
        };
        self.0.retain(|_, changes| changes.iter().any(is_missing));
    }

    /// The data to read before they are made; `None` if there are none.
    pub fn scope(&self, basis: Basis<'_>) -> Option<RereadScope> {
        let changes: Vec<Change> = self.0.values().flatten().cloned().collect();
        (!changes.is_empty()).then(|| RereadScope::of(basis.holders, self.0.keys(), &changes))
    }
}

impl Plan {
    /// The registrations of new and rewritten instances, with the Cloud Map services that they need, without all else.
    #[must_use]
    pub fn additions_alone(self) -> Self {
        let mut changes = self.changes;
        changes.retain(|_, all| all.iter().all(|it| it.stage() > Stage::CreateNamespace));
        let is_addition = |it: &Change| match it.stage() {
            Stage::Create => true,
            Stage::Register => it.exchange().is_none(),
            _ => false,
        };
        for of_service in changes.values_mut() {
            of_service.retain(is_addition);
        }
        changes.retain(|_, of_service| of_service.iter().any(|it| it.stage() == Stage::Register));
        Self { changes, ..Self::default() }
    }
}
