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
use crate::publish::plan::{Change, GuardBaseline, Holders, InTurn, in_turns};

pub use made::FirstPart;
pub use outcome::{Effect, Results, SettledChange};
pub use turn::{Step, Turn};

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
