//! The kind of a change, one word for tables, logs, counts and metrics.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    CreateNamespace,
    /// Create a Cloud Map service.
    Create,
    /// Change the TTL of a Cloud Map service.
    Update,
    /// Register a new instance.
    Register,
    /// Replace the attributes of an instance of ours.
    Rewrite,
    /// Report the health of an instance.
    Health,
    /// Put our marks on an instance of another owner.
    Adopt,
    Deregister,
    /// Delete a Cloud Map service.
    Delete,
}

impl Verb {
    /// The value in JSON and logs.
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

    /// The sign of its lines in a table, as in Terraform.
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
