//! The instances that a plan leaves as they are, in each Cloud Map service that it read. They are counted from the
//! registry and the changes of the plan, for the report.

use std::collections::{BTreeMap, BTreeSet};

use super::{Basis, Foreign, Note, Place, Plan, ownership};
use crate::model::{Registry, ServiceKey};

/// The unchanged instances of one Cloud Map service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unchanged {
    /// Instances of ours that are as they should be.
    pub ours: usize,
    /// Instances of other owners, by kind of owner.
    pub foreign: BTreeMap<Foreign, usize>,
    /// All instances before the plan.
    pub present: usize,
    /// The cause if the service could not be read, for services that are read without a claim.
    pub unreadable: Option<String>,
    /// Further notes on the service.
    pub notes: Vec<Note>,
}

impl Plan {
    /// Counts the instances of other owners in every Cloud Map service that this plan read.
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

    /// Counts the registered instances in each service with changed or unchanged instances.
    pub(super) fn note_present(&mut self, registry: &Registry) {
        for change in self.changes.values().flatten() {
            self.unchanged.entry(change.place().clone()).or_default();
        }
        for (place, unchanged) in &mut self.unchanged {
            unchanged.present = registry.instances(&place.key).count();
        }
    }
}
