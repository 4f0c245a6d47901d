//! The conditions of a `ServiceExport`: from the outcome of the export in a run and the conflicts of its name to the
//! conditions to apply, or none if the status has them.

mod table;
#[cfg(test)]
mod tests;
mod worse;

use super::merge::Merged;
use crate::model::{Condition, ConditionStatus, NotExportable, Timestamp};
use table::{CONFLICT, Content, PENDING, READY, VALID};

pub use table::invalid;
pub use worse::{Worse, is_bad, turned_bad};

/// The outcome of an export in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportOutcome {
    /// The Service cannot be exported.
    Invalid(NotExportable),
    /// The record is in Cloud Map. With a message if some endpoints are not, else empty.
    Exported(String),
    /// Not done, and a retry does not help. With the line of the report.
    HeldBack(String),
    /// Cloud Map refused. With the line of the report.
    Failed(String),
    /// There is no record yet, because of the guard or for the next run. With the reason.
    Waiting(String),
    /// The run ended without an outcome.
    TimeRanOut,
    /// The run changed nothing of it, for the reason in this outcome, and a record of before stands: the export is
    /// imported.
    AsBefore(Box<Self>),
}

impl ExportOutcome {
    /// The outcome of the run itself.
    pub fn of_run(&self) -> &Self {
        if let Self::AsBefore(outcome) = self { outcome } else { self }
    }
}

/// A `ServiceExport` as it was read.
#[derive(Clone, Copy, Debug)]
pub struct ObservedExport<'a> {
    /// Its `metadata.generation`.
    pub generation: i64,
    /// All conditions of its status, also those of other controllers.
    pub conditions: &'a [Condition],
}

/// The conditions to apply, or `None` if the status has them. They are complete: a server-side apply removes those that
/// an earlier one contained and this one does not. `Conflict` stays as it is if `merged` is not known in this run.
pub fn conditions_to_apply(
    export: ObservedExport<'_>,
    outcome: &ExportOutcome,
    merged: Option<&Merged>,
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let valid = export.condition(table::valid(outcome), now);
    let is_valid = valid.status == ConditionStatus::True;
    let time_ran_out = *outcome.of_run() == ExportOutcome::TimeRanOut;
    let earlier = export.earlier_outcome().filter(|_| time_ran_out);
    let ready = earlier.unwrap_or_else(|| export.condition(table::ready(outcome), now));
    let conflict = match merged {
        Some(merged) => Some(export.condition(table::conflict(merged), now)),
        None => export.find(CONFLICT).cloned(),
    };
    let conflict = conflict.filter(|_| is_valid);
    let wanted: Vec<Condition> =
        [Some(valid), Some(ready), conflict].into_iter().flatten().collect();
    (!export.has_exactly(&wanted)).then_some(wanted)
}

impl ObservedExport<'_> {
    fn find(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|it| it.kind == kind)
    }

    /// A condition with this content. Its time moves only with the status, so an unchanged condition equals the one
    /// that is there.
    fn condition(&self, content: Content, now: Timestamp) -> Condition {
        let Content { kind, status, reason, message } = content;
        let unchanged = self.find(kind).filter(|it| it.status == status);
        Condition {
            kind: kind.to_owned(),
            status,
            reason,
            message,
            observed_generation: Some(self.generation),
            last_transition_time: unchanged.map_or(now, |it| it.last_transition_time),
        }
    }

    /// The outcome of an earlier run, if the Service was valid then.
    fn earlier_outcome(&self) -> Option<Condition> {
        let was_valid = self.find(VALID)?.status == ConditionStatus::True;
        self.find(READY).filter(|ready| was_valid && ready.reason != PENDING).cloned()
    }

    /// Whether the status has these of our conditions and no other of them.
    fn has_exactly(&self, wanted: &[Condition]) -> bool {
        let ours = [VALID, READY, CONFLICT].into_iter().filter_map(|kind| self.find(kind));
        ours.eq(wanted)
    }
}
