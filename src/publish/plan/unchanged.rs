//! What a plan leaves as it is in each Cloud Map service that it looked into, counted for the report.

use std::collections::{BTreeMap, BTreeSet};

use super::{Basis, Foreign, Note, Place, Plan, ownership};
use crate::model::{Registry, ServiceKey};

/// What stays as it is in one Cloud Map service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unchanged {
    /// Instances of ours that are as they should be.
    pub ours: usize,
    /// Instances of others, by kind of owner.
    pub foreign: BTreeMap<Foreign, usize>,
    /// Instances of anybody before the plan.
    pub present: usize,
    /// Why nothing is known of it, where it was to be looked at whoever claims it.
    pub unreadable: Option<String>,
    /// What else is to be known of it.
    pub notes: Vec<Note>,
}

impl Plan {
    /// Counts what belongs to others in every Cloud Map service that this plan looked into.
    pub(super) fn note_foreign(&mut self, basis: Basis<'_>) {
        let Basis { observation, holders, affected } = basis;
        let claimed = holders.held().filter(|(_, holder)| affected.contains(*holder));
        let claimed: BTreeSet<&ServiceKey> = claimed.map(|(key, _)| key).collect();
        let changed = self.changes.values().flatten().map(|change| change.place().key.clone());
        let keys: BTreeSet<ServiceKey> = claimed.into_iter().cloned().chain(changed).collect();
        for key in keys {
            let place = Place::of(&key, &observation.registry);
            let unchanged = self.unchanged.entry(place).or_default();
            for (id, attributes) in observation.registry.instances(&key) {
                if let Some(foreign) = ownership::foreign(id, attributes, &observation.owner) {
                    *unchanged.foreign.entry(foreign).or_default() += 1;
                }
            }
        }
    }

    /// Counts what is registered where something is changed or stays.
    pub(super) fn note_present(&mut self, registry: &Registry) {
        for change in self.changes.values().flatten() {
            self.unchanged.entry(change.place().clone()).or_default();
        }
        for (place, unchanged) in &mut self.unchanged {
            unchanged.present = registry.instances(&place.key).count();
        }
    }
}
