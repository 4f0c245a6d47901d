//! The permit to take an instance away. Permits are made only here, from the comparison that the guard has judged. Only
//! the sync of a group checks them, for each removal of its own plan.
//!
//! The plan of a group is not enough, since it knows only the Services of the group. Another Service may want an
//! instance that has no endpoint there. The comparison, which knows all Services, shows that.

use std::collections::BTreeSet;

use super::change::Change;
use super::observation::Plan;
use crate::model::InstanceKey;

/// The instances that a run may deregister, exchange for others or adopt.
#[derive(Clone, Debug, Default)]
pub struct Permits(BTreeSet<InstanceKey>);

impl Permits {
    /// Permits for the instances that a judged plan takes away. A change that still waits for something has its permit,
    /// too.
    pub fn of(plan: &Plan) -> Self {
        let taking = plan.changes.values().flatten().filter(|change| change.needs_permit());
        Self(taking.filter_map(Change::instance_key).collect())
    }

    /// Keeps only the permits that the other comparison gives, too.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.0.retain(|instance| other.0.contains(instance));
        self
    }

    /// Whether a change has the permit that it needs, or needs none.
    pub fn allow(&self, change: &Change) -> bool {
        let is_permitted = |instance| self.0.contains(&instance);
        !change.needs_permit() || change.instance_key().is_some_and(is_permitted)
    }
}

impl Change {
    /// Whether the change takes an instance from its Service or owner.
    pub fn needs_permit(&self) -> bool {
        self.is_removal() || matches!(self, Self::Rewrite { adopted: Some(_), .. })
    }

    /// Whether the change removes an instance; an exchange does, too.
    pub fn is_removal(&self) -> bool {
        self.loses().is_some()
    }
}
