//! The setting that limits the changes of an installation.

use std::fmt;

use serde::Serialize;

/// `POLICY`, with the values and meanings of `ExternalDNS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Makes all changes.
    #[default]
    Sync,
    /// Makes all changes, except for the removals that follow the end of a claim.
    UpsertOnly,
    /// Creates namespaces and services, and registers missing instances; nothing else.
    CreateOnly,
}

impl Policy {
    pub const ALL: [Self; 3] = [Self::Sync, Self::UpsertOnly, Self::CreateOnly];
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sync => "sync",
            Self::UpsertOnly => "upsert-only",
            Self::CreateOnly => "create-only",
        })
    }
}
