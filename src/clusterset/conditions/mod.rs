//! The conditions of a `ServiceExport`: from the outcome of the export in a run and the conflicts of its name to the
//! conditions to apply, or none if the status has them.

#[cfg(test)]
mod tests;

use crate::clusterset::merge::Merged;
use crate::model::{Condition, ConditionStatus, NotExportable, Timestamp};

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
    let valid = export.condition(valid(outcome), now);
    let is_valid = valid.status == ConditionStatus::True;
    let time_ran_out = *outcome.of_run() == ExportOutcome::TimeRanOut;
    let earlier = export.earlier_outcome().filter(|_| time_ran_out);
    let ready = earlier.unwrap_or_else(|| export.condition(ready(outcome), now));
    let conflict = match merged {
        Some(merged) => Some(export.condition(conflict(merged), now)),
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

// The table of conditions: status, reason and message of each, by the outcome of an export.
//
// | Condition | True | False | Unknown |
// |---|---|---|---|
// | Valid | `Valid` | `NoService`, `InvalidServiceType` | |
// | Ready | `Exported` | `Pending`, `Failed` | `Pending` |
// | Conflict | the reasons, joined by commas | `NoConflicts` | |

const VALID: &str = "Valid";
const READY: &str = "Ready";
const CONFLICT: &str = "Conflict";

/// The reason of `Ready` while the outcome is open.
const PENDING: &str = "Pending";
const FAILED: &str = "Failed";

const NO_SERVICE: &str = "There is no Service of this name.";
const AS_BEFORE: &str = "Other clusters import it as it was before";
const TIME_RAN_OUT: &str = "The time of the run was over before the export was complete.";

/// The longest message that the API accepts, in characters.
const MAX_MESSAGE: usize = 32_768;
/// The end of a message that was cut.
const CUT: char = '…';

/// A condition without its times.
#[derive(Debug)]
struct Content {
    kind: &'static str,
    status: ConditionStatus,
    reason: String,
    message: String,
}

impl Content {
    fn new(kind: &'static str, status: ConditionStatus, reason: &str, message: &str) -> Self {
        Self { kind, status, reason: reason.to_owned(), message: limited(message) }
    }
}

fn valid(outcome: &ExportOutcome) -> Content {
    let (status, reason, message) = match outcome {
        ExportOutcome::Invalid(obstacle) => {
            let (reason, message) = invalid(*obstacle);
            (ConditionStatus::False, reason, message)
        }
        _ => (ConditionStatus::True, "Valid", ""),
    };
    Content::new(VALID, status, reason, message)
}

fn ready(outcome: &ExportOutcome) -> Content {
    let (status, reason, message) = match outcome {
        ExportOutcome::Invalid(NotExportable::NoService) => {
            (ConditionStatus::False, PENDING, NO_SERVICE)
        }
        ExportOutcome::Invalid(obstacle) => (ConditionStatus::False, FAILED, message(*obstacle)),
        ExportOutcome::Exported(message) => (ConditionStatus::True, "Exported", message.as_str()),
        ExportOutcome::HeldBack(message) | ExportOutcome::Failed(message) => {
            (ConditionStatus::False, FAILED, message.as_str())
        }
        ExportOutcome::Waiting(message) => (ConditionStatus::False, PENDING, message.as_str()),
        ExportOutcome::TimeRanOut => (ConditionStatus::Unknown, PENDING, TIME_RAN_OUT),
        ExportOutcome::AsBefore(outcome) => {
            let message = format!("{AS_BEFORE}: {}", ready(outcome).message);
            return Content::new(READY, ConditionStatus::True, "Exported", &message);
        }
    };
    Content::new(READY, status, reason, message)
}

fn conflict(merged: &Merged) -> Content {
    if merged.conflicts.is_empty() {
        return Content::new(CONFLICT, ConditionStatus::False, "NoConflicts", "");
    }
    let reasons: Vec<&str> = merged.conflicts.iter().map(|it| it.reason.as_str()).collect();
    let messages: Vec<&str> = merged.conflicts.iter().map(|it| it.message.as_str()).collect();
    Content::new(CONFLICT, ConditionStatus::True, &reasons.join(","), &messages.join(" "))
}

/// The reason and the message of `Valid` for a Service that cannot be exported.
pub fn invalid(obstacle: NotExportable) -> (&'static str, &'static str) {
    let reason = match obstacle {
        NotExportable::NoService => "NoService",
        NotExportable::ExternalName | NotExportable::Derived => "InvalidServiceType",
    };
    (reason, message(obstacle))
}

fn message(obstacle: NotExportable) -> &'static str {
    match obstacle {
        NotExportable::NoService => NO_SERVICE,
        NotExportable::ExternalName => "A Service of type ExternalName has no endpoints to export.",
        NotExportable::Derived => "The Service is part of an import and cannot be exported again.",
    }
}

fn limited(message: &str) -> String {
    if message.chars().count() <= MAX_MESSAGE {
        return message.to_owned();
    }
    message.chars().take(MAX_MESSAGE - 1).chain([CUT]).collect()
}

// The conditions that turned bad in a run: each becomes a Warning on its `ServiceExport`.

/// A condition that turned bad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worse {
    /// The reason of the condition; `Conflict` if it has several.
    pub reason: String,
    /// Its message, after its reasons if there are several.
    pub note: String,
}

/// The conditions to apply that are bad, and were not, or for another reason. While `Valid` is bad, the others follow
/// from it.
pub fn turned_bad(export: ObservedExport<'_>, wanted: &[Condition]) -> Vec<Worse> {
    let bad = wanted.iter().filter(|condition| is_bad(condition));
    let mut bad: Vec<&Condition> = bad.collect();
    if let Some(valid) = bad.iter().position(|it| it.kind == VALID) {
        bad = vec![bad[valid]];
    }
    let is_new = |condition: &&Condition| {
        let present = export.find(&condition.kind);
        present.is_none_or(|it| (it.status, &it.reason) != (condition.status, &condition.reason))
    };
    bad.into_iter().filter(is_new).map(worse).collect()
}

/// Whether a condition of ours says that something is wrong. `Unknown` is followed by an outcome.
pub fn is_bad(condition: &Condition) -> bool {
    match condition.kind.as_str() {
        VALID | READY => condition.status == ConditionStatus::False,
        CONFLICT => condition.status == ConditionStatus::True,
        _ => false,
    }
}

fn worse(condition: &Condition) -> Worse {
    let Condition { reason, message, .. } = condition;
    if reason.contains(',') {
        let note = format!("{reason}: {message}");
        return Worse { reason: CONFLICT.to_owned(), note };
    }
    Worse { reason: reason.clone(), note: message.clone() }
}
