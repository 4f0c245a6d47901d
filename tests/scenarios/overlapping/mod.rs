//! Several processes of the function at once, slow operations, reads that fail and lists that lag, on random worlds
//! (`story`), played against the sandbox's servers (`play`): while all that goes on no name loses a pod that is ready
//! throughout, and when it is over two full syncs at most lead to the state that is wanted (`outcome`).

mod outcome;
mod play;
mod story;
pub mod trouble;

use proptest::prelude::*;

use crate::seeds::config_of;

/// So many worlds take a few seconds.
const WORLDS: u32 = 10;

proptest! {
    #![proptest_config(config_of(WORLDS))]

    #[test]
    fn overlapping_runs_come_to_rest_and_lose_nothing_on_the_way(story in story::story()) {
        play::play(&story);
    }
}
