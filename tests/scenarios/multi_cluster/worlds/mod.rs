//! Random worlds of exports (`story`), played against the sandbox's servers (`play`): several processes at once, of one
//! function or of two that know nothing of each other, slow operations, calls that fail, imports deleted by hand.
//! Meanwhile no import loses an endpoint that is ready throughout, and no foreign object is touched. In the end a full
//! sync of each function leads to the wanted state, by rules of `outcome`'s own.

mod outcome;
mod play;
mod story;

use proptest::prelude::*;

use crate::seeds::config_of;

/// This number of worlds takes a few seconds.
const WORLDS: u32 = 10;

proptest! {
    #![proptest_config(config_of(WORLDS))]

    #[test]
    fn exports_and_imports_come_to_rest_and_lose_nothing_on_the_way(story in story::story()) {
        play::play(&story);
    }
}
