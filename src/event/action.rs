//! The actions of the function, each with the word that asks for it and the fields that go with it.

use std::fmt;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Observe, plan and apply.
    Sync,
    /// Observe and plan; nothing is written.
    Plan,
    /// Make instances of others ours.
    Adopt,
    /// Take out all of a cluster.
    Purge,
    /// Sync a cluster whole, whatever it loses.
    Confirm,
    /// Tell who has instances in each Cloud Map service.
    Status,
    /// Tell of one Service what becomes of each of its endpoints, and why.
    Explain,
    /// Check whether the work can be done.
    Doctor,
}

impl Action {
    const ALL: [Self; 8] = [
        Self::Sync,
        Self::Plan,
        Self::Adopt,
        Self::Purge,
        Self::Confirm,
        Self::Status,
        Self::Explain,
        Self::Doctor,
    ];

    /// The word that asks for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Plan => "plan",
            Self::Adopt => "adopt",
            Self::Purge => "purge",
            Self::Confirm => "confirm",
            Self::Status => "status",
            Self::Explain => "explain",
            Self::Doctor => "doctor",
        }
    }

    /// The fields that a command may have. Nothing less than a cluster is confirmed.
    pub(super) fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Sync | Self::Plan | Self::Explain => {
                &["action", "cluster", "namespace", "service"]
            }
            Self::Adopt => &["action", "cluster", "namespace", "service", "owner", "confirm"],
            Self::Purge => &["action", "cluster", "registry", "confirm"],
            Self::Confirm | Self::Status | Self::Doctor => &["action", "cluster"],
        }
    }

    /// All words, for an error.
    pub(super) fn list() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == word)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
