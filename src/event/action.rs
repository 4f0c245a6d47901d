//! The actions of the function, each with its word in a command and the fields that the command may have. `direct`
//! reads a command with them; `function` runs it.

use std::fmt;

/// The action of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Observe, plan and apply.
    Sync,
    /// Observe and plan; nothing is written.
    Plan,
    /// Adopt instances of other owners.
    Adopt,
    /// Deregister all instances of a cluster.
    Purge,
    /// Sync a whole cluster, and carry out a loss that the guard holds.
    Confirm,
    /// Make the changes that rest on the claims of all clusters, and no others.
    Cleanup,
    /// Count the instances of each party in each Cloud Map service.
    Status,
    /// Show the fate of each endpoint of one Service, with the reason.
    Explain,
    /// Check the function's connections and permissions.
    Doctor,
}

impl Action {
    const ALL: [Self; 9] = [
        Self::Sync,
        Self::Plan,
        Self::Adopt,
        Self::Purge,
        Self::Confirm,
        Self::Cleanup,
        Self::Status,
        Self::Explain,
        Self::Doctor,
    ];

    /// Its word in a command.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Plan => "plan",
            Self::Adopt => "adopt",
            Self::Purge => "purge",
            Self::Confirm => "confirm",
            Self::Cleanup => "cleanup",
            Self::Status => "status",
            Self::Explain => "explain",
            Self::Doctor => "doctor",
        }
    }

    /// The fields that a command may have. Those that write may have the Region of their cluster: a name alone may be that
    /// of another cluster there. `confirm` has no namespace, since the guard holds whole clusters, and `cleanup`
    /// no scope: it deletes only what no cluster claims.
    pub(super) fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Plan | Self::Explain => &["action", "cluster", "namespace", "service"],
            Self::Sync => &["action", "cluster", "region", "namespace", "service", "fresh"],
            Self::Adopt => {
                &["action", "cluster", "region", "namespace", "service", "owner", "confirm"]
            }
            Self::Purge => &["action", "cluster", "region", "registry", "confirm"],
            Self::Confirm => &["action", "cluster", "region"],
            Self::Status => &["action", "cluster", "created"],
            Self::Doctor => &["action", "cluster"],
            Self::Cleanup => &["action"],
        }
    }

    /// Whether it takes over or removes what others may rest on, so that an installation may reserve it to a few people.
    /// `cleanup` does what the settings let the schedule do.
    #[must_use]
    pub fn is_administrative(self) -> bool {
        matches!(self, Self::Adopt | Self::Purge | Self::Confirm)
    }

    /// The words of all actions, for an error.
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
