//! The status of the guard for people: the Services that would lose instances or the imports that would lose endpoints,
//! the limits that are exceeded, since when, and the condition that lets the loss pass. The report has it as numbers,
//! every held-back line as a sentence.

use std::fmt::{self, Display, Formatter};

use super::{Guard, Losses, is_of_one_that_was_read, total};
use crate::model::{ClusterArn, GuardState, Timestamp, join_first};

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
    pub subject: LossSubject,
    /// Whether the loss is held or let pass, and why.
    pub state: GuardState,
    /// The Services that lose instances.
    pub losses: Losses,
    /// The number of instances that the loss is measured against.
    pub instances: usize,
    /// The number of further instances, in Cloud Map services that could not be read.
    pub unread: usize,
    pub guard: Guard,
    /// The time at which the loss was first seen.
    pub first_seen: Option<Timestamp>,
    /// Whether an earlier run saw the loss first.
    pub later_look: bool,
    pub cluster: ClusterArn,
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
        let no_note = Some(no_note);
        Self { first_seen: None, later_look: true, no_note, ..self }
    }

    /// The names of the Services or imports, at most [`NAMED`] of them.
    fn who(&self) -> String {
        let Words { owner, absent, .. } = self.subject.words();
        let names = join_first(self.losses.keys(), NAMED);
        match self.losses.len() {
            1 if is_of_one_that_was_read(&self.losses) => format!("{owner} {names}"),
            1 => format!("{owner} {names}, {absent},"),
            _ => format!("{owner}s {names}"),
        }
    }

    /// Whether the loss exceeds the limits.
    pub fn is_past(&self) -> bool {
        self.guard.is_passed_by(total(&self.losses), self.instances)
    }

    /// The time from which a full sync that sees the same loss lets it pass.
    pub fn lifts_from(&self) -> Option<Timestamp> {
        self.first_seen.map(|first_seen| self.guard.lifts_from(first_seen))
    }

    fn limits(&self) -> String {
        let (loss, Self { instances, guard, .. }) = (total(&self.losses), self);
        let Guard { share, minimum, .. } = guard;
        let noun = self.subject.words().noun;
        format!(
            "{loss} of {instances} {noun} at once, past GUARD_SHARE ({share} %) and GUARD_MINIMUM ({minimum})"
        )
    }

    /// Since when the loss is held, and the condition that ends it.
    fn until(&self) -> String {
        let cluster = &self.cluster;
        let confirm = format!("{{\"action\":\"confirm\",\"cluster\":\"{cluster}\"}}");
        if let (Some(first_seen), Some(lifts_from)) = (self.first_seen, self.lifts_from()) {
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
        let Words { noun, leave, unread: parts, .. } = self.subject.words();
        let (loss, Self { instances, unread, guard, .. }) = (total(&self.losses), self);
        let Guard { share, minimum, .. } = guard;
        match self.state {
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
                match self.first_seen {
                    Some(_) => write!(f, "; {}", self.until()),
                    None => Ok(()),
                }
            }
        }
    }
}
