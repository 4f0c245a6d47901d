//! Every single fault: each call of each `situation` goes wrong in each way that `trouble` knows, once or from then on,
//! and the process ends before or after each write. `play` plays one such case on a world of its own, and `outcome` has
//! the rules for all of them: nothing foreign is touched and no name loses an endpoint that stays ready, at any call; a
//! run that reports no problem has none; two runs without faults lead to the wanted state, and the next one writes
//! nothing.
//!
//! There are some ten thousand cases. A few of each situation are played, always the same; `SINGLE_FAULTS=all` plays
//! them all, and `SINGLE_FAULTS=<text>` those whose name has the text.

pub mod outcome;
pub mod play;
pub mod situation;
mod trouble;

use situation::Situation;

macro_rules! situations {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            play::all(&Situation::$name());
        }
    )*};
}

situations! {
    first_sync;
    scale;
    rolling_replacement;
    rename;
    annotation_removed;
    service_deleted;
    ttl;
    custom_health;
    shared_name;
    new_namespace;
    empty_service;
    message;
    mass_loss;
    name_policy;
    adoption;
    purge;
    dead_cluster;
    through_a_role;
    first_export;
    exported_pods;
    unexported;
}
