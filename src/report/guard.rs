//! What the guard against mass deletion says of a cluster, in numbers for alarms and scripts and in
//! one sentence for people.

use serde::{Deserialize, Serialize};

use super::Word;
use crate::model::ServiceRef;
use crate::plan::{Stand, Told};

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
        let holding = [Stand::Held, Stand::LeftToFullSync, Stand::HeldByFullSync];
        holding.into_iter().any(|stand| *self.state == *state(stand))
    }
}

impl From<&Told> for GuardReport {
    fn from(told: &Told) -> Self {
        let services = told.losing.iter().map(|losing| LosingService {
            service: losing.service.clone(),
            instances: losing.instances,
        });
        Self {
            state: state(told.stand).into(),
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

fn state(stand: Stand) -> &'static str {
    match stand {
        Stand::Held => "held",
        Stand::Lifted => "lifted",
        Stand::Confirmed => "confirmed",
        Stand::LeftToFullSync => "left-to-full-sync",
        Stand::HeldByFullSync => "held-by-full-sync",
        Stand::HeldUntilRead => "held-until-read",
    }
}
