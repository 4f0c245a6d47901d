//! Two invocations in two processes of the function, interleaved call by call (`play`): a full sync and a message, two
//! messages about one Service, and two clusters under one name (`pair`), before, while and after the world changes.
//! Whatever the order of their calls, nothing foreign is touched, no name loses an endpoint that stays ready, and a full
//! sync afterwards leads to the wanted state. `schedule` chooses the orders.
//!
//! A few orders at random are played. `INTERLEAVINGS=2` plays all those in which at most two invocations are interrupted
//! by the other one, and so on; `INTERLEAVINGS=all` all of them, which takes hours.

mod pair;
mod play;
mod schedule;

use std::sync::OnceLock;

use proptest::prelude::*;

use crate::seeds::config_of;
use pair::Pair;
use play::Rehearsed;
use schedule::Drawn;

/// So many orders of each pair take a second.
const ORDERS: u32 = 2;

macro_rules! pairs {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        mod $name {
            use super::*;

            proptest! {
                #![proptest_config(config_of(ORDERS))]

                #[test]
                fn in_a_random_order(choices in prop::collection::vec(any::<u8>(), 60)) {
                    static REHEARSED: OnceLock<Rehearsed> = OnceLock::new();
                    let pair = Pair::$name();
                    let rehearsed = REHEARSED.get_or_init(|| Rehearsed::of(&pair));
                    let problem = play::once(&pair, rehearsed, &mut Drawn::new(&choices));
                    prop_assert!(problem.is_none(), "{}", problem.unwrap_or_default());
                }
            }

            #[test]
            fn in_all_orders_that_are_asked_for() {
                play::all(&Pair::$name());
            }
        }
    )*};
}

pairs! {
    schedule_and_message;
    two_messages;
    two_clusters;
    two_schedules;
    flapping_pod;
}
