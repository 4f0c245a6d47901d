//! What clients are told of a name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::Place;
use crate::publish::plan::Observation;

/// What clients are told of a name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Discovery {
    /// The name that DNS queries ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<String>,
    /// Why it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// So many instances of this cluster, by their health.
    pub ours: BTreeMap<String, usize>,
    /// And of others.
    pub others: BTreeMap<String, usize>,
}

impl Discovery {
    /// What was told: instances by id with their health.
    pub fn of(
        dns: Option<String>,
        told: BTreeMap<String, String>,
        observation: &Observation,
        place: &Place,
    ) -> Self {
        let mut discovery =
            Self { dns, error: None, ours: BTreeMap::new(), others: BTreeMap::new() };
        for (id, health) in told {
            let known = observation.registry.instance(&place.key, &id);
            let ours = known.is_some_and(|it| observation.owner.owns(it));
            let counts = if ours { &mut discovery.ours } else { &mut discovery.others };
            *counts.entry(health).or_default() += 1;
        }
        discovery
    }

    /// It was not told.
    pub fn unknown(dns: Option<String>, error: String) -> Self {
        Self { dns, error: Some(error), ours: BTreeMap::new(), others: BTreeMap::new() }
    }
}
