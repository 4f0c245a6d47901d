//! The conditions to apply to a `ServiceExport`, unless its status already has them. They follow from the outcome of
//! the export in a run and the conflicts of its name, or from the reason why the whole cluster is held back.

#[cfg(test)]
mod tests;

use crate::clusterset::merge::Merged;
use crate::model::{
    Condition, FALSE, Line, NotExportable, ServiceExport, TRUE, Time, Timestamp, UNKNOWN,
};

/// The outcome of an export in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportOutcome {
    /// The Service cannot be exported.
    Invalid(NotExportable),
    /// The record is in Cloud Map. The message is about the endpoints that are not; it is empty if all are.
    Exported(String),
    /// The export was held back, for the reason in this line of the report.
    HeldBack(String),
    /// Cloud Map refused a request. Contains the line of the report.
    Failed(String),
    /// The run ended without an outcome.
    TimeRanOut,
    /// The run changed nothing of the export, for the reason in the inner outcome, but the record of an earlier run is
    /// still in Cloud Map: other clusters import it.
    AsBefore(Box<Self>),
}

impl ExportOutcome {
    /// The outcome of this run, without the wrapper [`Self::AsBefore`].
    pub fn of_this_run(&self) -> &Self {
        if let Self::AsBefore(outcome) = self { outcome } else { self }
    }

    /// The problem to report to the owner of the export: a code, and a sentence for people.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        Some(match self.of_this_run() {
            Self::AsBefore(_) => return None,
            Self::Exported(message) if message.is_empty() => return None,
            Self::Exported(message) => (EXPORTED, message.clone()),
            Self::Invalid(obstacle) => (reason(*obstacle), obstacle.to_string()),
            Self::HeldBack(line) => ("HeldBack", line.clone()),
            Self::Failed(line) => (FAILED, line.clone()),
            Self::TimeRanOut => (PENDING, "the time of the run was over".to_owned()),
        })
    }
}

/// Returns the conditions to apply, or `None` if the status already has them. The list is complete: a server-side apply
/// removes conditions that only an earlier apply contained. If `merged` is unknown in this run, `Conflict` stays
/// unchanged.
pub fn conditions_to_apply(
    export: &ServiceExport,
    outcome: &ExportOutcome,
    merged: Option<&Merged>,
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let valid = export.condition(VALID, valid(outcome), now);
    let is_valid = valid.status == TRUE;
    let time_ran_out = *outcome.of_this_run() == ExportOutcome::TimeRanOut;
    let earlier = export.earlier_outcome().filter(|_| time_ran_out);
    let ready = earlier.unwrap_or_else(|| export.condition(READY, ready(outcome), now));
    let conflict = match merged {
        Some(merged) => Some(export.condition(CONFLICT, conflict(merged), now)),
        None => export.find(CONFLICT).cloned(),
    };
    let conflict = conflict.filter(|_| is_valid);
    let wanted: Vec<Condition> =
        [Some(valid), Some(ready), conflict].into_iter().flatten().collect();
    (!export.has_exactly(&wanted)).then_some(wanted)
}

/// Returns the conditions to apply to an export of a cluster that is held back as a whole, or `None` if the status
/// already has them. `Ready` gives the reason; the others stay unchanged.
pub fn conditions_if_held_back(
    export: &ServiceExport,
    obstacle: &Line,
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let why = (FALSE, obstacle.code.to_string(), obstacle.text.clone());
    let ready = export.condition(READY, why, now);
    let [valid, conflict] = [VALID, CONFLICT].map(|kind| export.find(kind).cloned());
    let wanted: Vec<Condition> = [valid, Some(ready), conflict].into_iter().flatten().collect();
    (!export.has_exactly(&wanted)).then_some(wanted)
}

impl ServiceExport {
    fn find(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }

    /// Returns a condition with this content. The transition time changes only with the status, so an unchanged
    /// condition equals the present one.
    fn condition(
        &self,
        kind: &str,
        (status, reason, message): (&str, impl Into<String>, String),
        now: Timestamp,
    ) -> Condition {
        let unchanged = self.find(kind).filter(|condition| condition.status == status);
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.into(),
            message: limited(message),
            observed_generation: Some(self.generation),
            last_transition_time: unchanged
                .map_or(Time(now), |condition| condition.last_transition_time.clone()),
        }
    }

    /// The outcome of an earlier run, if it was known then and the Service was valid.
    fn earlier_outcome(&self) -> Option<Condition> {
        let was_valid = self.find(VALID)?.status == TRUE;
        self.find(READY).filter(|ready| was_valid && ready.reason != PENDING).cloned()
    }

    /// Whether the status has exactly these conditions of ours.
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
// | Ready | `Exported` | `Pending`, `Failed`, the code of the obstacle of its cluster | `Pending` |
// | Conflict | the reasons, joined by commas | `NoConflicts` | |

