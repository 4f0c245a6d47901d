//! The state of a loss that is past the limits of the guard.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the guard does about a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardState {
    /// A full sync keeps the instances.
    Held,
    /// The loss was seen long enough, so it is carried out.
    Lifted,
    /// A person confirmed it.
    Confirmed,
    /// A run about part of the cluster leaves it to the next full sync.
    LeftToFullSync,
    /// A run about part of the cluster keeps what an earlier full sync holds.
    HeldByFullSync,
    /// It is kept until a Cloud Map service is read that could not be.
    HeldUntilRead,
}

impl fmt::Display for GuardState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Held => "held",
            Self::Lifted => "lifted",
            Self::Confirmed => "confirmed",
            Self::LeftToFullSync => "left-to-full-sync",
            Self::HeldByFullSync => "held-by-full-sync",
            Self::HeldUntilRead => "held-until-read",
        })
    }
}

impl GuardState {
    /// Whether the losing Services keep their instances.
    pub fn holds(self) -> bool {
        !matches!(self, Self::Lifted | Self::Confirmed)
    }
}
