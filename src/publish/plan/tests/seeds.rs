//! The number of random worlds that the properties try, and their choice: few and always the same, unless
//! `PROPTEST_CASES` or `PROPTEST_RNG_SEED` asks for others. Before them comes every world that once broke a property.

use std::any::Any;
use std::fmt::Debug;
use std::thread;

use proptest::prelude::*;
use proptest::test_runner::{FailurePersistence, PersistedSeed, RngSeed, TestError, TestRunner};

/// The worlds that broke a property once, in the format of the line that a failure prints. A seed belongs to one
/// version of its property: if its random worlds change, a table of cases takes its place.
const FOUND: &[(&str, &str)] = &[
    (
        "publish::plan::tests::convergence::one_undisturbed_sync_registers_all_that_there_is_room_for",
        "cc a476e53d852fc997ee5a27ebd3a6c9d2d951d1877c46e6c8ae0b8e5e3723f550",
    ),
    (
        "publish::plan::tests::clusters::clusters_of_one_registry_leave_one_another_alone_and_come_to_rest",
        "cc 572ccb1e0e24b2183f7db76a896bb12a31d6cf947a40ceb3e90cf2c3ba0b0cd8",
    ),
    (
        "publish::plan::tests::clusters::clusters_of_one_registry_leave_one_another_alone_and_come_to_rest",
        "cc edd8e9bdf3b6315238621cdc0b558bf93221031cdc7bf45fad1eff54f800d52f",
    ),
    (
        "publish::plan::tests::convergence::one_undisturbed_sync_registers_all_that_there_is_room_for",
        "cc 69b0cb923e2f77890f9d7d1356ec295dc461384178c0a4ba04eff4a90d046191",
    ),
    (
        "publish::plan::tests::clusters::clusters_of_one_registry_leave_one_another_alone_and_come_to_rest",
        "cc 3b2175ed95e00970291ed61d80c4cabed49398d8d6c1afae1cf54be15bae89a3",
    ),
    (
        "publish::plan::tests::convergence::one_undisturbed_sync_registers_all_that_there_is_room_for",
        "cc 071cdb1ab2d527ccac35a8e6608e4fcfff7883a2f5dba055615f2647e49cb610",
    ),
    (
        "publish::plan::tests::clusters::clusters_of_one_registry_leave_one_another_alone_and_come_to_rest",
        "cc b2fdb4b7394ddcf5b9badeb72a43a66460d019fc81d81e97cf6fb2c18c38a71c",
    ),
    (
        "publish::plan::tests::clusters::clusters_of_one_registry_leave_one_another_alone_and_come_to_rest",
        "cc c237f24448dcefb878260c8715185359bd3ea878e8cf29bcea31cc9cbbb08da1",
    ),
    (
        "publish::plan::tests::clusters::clusters_that_ask_for_different_ttls_come_to_rest",
        "cc e80b6cf9928148f21d97b96dded2130bdaa85e7adb68abcf86f9c4eadd15f5eb",
    ),
    (
        "publish::plan::tests::clusters::clusters_that_ask_for_different_ttls_come_to_rest",
        "cc 27af9eca792a10cc401565799aea871ee3015fab7af982a77e94d45f48a94546",
    ),
    (
        "publish::plan::tests::convergence::planning_after_applying_is_empty",
        "cc a67d53651f60d2279effe5e247fedd51ac546281062d981267a952b90c2086ae",
    ),
    (
        "publish::plan::tests::convergence::planning_after_applying_is_empty",
        "cc d76a2ecf198fdf01f8f5941759768f93451bd6db0c4e32fea741e096d09350f5",
    ),
    (
        "publish::plan::tests::convergence::planning_after_applying_is_empty",
        "cc e85a0a8d2450c3458a6176c6b8ae3c55ae5e96245470b490972683f6053cd794",
    ),
    (
        "publish::plan::tests::convergence::planning_after_applying_is_empty",
        "cc f6b4821161b04586a97f586a8f838256dd8491bb90da7808328d49e8803b0a42",
    ),
    (
        "publish::plan::tests::convergence::planning_after_applying_is_empty",
        "cc cdb9f9dad2d10dad3ff4bf98ebce20b9b23a2ca409a8aa2f9db386c2b141ecf6",
    ),
    (
        "publish::plan::tests::guard::convergence::a_guard_holds_for_a_time_and_changes_nothing_in_the_end",
        "cc e9c69033ca9b6810506231efde5eca331c08659f67570b87b7db6953b070d1c1",
    ),
    (
        "publish::plan::tests::clusters::clusters_that_ask_for_different_ttls_come_to_rest",
        "cc 532199af582801ff3124bcd62e3df6e01144612a0879f5d90366bd3b89d80d17",
    ),
    (
        "publish::plan::tests::convergence::what_a_plan_registers_under_one_name_is_registered_once",
        "cc d812300ab3cb36a18866927c72da1195caa543e5343006789e356c080856df82",
    ),
    (
        "publish::plan::tests::clusters::clusters_of_one_registry_leave_one_another_alone_and_come_to_rest",
        "cc 491a848df9eadc0c1c526e7320b24b098834863db109c9035d57f2d7e67dde18",
    ),
];

