//! The passes of a sync, as a pure state machine: outcomes in, next changes out. `apply` makes the changes and does the
//! reads of a [`Step`]; the property tests do the same on a Cloud Map in memory.
//!
//! ```text
//! plan ──> pass 1: additions ──> read again ──> plan ──> pass 2: additions, then removals ──> ...
//!              (once more before, if the plan is old)        (endpoints read once more after removals)
//! ```
//!
//! Each Kubernetes Service takes a [`Turn`] of its own, or one with those that it waits for (`plan::in_turns`). If the
//! guard has to judge again between the passes, all Services take one turn. No removal is made in the first pass, and
//! none in a later pass that the first plan did not announce: that plan saw all Services.

mod due;
mod outcome;
mod record;
mod reread;
mod settle;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::ServiceRef;
use crate::publish::plan::{
    Basis, Change, Extent, Intent, Judged, Observation, RereadScope, in_turns,
};

pub use outcome::{Applied, Effect, Outcome, Results};
pub use turn::{NO_TIME, Step, Turn};

/// The turns in which the changes of a plan are made, `judged` if the guard judges again between the passes.
pub fn turns<'a>(
    intent: Intent<'a>,
    basis: Basis<'_>,
    changes: BTreeMap<ServiceRef, Vec<Change>>,
    judged: Option<Judged>,
) -> Vec<Turn<'a>> {
    let Basis { observation, holders, .. } = basis;
    let is_part = observation.extent == Extent::Part;
    if let Some(judged) = judged.filter(|_| !changes.is_empty()) {
        let observation = Observation {
            extent: Extent::Remainder,
            judged: Some(Arc::new(judged)),
            ..observation.clone()
        };
        return vec![Turn::new(intent, observation, (None, is_part), changes)];
    }
    let turns = in_turns(changes).into_iter().map(|changes| {
        let all: Vec<Change> = changes.values().flatten().cloned().collect();
        let services = changes.keys().cloned().collect();
        let services = observation.services_of_turn(&services, &all, is_part);
        let scope = RereadScope::of(holders, &services, &all);
        let narrow = scope.narrow(observation, holders);
        Turn::new(intent, narrow, (Some(scope.keys), is_part), changes)
    });
    turns.collect()
}