const VALID: &str = "Valid";
const READY: &str = "Ready";
const CONFLICT: &str = "Conflict";

const EXPORTED: &str = "Exported";
/// The reason of `Ready` if the outcome is not known yet, or if the Service is missing.
const PENDING: &str = "Pending";
const FAILED: &str = "Failed";

const TIME_RAN_OUT: &str = "The time of the run was over before the export was complete.";

/// The longest message that the API accepts, in characters.
const MAX_MESSAGE: usize = 32_768;
/// The end of a message that was cut.
const CUT: char = '…';

fn valid(outcome: &ExportOutcome) -> (&'static str, &'static str, String) {
    match outcome {
        ExportOutcome::Invalid(obstacle) => (FALSE, reason(*obstacle), obstacle.to_string()),
        _ => (TRUE, VALID, String::new()),
    }
}

fn ready(outcome: &ExportOutcome) -> (&'static str, &'static str, String) {
    match outcome {
        ExportOutcome::Invalid(obstacle) => {
            let is_awaited = *obstacle == NotExportable::NoService;
            let reason = if is_awaited { PENDING } else { FAILED };
            (FALSE, reason, obstacle.to_string())
        }
        ExportOutcome::Exported(message) => (TRUE, EXPORTED, message.clone()),
        ExportOutcome::HeldBack(line) | ExportOutcome::Failed(line) => {
            (FALSE, FAILED, line.clone())
        }
        ExportOutcome::TimeRanOut => (UNKNOWN, PENDING, TIME_RAN_OUT.to_owned()),
        ExportOutcome::AsBefore(of_this_run) => {
            let (_, _, message) = ready(of_this_run);
            let message = format!("Other clusters import it as it was before: {message}");
            (TRUE, EXPORTED, message)
        }
    }
}

fn conflict(merged: &Merged) -> (&'static str, String, String) {
    match merged.disagreement() {
        Some((reasons, messages)) => (TRUE, reasons, messages),
        None => (FALSE, "NoConflicts".to_owned(), String::new()),
    }
}

/// The reason of `Valid` for a Service that cannot be exported.
fn reason(obstacle: NotExportable) -> &'static str {
    match obstacle {
        NotExportable::NoService => "NoService",
        NotExportable::ExternalName | NotExportable::Derived => "InvalidServiceType",
    }
}

fn limited(message: String) -> String {
    if message.chars().count() <= MAX_MESSAGE {
        return message;
    }
    message.chars().take(MAX_MESSAGE - 1).chain([CUT]).collect()
}

// Conditions that turned bad in a run. Each becomes a Warning on its `ServiceExport`.

/// Returns the reason and message of each condition that is bad now and was not before, or was for another reason. If
/// `Valid` is bad, only `Valid` is returned, since the others follow from it.
pub fn turned_bad(export: &ServiceExport, wanted: &[Condition]) -> Vec<(String, String)> {
    let mut bad: Vec<&Condition> = wanted.iter().filter(|condition| is_bad(condition)).collect();
    if bad.first().is_some_and(|condition| condition.type_ == VALID) {
        bad.truncate(1);
    }
    bad.retain(|condition| {
        let present = export.find(&condition.type_);
        present.is_none_or(|present| {
            (&present.status, &present.reason) != (&condition.status, &condition.reason)
        })
    });
    let warning = |Condition { reason, message, .. }: &Condition| {
        if reason.contains(',') {
            (CONFLICT.to_owned(), format!("{reason}: {message}"))
        } else {
            (reason.clone(), message.clone())
        }
    };
    bad.into_iter().map(warning).collect()
}

/// Whether a condition of ours reports a problem. `Unknown` is not one: a later run gives the outcome.
pub fn is_bad(condition: &Condition) -> bool {
    match condition.type_.as_str() {
        VALID | READY => condition.status == FALSE,
        CONFLICT => condition.status == TRUE,
        _ => false,
    }
}
