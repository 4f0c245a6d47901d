//! The status of the guard for people: the Services that would lose instances or the imports that would lose endpoints,
//! the limits that are exceeded, since when, and the condition that lets the loss pass. The report has it as numbers,
//! every held-back line as a sentence.

use std::fmt::{self, Display, Formatter};

use super::{Circumstances, Guard, Verdict, is_of_one_that_was_read, total};
use crate::model::{GuardState, Timestamp, join_first};

/// The number of Services that a sentence names.
const NAMED: usize = 3;

/// What a cluster would lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossSubject {
    /// Instances of its Services in Cloud Map.
    Instances,
    /// Ready endpoints of other clusters in its imports.
    Endpoints,
}

/// The words about a loss.
struct Words {
    noun: &'static str,
    /// The verb for all of them together.
    leave: &'static str,
    owner: &'static str,
    /// The part that could not be read beside the loss.
    unread: &'static str,
    /// The meaning of a name that was not read.
    absent: &'static str,
}

impl LossSubject {
    fn words(self) -> Words {
        match self {
            Self::Instances => Words {
                noun: "instances",
                leave: "are deregistered",
                owner: "Service",
                unread: "Cloud Map services",
                absent: "which is not in the cluster",
            },
            Self::Endpoints => Words {
                noun: "imported endpoints",
                leave: "leave the imports",
                owner: "import",
                unread: "clusters",
                absent: "which no cluster exports any more",
            },
        }
    }
}

/// The status of the guard in one run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuardStatus {
    pub run: Circumstances,
    pub verdict: Verdict,
    /// Whether an earlier run saw the loss first.
    pub later_look: bool,
    /// The reason why no later run can know of this one, if it left no note.
    pub no_note: Option<String>,
}

impl GuardStatus {
    /// The status of a loss of which nothing can be noted: only a person lets it pass. `problem` is the error that keeps
    /// a Cloud Map service from having the note.
    #[must_use]
    pub fn without_note(self, problem: Option<&str>) -> Self {
        let problem = problem.map(|problem| format!(" ({problem})")).unwrap_or_default();
        let no_note = format!(
            "no instance of the cluster has room for a note of the time, and no Cloud Map service that carries our tag has it{problem}"
        );
        let verdict = Verdict { first_seen: None, ..self.verdict };
        Self { verdict, later_look: true, no_note: Some(no_note), ..self }
    }

    /// The names of the Services or imports, at most [`NAMED`] of them.
    fn who(&self) -> String {
        let Words { owner, absent, .. } = self.run.subject.words();
        let losses = self.verdict.losses();
        let names = join_first(losses.keys(), NAMED);
        match losses.len() {
            1 if is_of_one_that_was_read(losses) => format!("{owner} {names}"),
            1 => format!("{owner} {names}, {absent},"),
            _ => format!("{owner}s {names}"),
        }
    }

    /// Whether the loss exceeds the limits.
    pub fn is_past(&self) -> bool {
        self.run.guard.is_passed_by(total(self.verdict.losses()), self.verdict.instances)
    }

    /// The time from which a full sync that sees the same loss lets it pass.
    pub fn lifts_from(&self) -> Option<Timestamp> {
        self.verdict.first_seen.map(|first_seen| self.run.guard.lifts_from(first_seen))
    }

    fn limits(&self) -> String {
        let (loss, instances) = (total(self.verdict.losses()), self.verdict.instances);
        let Guard { share, minimum, .. } = self.run.guard;
        let noun = self.run.subject.words().noun;
        format!(
            "{loss} of {instances} {noun} at once, past GUARD_SHARE ({share} %) and GUARD_MINIMUM ({minimum})"
        )
    }

    /// Since when the loss is held, and the condition that ends it.
    fn until(&self) -> String {
        let cluster = &self.run.cluster;
        let confirm = format!("{{\"action\":\"confirm\",\"cluster\":\"{cluster}\"}}");
        if let (Some(first_seen), Some(lifts_from)) = (self.verdict.first_seen, self.lifts_from()) {
            return format!(
                "first seen {first_seen}; the full sync lets the same loss pass from {lifts_from} on, {confirm} at once"
            );
        }
        let no_note = self.no_note.as_ref().map(|why| format!("{why}, so ")).unwrap_or_default();
        format!("{no_note}they stay until {confirm}")
    }
}

impl Display for GuardStatus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (who, limits) = (self.who(), self.limits());
        let Words { noun, leave, unread: parts, .. } = self.run.subject.words();
        let loss = total(self.verdict.losses());
        let Verdict { state, instances, unread, first_seen, .. } = self.verdict;
        let Guard { share, minimum, .. } = self.run.guard;
        match state {
            GuardState::Held => write!(f, "{who} would lose {limits}; {}", self.until()),
            GuardState::Lifted => {
                write!(
                    f,
                    "{who} would lose {limits}; the same loss was seen before, so they {leave}"
                )
            }
            GuardState::Confirmed => {
                write!(f, "{who} would lose {limits}; the loss is confirmed, so they {leave}")
            }
            GuardState::LeftToFullSync if self.is_past() => write!(
                f,
                "{who} would lose {limits}; this targeted sync leaves it to the full sync"
            ),
            GuardState::LeftToFullSync => write!(
                f,
                "{who} would lose {loss} of {instances} {noun}; this targeted sync, which has not read all of Cloud Map, leaves it to the full sync"
            ),
            GuardState::HeldUntilRead => write!(
                f,
                "{who} would lose {loss} of {instances} {noun}, and {parts} with {unread} more could not be read: together past GUARD_SHARE ({share} %) and GUARD_MINIMUM ({minimum}); they stay until a full sync has read those"
            ),
            GuardState::HeldByFullSync => {
                write!(f, "{who} would lose {loss} {noun} that the full sync holds")?;
                match first_seen {
                    Some(_) => write!(f, "; {}", self.until()),
                    None => Ok(()),
                }
            }
        }
    }
}
