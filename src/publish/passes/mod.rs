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

mod made;
mod outcome;
mod reread;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::ServiceRef;
use crate::publish::plan::{
    Change, Extent, GuardBaseline, Holders, InTurn, Observation, RereadScope, Task, in_turns,
};

pub use made::FirstPart;
pub use outcome::{Effect, Results, SettledChange};
pub use turn::{NO_TIME, Step, Turn};

/// The changes of a plan, by turn; one turn if the guard judges again between the passes.
///
/// A turn knows its own losses alone. If 200 Services lose an instance each since their registrations failed, 200 turns
/// would have a loss within the limits each.
pub fn by_turn(
    holders: &Holders,
    changes: BTreeMap<ServiceRef, Vec<Change>>,
    judged: Option<&Arc<GuardBaseline>>,
) -> Vec<InTurn> {
    if judged.is_none() || changes.is_empty() { in_turns(changes, holders) } else { vec![changes] }
}

impl<'a> Turn<'a> {
    /// The turn that makes `changes`, with the part of the observation that it needs: all of it if they are `judged`.
    /// A turn is made when it begins, since the parts of all turns would take as much memory as the observation.
    pub fn of(
        task: Task<'a>,
        observation: &Observation,
        changes: InTurn,
        judged: Option<&Arc<GuardBaseline>>,
    ) -> Self {
        // The whole sync that follows reads what it doubts.
        let is_part = observation.extent == Extent::Part && !matches!(task, Task::Additions);
        if let Some(judged) = judged {
            let judged = Some(Arc::clone(judged));
            let observation =
                Observation { extent: Extent::Remainder, judged, ..observation.clone() };
            return Turn::new(task, observation, (None, is_part), changes);
        }
        let all: Vec<Change> = changes.values().flatten().cloned().collect();
        let services = changes.keys().cloned().collect();
        let services = observation.services_of_turn(&services, &all, is_part);
        let scope = RereadScope::of(&observation.holders, &services, &all);
        let narrow = scope.narrow(observation);
        Turn::new(task, narrow, (Some(scope.keys), is_part), changes)
    }
}
