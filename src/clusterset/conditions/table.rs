//! The table of conditions: status, reason and message of each, by the outcome of an export.
//!
//! | Condition | True | False | Unknown |
//! |---|---|---|---|
//! | Valid | `Valid` | `NoService`, `InvalidServiceType` | |
//! | Ready | `Exported` | `Pending`, `Failed` | `Pending` |
//! | Conflict | the reasons, joined by commas | `NoConflicts` | |

use super::ExportOutcome;
use crate::clusterset::merge::Merged;
use crate::model::{ConditionStatus, NotExportable};

pub(super) const VALID: &str = "Valid";
pub(super) const READY: &str = "Ready";
pub(super) const CONFLICT: &str = "Conflict";

/// The reason of `Ready` while the outcome is open.
pub(super) const PENDING: &str = "Pending";
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
pub(super) struct Content {
    pub(super) kind: &'static str,
    pub(super) status: ConditionStatus,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Content {
    fn new(kind: &'static str, status: ConditionStatus, reason: &str, message: &str) -> Self {
        Self { kind, status, reason: reason.to_owned(), message: limited(message) }
    }
}

pub(super) fn valid(outcome: &ExportOutcome) -> Content {
    let (status, reason, message) = match outcome {
        ExportOutcome::Invalid(obstacle) => {
            let (reason, message) = invalid(*obstacle);
            (ConditionStatus::False, reason, message)
        }
        _ => (ConditionStatus::True, "Valid", ""),
    };
    Content::new(VALID, status, reason, message)
}

pub(super) fn ready(outcome: &ExportOutcome) -> Content {
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

pub(super) fn conflict(merged: &Merged) -> Content {
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
