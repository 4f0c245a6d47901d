//! The rule that every call keeps under a policy of names, and the right state in the end.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::promises::publishable;
use super::simulation::Simulation;
use super::world::{World, lines_of};
use crate::model::{Attributes, ServiceKey};
use crate::publish::plan::identity::Identity;
use crate::publish::plan::{Change, HeldBack, Holders, Plan, Reason};

impl Simulation {
    /// A registration is made for a Service that may claim the name, with addresses that it may have. An instance that
    /// stays for a while may get another mark.
    pub fn assert_allowed(&self, change: &Change, attributes: &Attributes) {
        let of = |attributes: &Attributes| {
            (self.world.0.owner.service_of(attributes), Identity::of(attributes, true))
        };
        let present = self.instance(&change.place().key, change.instance().expect("an instance"));
        if present.is_some_and(|present| of(present) == of(attributes)) {
            return;
        }
        let (service, identity) = of(attributes);
        let limits = self.world.0.name_limits(&service.expect("our marks"), &change.place().key);
        let limits = limits.unwrap_or_else(|denial| panic!("{change}: {denial}"));
        assert!(limits.allows_all(&identity), "{change}: {identity:?} is not allowed");
    }
}

/// Instances that are not allowed are not there, except those that wait until the name is served without them, and
/// addresses that the holder of the name requests but cannot get.
pub fn assert_allowed(world: &World, plan: &Plan) {
    let holders = Holders::decide(&world.0);
    let changes = plan.changes.values().flatten();
    let waiting: BTreeSet<_> = changes
        .map(|change| (&change.place().key, change.instance().unwrap_or_default()))
        .collect();
    let refused = |key: &ServiceKey| {
        let here = |it: &&HeldBack| it.place.as_ref().is_some_and(|place| place.key == *key);
        let mut reasons = plan.held_back.iter().filter(here).map(|it| &it.reason);
        reasons.any(|it| matches!(it, Reason::CnameService | Reason::ServiceConnect))
    };
    for key in world.0.registry.services.keys().filter(|key| !refused(key)) {
        for (id, attributes) in world.0.registry.instances(key) {
            let Some(marked) = world.0.owner.service_of(attributes) else { continue };
            let allowed = world.0.name_limits(&marked, key).is_ok();
            let held = holders.holder(key).into_iter();
            let held = held.flat_map(|holder| publishable(&world.0, holder));
            let held: Vec<IpAddr> = held.flatten().collect();
            let asked = Identity::of(attributes, true).addresses().any(|it| held.contains(&it));
            assert!(
                allowed || asked || waiting.contains(&(key, id.as_str())),
                "{id} of {marked} is left under {key:?}:\n{}",
                lines_of(plan)
            );
        }
    }
}
