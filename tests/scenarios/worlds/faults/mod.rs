//! Every single fault: each call of each `situation`, a short story of the worlds, goes wrong in each way that `trouble`
//! knows, once or from then on, and the process ends before or after each write. `play` plays one such case on a world of
//! its own. The oracle of the worlds judges the state that the run without a fault leads to; with one at most two runs
//! lead to the same, and `outcome` has the other rules: no name loses an endpoint that stays ready, at any call, and a
//! run that reports no problem has none.
//!
//! There are some ten thousand cases. A few of each situation are played, always the same; `SINGLE_FAULTS=all` plays
//! them all, and `SINGLE_FAULTS=<text>` those whose name has the text.

pub mod outcome;
pub mod play;
pub mod situation;
pub mod trouble;

use situation::Situation;

macro_rules! situations {
    ($($name:ident;)*) => {$(
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
    shared_name;
    new_namespace;
    message;
    mass_loss;
    name_policy;
    adoption;
    purge;
    through_a_role;
    first_export;
    exported_pods;
    unexported;
}
