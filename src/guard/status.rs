//! Describes the guard's verdict for people: which Services would lose instances or which imports would lose endpoints,
//! which limits are exceeded, since when, and under which condition the loss passes. The report also has the verdict as
//! numbers; each held-back line has the sentence.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use super::{Circumstances, Verdict, is_single_and_read, total};
use crate::model::{Guard, GuardState, ServiceRef, Timestamp, join_first};

/// The most Services or imports that a sentence names.
const NAMED: usize = 3;

/// The kind of loss that the guard judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossSubject {
    /// Instances of its Services in Cloud Map.
    Instances,
    /// Ready endpoints of other clusters in its imports.
    Endpoints,
}

/// The nouns and clauses of a sentence about a loss.
struct Words {
    noun: &'static str,
    /// The noun for the object that would lose them: "Service" or "import".
    losing_object: &'static str,
    /// The noun for the parts that could not be read, such as "Cloud Map services".
    unread: &'static str,
    /// The clause for a Service or import that is gone, such as "which no cluster exports any more".
    absent: &'static str,
}

impl LossSubject {
    fn words(self) -> Words {
        match self {
            Self::Instances => Words {
                noun: "instances",
                losing_object: "Service",
                unread: "Cloud Map services",
                absent: "which is gone or not published any more",
            },
            Self::Endpoints => Words {
                noun: "imported endpoints",
                losing_object: "import",
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
    /// Held Services or imports whose loss could not be stored in an attribute or annotation. Later runs cannot tell
    /// that it was seen before.
    pub without_note: BTreeSet<ServiceRef>,
}

impl GuardStatus {
    /// The names of the Services or imports, at most [`NAMED`] of them.
    fn who(&self) -> String {
        let Words { losing_object, absent, .. } = self.run.subject.words();
        let losses = self.verdict.losses();
        let names = join_first(losses.keys(), NAMED);
        match losses.len() {
            1 if is_single_and_read(losses) => format!("{losing_object} {names}"),
            1 => format!("{losing_object} {names}, {absent},"),
            _ => format!("{losing_object}s {names}"),
        }
    }

    /// Whether the loss exceeds the limits.
    pub fn exceeds_limits(&self) -> bool {
        self.run.guard.is_exceeded_by(total(self.verdict.losses()), self.verdict.instances)
    }

    /// Returns when the most recent of the losses was first seen, or `None` if no held loss could be stored.
    pub fn first_seen(&self) -> Option<Timestamp> {
        let Verdict { state, held, first_seen, .. } = &self.verdict;
        let is_noted = |service| !self.without_note.contains(service);
        first_seen.filter(|_| !state.holds() || held.keys().any(is_noted))
    }

    /// Returns whether an operator must decide: the loss is held, and an earlier run already saw it, or the loss of a
    /// held Service or import could not be stored.
    pub fn needs_operator(&self) -> bool {
        let is_seen_before = self.first_seen().is_some_and(|first_seen| first_seen < self.run.now);
        self.verdict.state.holds() && (is_seen_before || !self.without_note.is_empty())
    }

    /// The time from which a full sync that sees the same loss lets it pass.
    pub fn lifts_from(&self) -> Option<Timestamp> {
        let wait = self.run.guard.wait;
        let lifts_from = |seen: Timestamp| seen.saturating_add(wait).unwrap_or(Timestamp::MAX);
        self.first_seen().map(lifts_from)
    }

    fn limits(&self) -> String {
        let loss = total(self.verdict.losses());
        let instances = self.verdict.instances;
        let Guard { share, minimum, .. } = self.run.guard;
        let noun = self.run.subject.words().noun;
        format!(
            "{loss} of {instances} {noun} at once, past GUARD_SHARE ({share} %) and GUARD_MINIMUM ({minimum})"
        )
    }

    /// The time since which the loss is held, and the condition that ends it.
    fn until(&self) -> String {
        let cluster = &self.run.cluster;
        let confirm = format!("{{\"action\":\"confirm\",\"cluster\":\"{cluster}\"}}");
        let mut sentences = Vec::new();
        if let (Some(first_seen), Some(lifts_from)) = (self.first_seen(), self.lifts_from()) {
            sentences.push(format!(
                "first seen {first_seen}; a full sync lets the same loss pass from {lifts_from} on; {confirm} lets it pass at once"
            ));
        }
        if !self.without_note.is_empty() {
            let Words { losing_object, noun, .. } = self.run.subject.words();
            let names = join_first(&self.without_note, NAMED);
            let plural = if self.without_note.len() == 1 { "" } else { "s" };
            sentences.push(format!(
                "no later run can know of the loss of {losing_object}{plural} {names}, since it could not be noted, so these {noun} stay until you invoke {confirm}"
            ));
        }
        sentences.join("; ")
    }
}

impl Display for GuardStatus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let who = self.who();
        let limits = self.limits();
        let Words { noun, unread: parts, .. } = self.run.subject.words();
        let loss = total(self.verdict.losses());
        let Verdict { state, instances, unread, first_seen, .. } = self.verdict;
        let Guard { share, minimum, .. } = self.run.guard;
        match state {
            GuardState::Held => write!(f, "{who} would lose {limits}; {}", self.until()),
            // The guard lets the loss pass, but a removal may still wait for additions or for a second look.
            GuardState::Lifted => write!(
                f,
                "{who} would lose {limits}; the same loss was seen before, so the guard lets it pass"
            ),
            GuardState::Confirmed => write!(
                f,
                "{who} would lose {limits}; the loss is confirmed, so the guard lets it pass"
            ),
            GuardState::LeftToFullSync if self.exceeds_limits() => write!(
                f,
                "{who} would lose {limits}; this targeted sync leaves it to the full sync"
            ),
            GuardState::LeftToFullSync => write!(
                f,
                "{who} would lose {loss} of {instances} {noun}; this targeted sync, which has not read all of Cloud Map, leaves it to the full sync"
            ),
            GuardState::HeldUntilRead => write!(
                f,
                "{who} would lose {loss} of {instances} {noun}, and {parts} with {unread} more could not be read: together past GUARD_SHARE ({share} %) and GUARD_MINIMUM ({minimum}); these {noun} stay until a full sync has read these {parts}"
            ),
            GuardState::HeldByFullSync => {
                write!(f, "{who} would lose {loss} {noun} that are left to the full sync")?;
                match first_seen {
                    Some(_) => write!(f, ": {}", self.until()),
                    None => Ok(()),
                }
            }
        }
    }
}
