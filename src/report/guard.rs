//! What the guard against mass deletion says of a cluster, in numbers for alarms and scripts and in
//! one sentence for people.

use serde::{Deserialize, Serialize};

use super::Word;
use crate::model::ServiceRef;
use crate::plan::{GuardState, GuardStatus};

/// A loss past the guard's limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuardReport {
    /// `held`, `lifted`, `confirmed`, `left-to-full-sync`, `held-by-full-sync` or `held-until-read`.
    pub state: Word,
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
        let holding = [GuardState::Held, GuardState::LeftToFullSync, GuardState::HeldByFullSync];
        holding.into_iter().any(|stand| *self.state == *state(stand))
    }
}

impl From<&GuardStatus> for GuardReport {
    fn from(told: &GuardStatus) -> Self {
        let services = told.losses.iter().map(|losing| LosingService {
            service: losing.service.clone(),
            instances: losing.instances,
        });
        Self {
            state: state(told.state).into(),
            loss: told.loss,
            instances: told.instances,
            share: told.share,
            minimum: told.minimum,
            first_seen: told.first_seen.map(|time| time.to_string()),
            later_look: told.later_look,
            lifts_from: told.lifts_from.map(|time| time.to_string()),
            services: services.collect(),
            detail: told.to_string(),
        }
    }
}

fn state(state: GuardState) -> &'static str {
    match state {
        GuardState::Held => "held",
        GuardState::Lifted => "lifted",
        GuardState::Confirmed => "confirmed",
        GuardState::LeftToFullSync => "left-to-full-sync",
        GuardState::HeldByFullSync => "held-by-full-sync",
        GuardState::HeldUntilRead => "held-until-read",
    }
}
