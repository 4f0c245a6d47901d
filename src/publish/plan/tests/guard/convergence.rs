//! With a guard random worlds reach the same end as without one, only later.

use proptest::prelude::*;

use crate::model::Selection;
use crate::model::attributes::SIGHTING;
use crate::publish::plan::tests::arbitrary;
use crate::publish::plan::tests::convergence::{admits_ours_for_now, found, passes_on, settle};
use crate::publish::plan::tests::seeds::config;
use crate::publish::plan::tests::simulation::{Course, Simulation};
use crate::publish::plan::tests::world::World;
use crate::publish::plan::{Rules, ServiceLimit, Stage};

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_guard_holds_for_a_time_and_changes_nothing_in_the_end(
        world in arbitrary::world(),
        course in arbitrary::course(),
        guard in arbitrary::guard(),
    ) {
        let under = |guard| {
            // If capacity is short, the order of events decides which instances are registered.
            let service_limit = ServiceLimit::default();
            let rules = Rules { guard, service_limit, ..course.rules.clone() };
            let course = Course { failing: 0, rules, namespace_quota: 2000, ..course.clone() };
            let mut simulation = Simulation::new(world.clone(), course);
            settle(&mut simulation, &[Selection::Everything]);
            simulation
        };
        let (guarded, free) = (under(guard), under(arbitrary::OFF));
        prop_assert!(!is_marked(&guarded.world) || waits(&guarded), "the memory is left");
        let world = world.under(course.rules);
        if !passes_on(&world) && !admits_ours_for_now(&world) {
            prop_assert_eq!(found(&guarded.world), found(&free.world));
        }
    }
}

/// Whether a removal is still open after its condition has come and the guard lets it pass.
fn waits(simulation: &Simulation) -> bool {
    let (plan, _) = simulation.plan(&Selection::Everything);
    let mut changes = plan.changes.values().flatten();
    changes.any(|it| it.stage() == Stage::Deregister && it.waits_for().is_some())
}

/// Whether the guard remembers anything.
fn is_marked(world: &World) -> bool {
    let keys = world.0.registry.services.keys();
    let mut all = keys.flat_map(|key| world.0.registry.instances(key));
    all.any(|(_, attributes)| attributes.contains_key(SIGHTING))
}
