//! The purge of a cluster removes all instances of one owner. It reads no Services, since the cluster may be gone: the
//! marks of an instance identify its owner.

use std::collections::BTreeSet;

use super::observation::{Observation, Plan};
use super::removals::DeregisterReason;
use crate::model::{Owner, Place, Registry};

impl Registry {
    /// Every owner in the marks of instances of this installation: a cluster with one of the flows.
    pub fn marked_owners(&self, owner_id: &str) -> BTreeSet<Owner> {
        let all = self.services.keys().flat_map(|key| self.instances(key));
        let owners = all.filter_map(|(_, attributes)| Owner::of(attributes));
        owners.filter(|owner| owner.id == owner_id).collect()
    }
}

/// Plans the removal of every instance of the observation's owner.
pub fn purge(observation: &Observation, because: &DeregisterReason) -> Plan {
    let mut plan = Plan::with_unreadable(observation);
    for key in observation.registry.services.keys() {
        let place = Place::of(key, &observation.registry);
        for instance in observation.our_instances_with_service(key) {
            let change = instance.removal(&place, because.clone(), None);
            plan.add(instance.service, change);
        }
    }
    plan.count_foreign(observation);
    plan.count_present(&observation.registry);
    plan.in_order()
}
