//! The instances that a holder of a name asks for, against those of ours in that Cloud Map service: one
//! [`InstanceDiff`] for each, by its id, and all that follows from them. [`super::compare`] makes it.

use std::collections::BTreeMap;
use std::mem::take;

use super::health::HealthDifference;
use crate::model::{Attributes, ServiceKey, ServiceRef};
use crate::publish::plan::{
    Change, DeregisterReason, Difference, NewService, Note, Place, Reason, ServiceUpdate,
};

/// The fate of one instance. [`Comparison::take_changes`] leaves the kind alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceDiff {
    /// It is to be registered.
    New(Attributes),
    /// It is to be registered again.
    Differs {
        /// All its attributes.
        attributes: Attributes,
        /// Those that differ.
        differences: Vec<Difference>,
        /// Whether it has other addresses than its endpoint, which is not found there until that is put right.
        stale_address: bool,
    },
    /// Its health alone is not as it should be.
    HealthDiffers {
        /// Its address, for the reader.
        address: String,
        /// The present and the wanted health.
        difference: HealthDifference,
    },
    /// It stays as it is.
    Same,
    /// No endpoint of the holder asks for it.
    Surplus(DeregisterReason),
}

/// How one Cloud Map service differs from the claim and endpoints of one holder of the name.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The service is to be created first.
    pub create: Option<NewService>,
    /// The change of the service itself.
    pub update: Option<ServiceUpdate>,
    /// A remark on the service for the report.
    pub note: Option<Note>,
    /// The instances by id, except for those that stay as they are.
    pub(super) instances: BTreeMap<String, InstanceDiff>,
    /// The number of instances that stay as they are. In a world in step these are all, so their ids are not copied.
    pub(super) unchanged: usize,
    /// Whether an endpoint asks for an instance here.
    pub has_endpoints: bool,
    /// Whether one of those is found here already, marked for a holder of the name.
    pub has_registered: bool,
    /// Whether another holder is to register an instance that this one asks for, too.
    pub pending_elsewhere: bool,
    /// Why something is held back.
    pub held_back: Vec<Reason>,
}

/// Every name that was compared, by holder.
#[derive(Clone, Debug, Default)]
pub struct Compared(BTreeMap<ServiceKey, ByHolder>);

/// The comparisons under one name, by holder. Boxed: a node of the map has room for eleven, and mostly holds one.
pub type ByHolder = BTreeMap<ServiceRef, Box<Comparison>>;

impl Compared {
    /// Adds a name.
    pub fn insert(&mut self, key: ServiceKey, by_holder: ByHolder) {
        self.0.insert(key, by_holder);
    }

    /// The comparisons of all holders of a name, if it was compared.
    pub fn under(&self, key: &ServiceKey) -> Option<&ByHolder> {
        self.0.get(key)
    }

    /// The comparison of one of them.
    pub fn of(&self, key: &ServiceKey, holder: &ServiceRef) -> Option<&Comparison> {
        self.0.get(key)?.get(holder).map(Box::as_ref)
    }
}

impl Comparison {
    /// Adds an instance.
    pub(super) fn add(&mut self, id: &str, diff: InstanceDiff) {
        match diff {
            InstanceDiff::Same => self.unchanged += 1,
            diff => _ = self.instances.insert(id.to_owned(), diff),
        }
    }

    /// Whether an instance was added that does not stay as it is.
    pub(super) fn changes_instance(&self, id: &str) -> bool {
        self.instances.contains_key(id)
    }

    /// Why an instance of ours goes; `None` if a holder has use for it.
    pub fn surplus(&self, instance: &str) -> Option<&DeregisterReason> {
        match self.instances.get(instance)? {
            InstanceDiff::Surplus(because) => Some(because),
            _ => None,
        }
    }

    /// How many instances stay as they are.
    pub fn unchanged(&self) -> usize {
        self.unchanged
    }

    /// How many instances stay here for the holder.
    pub fn staying(&self) -> usize {
        let stays =
            |diff: &InstanceDiff| !matches!(diff, InstanceDiff::New(_) | InstanceDiff::Surplus(_));
        self.unchanged + self.count(stays)
    }

    /// How many instances the holder wants here.
    pub fn wanted(&self) -> usize {
        self.unchanged + self.count(|diff| !matches!(diff, InstanceDiff::Surplus(_)))
    }

    /// Whether every endpoint that can be found here is found here.
    pub fn is_whole(&self) -> bool {
        let is_missing = self.instances.values().any(InstanceDiff::is_missing);
        !is_missing && !self.pending_elsewhere && !self.held_back.iter().any(Reason::keeps_out)
    }

    /// Whether something keeps endpoints out that does not end by itself.
    pub fn is_blocked(&self) -> bool {
        let passes = |reason: &&Reason| !matches!(reason, Reason::NoneReady { .. });
        self.held_back.iter().filter(passes).any(Reason::keeps_out)
    }

    /// The changes, removals aside. Moves the attributes into them: a copy of those of all instances would be the
    /// largest part of a first sync's memory.
    pub fn take_changes(&mut self, place: &Place) -> Vec<Change> {
        let place = || place.clone();
        let create = self.create.take();
        let create = create.map(|service| Change::CreateService { place: place(), service });
        let update = self.update.take();
        let update = update.map(|update| Change::UpdateService { place: place(), update });
        let instances = self.instances.iter_mut();
        let instances = instances.filter_map(|(id, diff)| diff.take_change(place(), id));
        create.into_iter().chain(instances).chain(update).collect()
    }

    fn count(&self, counts: impl Fn(&InstanceDiff) -> bool) -> usize {
        self.instances.values().filter(|diff| counts(diff)).count()
    }
}

impl InstanceDiff {
    /// Whether its endpoint is not found yet.
    fn is_missing(&self) -> bool {
        matches!(self, Self::New(_) | Self::Differs { stale_address: true, .. })
    }

    /// The change that puts it right. For a removal more has to be decided.
    fn take_change(&mut self, place: Place, instance: &str) -> Option<Change> {
        let instance = || instance.to_owned();
        match self {
            Self::New(attributes) => {
                let attributes = take(attributes);
                Some(Change::Register { place, instance: instance(), attributes })
            }
            Self::Differs { attributes, differences, .. } => {
                let (attributes, differences) = (take(attributes), take(differences));
                let instance = instance();
                Some(Change::Rewrite { place, instance, attributes, differences, exchange: None })
            }
            Self::HealthDiffers { address, difference } => {
                let HealthDifference { present, wanted } = *difference;
                let (instance, address) = (instance(), take(address));
                Some(Change::Health { place, instance, address, present, wanted })
            }
            Self::Same | Self::Surplus(_) => None,
        }
    }
}
