//! The answer of DiscoverInstances for a name: the instances that clients get, counted by owner and health. The marks
//! in the observation show the owner.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::Place;
use crate::publish::plan::Observation;

/// The instances that clients discover under a name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Discovery {
    /// The name to query in DNS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<String>,
    /// The error of DiscoverInstances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The number of this cluster's instances by health.
    pub ours: BTreeMap<String, usize>,
    /// The number of other instances by health.
    pub others: BTreeMap<String, usize>,
}

impl Discovery {
    /// Counts the discovered instances: their health by id.
    pub fn from_instances(
        dns: Option<String>,
        instances: BTreeMap<String, String>,
        observation: &Observation,
        place: &Place,
    ) -> Self {
        let mut discovery =
            Self { dns, error: None, ours: BTreeMap::new(), others: BTreeMap::new() };
        for (id, health) in instances {
            let known = observation.registry.instance(&place.key, &id);
            let ours = known.is_some_and(|it| observation.owner.owns(it));
            let counts = if ours { &mut discovery.ours } else { &mut discovery.others };
            *counts.entry(health).or_default() += 1;
        }
        discovery
    }

    /// A failed call of DiscoverInstances.
    pub fn failed(dns: Option<String>, error: String) -> Self {
        Self { dns, error: Some(error), ours: BTreeMap::new(), others: BTreeMap::new() }
    }
}