/// The first words of a failure's line; `.ci/run` looks for them.
const BREAKS: &str = "this world breaks";

/// The configuration of the properties of convergence.
pub fn config() -> ProptestConfig {
    config_of(128)
}

/// The same with another number of worlds.
pub fn config_of(cases: u32) -> ProptestConfig {
    let persistence = Some(Box::new(Seeds(FOUND)) as Box<dyn FailurePersistence>);
    let wanted = ProptestConfig { failure_persistence: persistence, ..ProptestConfig::default() };
    let few = ProptestConfig { cases, rng_seed: RngSeed::Fixed(1), ..wanted.clone() };
    let variables = ["PROPTEST_CASES", "PROPTEST_RNG_SEED"];
    let is_set = variables.iter().any(|variable| std::env::var_os(variable).is_some());
    if is_set { wanted } else { few }
}

/// A table of properties and seeds in place of proptest's files, which a failure would write into the source.
#[derive(Clone, Debug, PartialEq)]
struct Seeds(&'static [(&'static str, &'static str)]);

impl FailurePersistence for Seeds {
    fn load_persisted_failures2(&self, _: Option<&'static str>) -> Vec<PersistedSeed> {
        let current = thread::current();
        // The only thread of `--test-threads=1` has another name; there each property tries all of them.
        let is_tried = |name: &str| current.name().is_none_or(|it| it == "main" || it == name);
        let seeds = self.0.iter().filter(|(name, _)| is_tried(name));
        seeds.map(|(_, seed)| seed.parse().expect("a seed as a failure prints it")).collect()
    }

    fn save_persisted_failure2(
        &mut self,
        _: Option<&'static str>,
        seed: PersistedSeed,
        _: &dyn Debug,
    ) {
        let current = thread::current();
        let name = current.name().unwrap_or("the property");
        eprintln!(
            "{BREAKS} a property, and belongs into FOUND (src/publish/plan/tests/seeds.rs): (\"{name}\", \"{seed}\")"
        );
    }

    fn box_clone(&self) -> Box<dyn FailurePersistence> {
        Box::new(self.clone())
    }

    fn eq(&self, other: &dyn FailurePersistence) -> bool {
        other.as_any().downcast_ref::<Self>() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Draws values that no other seed of these draws.
const SEED: &str = "cc 0101010101010101010101010101010101010101010101010101010101010101";

/// The first value that `a_property` with this table tries.
fn first_tried(table: &'static [(&'static str, &'static str)]) -> u64 {
    let failure_persistence = Some(Box::new(Seeds(table)) as Box<dyn FailurePersistence>);
    let rng_seed = RngSeed::Fixed(1);
    let config = ProptestConfig { failure_persistence, rng_seed, max_shrink_iters: 0, ..config() };
    let property = || {
        let fails = |_| Err(TestCaseError::fail("as it should"));
        match TestRunner::new(config).run(&any::<u64>(), fails) {
            Err(TestError::Fail(_, value)) => value,
            passed => panic!("{passed:?}"),
        }
    };
    let named = thread::Builder::new().name("a_property".to_owned());
    named.spawn(property).expect("a thread").join().expect("a value")
}

#[test]
fn a_world_in_the_table_is_tried_before_all_others() {
    let drawn = first_tried(&[]);
    assert_eq!(first_tried(&[("another_property", SEED)]), drawn);
    assert_ne!(first_tried(&[("a_property", SEED)]), drawn);
}
