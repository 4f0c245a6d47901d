//! The words of a run, for tables, logs, counts and metrics: the kind of a change and its outcome, for both flows, the
//! policy that limits changes, the state of a loss past the limits of the guard, and the calls to Cloud Map.

use std::iter::Sum;

use serde::{Deserialize, Serialize};

use super::words::words;

words! {
    /// The kind of a change.
    pub enum Verb {
        CreateNamespace = "create-namespace",
        /// Create a Cloud Map service.
        Create = "create",
        /// Change the TTL of a Cloud Map service.
        Update = "update",
        /// Register a new instance.
        Register = "register",
        /// Replace the attributes of an instance of ours.
        Rewrite = "rewrite",
        /// Report the health of an instance.
        Health = "health",
        /// Put our marks on an instance of another owner.
        Adopt = "adopt",
        Deregister = "deregister",
        /// Delete a Cloud Map service.
        Delete = "delete",
    }
}

impl Verb {
    /// The sign of its lines in a table, as in Terraform.
    pub fn sign(self) -> char {
        match self {
            Self::CreateNamespace | Self::Create | Self::Register => '+',
            Self::Update | Self::Rewrite | Self::Health | Self::Adopt => '~',
            Self::Deregister | Self::Delete => '-',
        }
    }
}

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
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
    Undone {
        /// The reason.
        why: String,
    },
}

impl Outcome {
    pub fn failed(error: impl Into<String>) -> Self {
        Self::Failed { error: error.into() }
    }

    pub fn undone(why: impl Into<String>) -> Self {
        Self::Undone { why: why.into() }
    }

    /// Near the deadline a change is not tried.
    pub fn out_of_time() -> Self {
        Self::undone("the time of this invocation is used up")
    }

    /// Whether the change was made, or would be.
    pub fn is_made(&self) -> bool {
        matches!(self, Self::Planned | Self::Applied)
    }
}

words! {
    /// What the guard does about a loss.
    pub enum GuardState {
        /// A full sync keeps the instances.
        Held = "held",
        /// The loss was seen long enough, so it is carried out.
        Lifted = "lifted",
        /// A person confirmed it.
        Confirmed = "confirmed",
        /// A run about part of the cluster leaves it to the next full sync.
        LeftToFullSync = "left-to-full-sync",
        /// A run about part of the cluster keeps what an earlier full sync holds.
        HeldByFullSync = "held-by-full-sync",
        /// It is kept until a Cloud Map service is read that could not be.
        HeldUntilRead = "held-until-read",
    }
}

impl GuardState {
    /// Whether the losing Services keep their instances.
    pub fn holds(self) -> bool {
        !matches!(self, Self::Lifted | Self::Confirmed)
    }
}

words! {
    /// `POLICY`, with the values and meanings of `ExternalDNS`.
    #[derive(Default)]
    pub enum Policy {
        /// Makes all changes.
        #[default]
        Sync = "sync",
        /// Makes all changes, except for the removals that follow the end of a claim.
        UpsertOnly = "upsert-only",
        /// Creates namespaces and services, and registers missing instances; nothing else.
        CreateOnly = "create-only",
    }
}

/// Attempts of calls, including retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub calls: usize,
    pub throttles: usize,
}

impl Traffic {
    /// The difference to an earlier count.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let (calls, throttles) = (self.calls - earlier.calls, self.throttles - earlier.throttles);
        Self { calls, throttles }
    }
}

impl Sum for Traffic {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, part| Self {
            calls: sum.calls + part.calls,
            throttles: sum.throttles + part.throttles,
        })
    }
}
