//! Random worlds of services across clusters: `story` has the world and the runs, `moves` all that a person or another
//! client of Cloud Map and the clusters does meanwhile. A story is played against the sandbox's servers (`play`), and
//! `oracle` has what may be seen while it goes on and what is there in the end, by rules of its own.

mod moves;
mod oracle;
mod play;
mod story;
mod trouble;

use proptest::prelude::*;

use crate::seeds::config_of;

/// The number that takes a few seconds.
const WORLDS: u32 = 5;

proptest! {
    #![proptest_config(config_of(WORLDS))]

    #[test]
    fn exports_and_imports_come_to_rest_and_lose_nothing_on_the_way(story in story::story()) {
        play::play(&story);
    }
}
