//! Under a guard, and with time passing, random worlds end as they do without one.

use proptest::prelude::*;

use crate::model::Selection;
use crate::model::attributes::SIGHTING;
use crate::plan::Rules;
use crate::plan::tests::arbitrary;
use crate::plan::tests::convergence::{config, found, passes_on, settle};
use crate::plan::tests::simulation::{Course, Simulation};
use crate::plan::tests::world::World;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_guard_holds_for_a_time_and_changes_nothing_in_the_end(
        world in arbitrary::world(),
        course in arbitrary::course(),
        guard in arbitrary::guard(),
    ) {
        let under = |guard| {
            let rules = Rules { guard, ..course.rules.clone() };
            let mut simulation =
                Simulation::new(world.clone(), Course { failing: 0, rules, ..course.clone() });
            settle(&mut simulation, &[Selection::Everything]);
            simulation.world
        };
        let (guarded, free) = (under(guard), under(arbitrary::OFF));
        prop_assert!(!is_marked(&guarded), "the memory is left: {:?}", guarded);
        if !passes_on(&world) {
            prop_assert_eq!(found(&guarded), found(&free));
        }
    }
}

/// Whether the guard remembers anything.
fn is_marked(world: &World) -> bool {
    let keys = world.0.registry.services.keys();
    let mut all = keys.flat_map(|key| world.0.registry.instances(key));
    all.any(|(_, attributes)| attributes.contains_key(SIGHTING))
}
