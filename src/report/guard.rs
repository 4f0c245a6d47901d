//! The guard's verdict about one cluster: numbers for alarms and scripts, and one sentence for people. `publish` fills
//! it from the plan's guard.

use serde::{Deserialize, Serialize};

use crate::model::{GuardState, ServiceRef};

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
    /// All of this as one sentence.
    pub detail: String,
}

/// A Service that loses instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LosingService {
    pub service: ServiceRef,
    pub instances: usize,
}

impl GuardReport {
    /// Whether the losing Services keep their instances.
    pub fn holds(&self) -> bool {
        use GuardState::{Held, HeldByFullSync, LeftToFullSync};
        matches!(self.state, Held | LeftToFullSync | HeldByFullSync)
    }
}
