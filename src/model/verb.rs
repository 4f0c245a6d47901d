//! What a change does, in one word for tables, logs, counts and metrics.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Create a Cloud Map namespace.
    CreateNamespace,
    /// Create a Cloud Map service.
    Create,
    /// Change the settings of a Cloud Map service.
    Update,
    /// Register a new instance.
    Register,
    /// Register an instance of ours again with other attributes.
    Rewrite,
    /// Report the health of an instance.
    Health,
    /// Put our marks on an instance that another party registered.
    Adopt,
    /// Deregister an instance.
    Deregister,
    /// Delete a Cloud Map service.
    Delete,
}

impl Verb {
    /// The word, as in JSON and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreateNamespace => "create-namespace",
            Self::Create => "create",
            Self::Update => "update",
            Self::Register => "register",
            Self::Rewrite => "rewrite",
            Self::Health => "health",
            Self::Adopt => "adopt",
            Self::Deregister => "deregister",
            Self::Delete => "delete",
        }
    }

    /// The sign of its lines in a table, as users of Terraform know it.
    pub fn sign(self) -> char {
        match self {
            Self::CreateNamespace | Self::Create | Self::Register => '+',
            Self::Update | Self::Rewrite | Self::Health | Self::Adopt => '~',
            Self::Deregister | Self::Delete => '-',
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
