//! The differences between the instances that a holder of a name requests and our instances in that Cloud Map service:
//! an [`InstanceDiff`] for each instance id, and the changes that follow. [`super::compare`] creates them.

use std::collections::BTreeMap;
use std::mem::take;

use super::health::HealthDifference;
use crate::model::{Attributes, ServiceKey, ServiceRef};
use crate::publish::plan::{
    Change, DeregisterReason, Difference, NewService, Note, Place, Reason, ServiceUpdate,
};

/// The difference of one instance. [`Comparison::take_changes`] keeps the variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceDiff {
    /// It must be registered.
    New(Attributes),
    /// It must be registered again.
    Differs {
        /// All attributes to register.
        attributes: Attributes,
        /// The attributes that differ.
        differences: Vec<Difference>,
        /// Whether its addresses are not those of its endpoint. The endpoint cannot be discovered until they are corrected.
        stale_address: bool,
    },
    /// Only its health differs.
    HealthDiffers {
        /// Its address, for the report.
        address: String,
        /// The present and the wanted health.
        difference: HealthDifference,
    },
    /// It is as requested.
    Same,
    /// No endpoint of the holder requests it.
    Surplus(DeregisterReason),
}

/// The differences between a Cloud Map service and the claim and endpoints of one holder of the name.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The service, if it must be created first.
    pub create: Option<NewService>,
    /// The change of the service itself.
    pub update: Option<ServiceUpdate>,
    /// A remark on the service for the report.
    pub note: Option<Note>,
    /// The instances by id, except those that are as requested.
    pub(super) instances: BTreeMap<String, InstanceDiff>,
    /// The number of instances that are as requested. If Cloud Map is in step, these are all, so their ids are not copied.
    pub(super) unchanged: usize,
    /// Whether an endpoint requests an instance here.
    pub has_endpoints: bool,
    /// Whether one of the requested instances is registered, and marked for a holder of the name.
    pub has_registered: bool,
    /// Whether another holder has yet to register an instance that this holder also requests.
    pub pending_elsewhere: bool,
    /// The reasons for held-back requests.
    pub held_back: Vec<Reason>,
}

/// The comparisons of all names.
#[derive(Clone, Debug, Default)]
pub struct Compared(BTreeMap<ServiceKey, ByHolder>);

/// The comparisons under one name, by holder. Boxed, since a map node has room for eleven and usually has one.
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

    /// Whether a difference of this instance was added.
    pub(super) fn changes_instance(&self, id: &str) -> bool {
        self.instances.contains_key(id)
    }

    /// The reason for removing an instance of ours. Returns `None` if a holder requests it.
    pub fn surplus(&self, instance: &str) -> Option<&DeregisterReason> {
        match self.instances.get(instance)? {
            InstanceDiff::Surplus(because) => Some(because),
            _ => None,
        }
    }

    /// The number of instances that are as requested.
    pub fn unchanged(&self) -> usize {
        self.unchanged
    }

    /// The number of instances of the holder that stay registered.
    pub fn staying(&self) -> usize {
        let stays =
            |diff: &InstanceDiff| !matches!(diff, InstanceDiff::New(_) | InstanceDiff::Surplus(_));
        self.unchanged + self.count(stays)
    }

    /// The number of instances that the holder requests.
    pub fn wanted(&self) -> usize {
        self.unchanged + self.count(|diff| !matches!(diff, InstanceDiff::Surplus(_)))
    }

    /// Whether every requested instance is registered.
    pub fn is_whole(&self) -> bool {
        let is_missing = self.instances.values().any(InstanceDiff::is_missing);
        !is_missing && !self.pending_elsewhere && !self.held_back.iter().any(Reason::keeps_out)
    }

    /// Whether endpoints are missing for a reason that does not end by itself.
    pub fn is_blocked(&self) -> bool {
        let passes = |reason: &&Reason| !matches!(reason, Reason::NoneReady { .. });
        self.held_back.iter().filter(passes).any(Reason::keeps_out)
    }

    /// The changes except removals. Moves the attributes into them, since a second copy would be the largest part of the
    /// memory of a first sync.
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
    /// Whether its endpoint cannot be discovered yet.
    fn is_missing(&self) -> bool {
        matches!(self, Self::New(_) | Self::Differs { stale_address: true, .. })
    }

    /// The change that removes the difference. Removals are decided elsewhere.
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
