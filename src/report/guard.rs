//! What the guard against mass deletion says of a cluster, in numbers for alarms and scripts and in
//! one sentence for people.

use serde::{Deserialize, Serialize};

use crate::model::{GuardState, ServiceRef};

/// A loss past the guard's limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuardReport {
    /// What the guard does about it.
    pub state: GuardState,
    /// So many instances would go, or go.
    pub loss: usize,
    /// Of so many.
    pub instances: usize,
    /// `GUARD_SHARE`, in per cent.
    pub share: u8,
    /// `GUARD_MINIMUM`.
    pub minimum: usize,
    /// When the loss was first seen, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_seen: Option<String>,
    /// Whether this run is not the one that saw it first.
    pub later_look: bool,
    /// From when on a full sync that sees the same lets it pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifts_from: Option<String>,
    /// Who loses.
    pub services: Vec<LosingService>,
    /// All of it in a sentence.
    pub detail: String,
}

/// A Service that loses instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LosingService {
    /// The Service.
    pub service: ServiceRef,
    /// How many.
    pub instances: usize,
}

impl GuardReport {
    /// Whether the losing Services keep their instances.
    pub fn holds(&self) -> bool {
        use GuardState::{Held, HeldByFullSync, LeftToFullSync};
        matches!(self.state, Held | LeftToFullSync | HeldByFullSync)
    }
}
