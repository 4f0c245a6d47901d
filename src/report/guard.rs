//! The guard's verdict about one cluster: numbers for alarms and scripts, and one sentence for people. `publish` fills
//! it from the plan's guard.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::ServiceRef;

/// A loss that exceeds the guard's limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuardReport {
    /// The guard's decision.
    pub state: GuardState,
    /// The number of instances to deregister.
    pub loss: usize,
    /// The number of instances before the loss.
    pub instances: usize,
    /// `GUARD_SHARE`, in per cent.
    pub share: u8,
    /// `GUARD_MINIMUM`.
    pub minimum: usize,
    /// The time of the first full sync with this loss, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_seen: Option<String>,
    /// Whether an earlier full sync saw the same loss.
    pub later_look: bool,
    /// The time from which a full sync with the same loss carries it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifts_from: Option<String>,
    /// The Services that lose instances.
    pub services: Vec<LosingService>,
    /// A sentence with all of the above.
    pub detail: String,
}

/// The guard's decision about a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardState {
    /// A full sync keeps the instances registered.
    Held,
    /// The loss persisted long enough, so it is carried out.
    Lifted,
    /// The loss was confirmed by the action `confirm`.
    Confirmed,
    /// A partial sync leaves the loss to the next full sync.
    LeftToFullSync,
    /// A partial sync keeps the instances that an earlier full sync holds.
    HeldByFullSync,
    /// The instances are kept until an unreadable Cloud Map service can be read.
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

/// A Service that loses instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LosingService {
    /// The Service.
    pub service: ServiceRef,
    /// The number of instances.
    pub instances: usize,
}

impl GuardReport {
    /// Whether the losing Services keep their instances.
    pub fn holds(&self) -> bool {
        use GuardState::{Held, HeldByFullSync, LeftToFullSync};
        matches!(self.state, Held | LeftToFullSync | HeldByFullSync)
    }
}
