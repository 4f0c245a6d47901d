//! The permit to remove or adopt an instance. Permits are made only here, from the comparison that the guard has
//! judged. Only the sync of a group checks them, for each removal in its own plan.
//!
//! The plan of a group does not justify a removal, since the plan knows only the Services of the group. A Service
//! outside the group may want an instance that no Service of the group wants. Only the comparison knows all Services of
//! the run.

use std::collections::BTreeSet;

use super::change::Change;
use super::observation::Plan;
use crate::model::InstanceKey;

/// The instances that a run may deregister, exchange for others or adopt.
#[derive(Clone, Debug, Default)]
pub struct Permits(BTreeSet<InstanceKey>);

impl Permits {
    /// Permits for the changes of a judged plan that need one. A removal that still waits gets its permit, too.
    pub fn of(plan: &Plan) -> Self {
        let changes = plan.changes.values().flatten();
        let needing = changes.filter(|change| change.needs_permit());
        Self(needing.filter_map(Change::instance_key).collect())
    }

    /// Keeps only the permits that the other comparison also gives.
    #[must_use]
    pub fn intersect(mut self, other: &Self) -> Self {
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
    /// Whether the change removes an instance of a Service, or adopts an instance of another owner.
    pub fn needs_permit(&self) -> bool {
        self.is_removal() || matches!(self, Self::Rewrite { adopted: Some(_), .. })
    }

    /// Whether the change removes an instance, by a deregistration or an exchange.
    pub fn is_removal(&self) -> bool {
        self.losing_service().is_some()
    }
}
