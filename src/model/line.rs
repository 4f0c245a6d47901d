//! [`Line`] is one fact for a person or a program. Plans and their execution make lines; the report, the table, the
//! log, the metrics and the answers read them.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::{ServiceRef, Verb};

/// A word of a closed set: a constant of this crate, or text parsed from a response.
pub type Word = std::borrow::Cow<'static, str>;

/// The longest text of a line, in bytes: the API server's limit for the note of an Event. Its error message names
/// characters, but it counts bytes.
pub const LONGEST_TEXT: usize = 1024;

/// The code of the line about a name that lost its last instance.
pub const EMPTIED: &str = "emptied";
/// The code of the line about a stale member.
pub const STALE: &str = "stale";
/// The code of the line about an export that begins, changes or ends. The change of its record has a line of its own.
pub const EXPORTED: &str = "export";

/// One fact: a change with its outcome, a request that is held back, a read that failed, or a remark.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Line {
    /// The Kubernetes Service that it is about.
    pub service: Option<ServiceRef>,
    /// The instance, Cloud Map service, namespace or Kubernetes object that a change is about.
    pub object: Option<String>,
    /// `+`, `~`, `-`, `=` or `!`, as in the table.
    pub sign: char,
    /// The kind of the change, or the stable code of the reason.
    pub code: Word,
    /// Address and pod, the difference, or the cause with its remedy.
    pub text: String,
    pub outcome: Outcome,
}

/// The outcome of the change, the request or the read that a line is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Not attempted: a plan or a dry run.
    Planned,
    /// Made.
    Applied,
    /// Attempted, and failed.
    Failed {
        /// The error with its cause.
        error: String,
    },
    /// Not attempted, since there was no time or an earlier change failed.
    #[serde(rename = "undone")]
    NotAttempted {
        /// The reason.
        why: String,
    },
    /// A request that stays out of Cloud Map until the Service's owner acts.
    KeptOut,
    /// A request that a rule holds back, or that waits for another change.
    HeldBack,
    /// The subject could not be read. The next run tries again.
    Unread,
    /// The line only informs.
    Remark,
}

impl Outcome {
    pub fn failed(error: impl Into<String>) -> Self {
        Self::Failed { error: error.into() }
    }

    pub fn not_attempted(why: impl Into<String>) -> Self {
        Self::NotAttempted { why: why.into() }
    }

    /// Returns the outcome of a change that is not tried because the deadline is near.
    pub fn out_of_time() -> Self {
        Self::not_attempted("the time of this invocation is used up")
    }

    /// Whether the change was made, or would be.
    pub fn is_made(&self) -> bool {
        matches!(self, Self::Planned | Self::Applied)
    }

    /// Whether the change failed or was not attempted.
    pub fn is_failed_or_not_attempted(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::NotAttempted { .. })
    }

    /// Whether a request is held back for any reason.
    pub fn is_held_back(&self) -> bool {
        matches!(self, Self::KeptOut | Self::HeldBack)
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { error } => write!(f, "  ! failed: {error}"),
            Self::NotAttempted { why } => write!(f, "  ! not done: {why}"),
            _ => Ok(()),
        }
    }
}

impl Line {
    /// Returns a line about no Service and no object. A text that is too long is cut.
    pub fn new(
        sign: char,
        code: impl Into<Word>,
        text: impl Into<String>,
        outcome: Outcome,
    ) -> Self {
        let mut text = text.into();
        if text.len() > LONGEST_TEXT {
            text.truncate(text.floor_char_boundary(LONGEST_TEXT - "…".len()));
            text.push('…');
        }
        Self { service: None, object: None, sign, code: code.into(), text, outcome }
    }

    /// A warning to read before a confirmation.
    pub fn warning(text: impl Into<String>) -> Self {
        Self::new('!', "warning", text, Outcome::Remark)
    }

    /// A read that failed. The next run may repeat it.
    pub fn unreadable(text: impl Into<String>) -> Self {
        Self::new('!', "Unreadable", text, Outcome::Unread)
    }

    /// Whether the line is about a read that failed, or about a request that is held back because of it.
    pub fn is_about_failed_read(&self) -> bool {
        self.code == "Unreadable"
    }

    /// Returns the line as a line about a Service.
    #[must_use]
    pub fn about(self, service: ServiceRef) -> Self {
        Self { service: Some(service), ..self }
    }

    /// The kind of a change in Cloud Map; `None` for any other line.
    pub fn verb(&self) -> Option<Verb> {
        Verb::parse(&self.code)
    }

    /// Whether the line is about a change, with any outcome.
    pub fn is_change(&self) -> bool {
        self.outcome.is_made() || self.outcome.is_failed_or_not_attempted()
    }

    /// Whether the line has the reason why something of a Service is held back or remarked.
    pub fn has_reason(&self) -> bool {
        self.service.is_some() && !self.is_change()
    }

    /// Whether the next run has something to do about the line. An unread service with the sign `~` needs nothing:
    /// nothing shows that the service is ours.
    pub fn is_unfinished(&self) -> bool {
        self.outcome.is_failed_or_not_attempted()
            || self.outcome == Outcome::Unread && self.sign == '!'
    }

    /// Whether the line is about a whole cluster and keeps the cluster out of its clusterset.
    pub fn is_obstacle(&self) -> bool {
        self.service.is_none() && (self.outcome.is_held_back() || self.outcome == Outcome::Unread)
    }

    /// The label at the start of the line in a table or the log: the code, or a state such as `held back`.
    pub fn label(&self) -> &str {
        match (&self.outcome, &self.service) {
            (Outcome::HeldBack, None) => "obstacle",
            (Outcome::KeptOut | Outcome::HeldBack, _) | (Outcome::Unread, Some(_)) => "held back",
            (Outcome::Unread, None) => "not read",
            (Outcome::Remark, Some(_)) => "remark",
            _ => &self.code,
        }
    }
}

impl Display for Line {
    /// The alternate form adds the Kubernetes Service to a change.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { service, object, sign, code, text, outcome } = self;
        write!(f, "{sign} {:<10} ", self.label())?;
        match service {
            Some(service) if self.has_reason() => write!(f, "{service} ({code}): ")?,
            None if outcome.is_held_back() => write!(f, "({code}): ")?,
            _ => {
                f.write_str(object.as_deref().unwrap_or_default())?;
                f.write_str(if object.is_none() || text.is_empty() { "" } else { "  " })?;
            }
        }
        write!(f, "{text}{outcome}")?;
        match service {
            Some(service) if f.alternate() && self.is_change() => write!(f, "  for {service}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_the_length_of_an_event() {
        let line = Line::warning("ä".repeat(LONGEST_TEXT));
        assert!(line.text.len() <= LONGEST_TEXT && line.text.ends_with("ä…"), "{line}");
        assert_eq!(Line::warning("short").to_string(), "! warning    short");
    }
}
