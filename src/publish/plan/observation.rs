//! One read of a cluster and of Cloud Map, with the rules that it is looked at under. The marks of our instances are read
//! here for every rule.

use std::sync::Arc;

use super::change::describe;
use super::{Change, DeregisterReason, Extent, Judged, Place, Rules, WaitsFor};
use crate::model::{Attributes, Desired, Held, Owner, Registry, ServiceKey, ServiceRef, Timestamp};

/// One read of a cluster and of Cloud Map, with the rules that it is looked at under.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Whose instances are ours.
    pub owner: Owner,
    /// What the installation allows.
    pub rules: Arc<Rules>,
    /// When it was made.
    pub now: Timestamp,
    /// How much of the cluster the plan is about.
    pub extent: Extent,
    /// The baseline of the guard between the passes, if it judges there again.
    pub judged: Option<Arc<Judged>>,
    /// The Services that the run held of which this is the rest.
    pub held: Held,
    /// What the cluster asks for.
    pub desired: Desired,
    /// What Cloud Map holds.
    pub registry: Registry,
}

/// An instance of ours with the Service in its marks.
#[derive(Clone, Debug)]
pub struct MarkedInstance<'a> {
    /// Its id.
    pub id: &'a String,
    /// All its attributes.
    pub attributes: &'a Attributes,
    /// The Service that it was registered for.
    pub service: ServiceRef,
}

impl Observation {
    /// The instances of ours that were read under a key.
    pub fn ours(&self, key: &ServiceKey) -> impl Iterator<Item = (&String, &Attributes)> {
        self.registry.instances(key).filter(|(_, attributes)| self.owner.owns(attributes))
    }

    /// The same with the Service in the marks of each.
    pub fn marked(&self, key: &ServiceKey) -> impl Iterator<Item = MarkedInstance<'_>> {
        self.registry.instances(key).filter_map(|(id, attributes)| {
            let service = self.owner.service_of(attributes)?;
            Some(MarkedInstance { id, attributes, service })
        })
    }

    /// The Service in the marks of each instance of ours under a key.
    pub fn marked_services(&self, key: &ServiceKey) -> impl Iterator<Item = ServiceRef> {
        self.marked(key).map(|instance| instance.service)
    }

    /// The Service in the marks of each instance of ours, with the key that it is under.
    pub fn all_marked_services(&self) -> impl Iterator<Item = (&ServiceKey, ServiceRef)> {
        let keys = self.registry.services.keys();
        keys.flat_map(move |key| self.marked_services(key).map(move |service| (key, service)))
    }
}

impl MarkedInstance<'_> {
    /// The removal of the instance.
    pub fn removal(
        &self,
        place: &Place,
        because: DeregisterReason,
        waits_for: Option<WaitsFor>,
    ) -> Change {
        Change::Deregister {
            place: place.clone(),
            instance: self.id.clone(),
            marked: self.service.clone(),
            address: describe(self.attributes),
            because,
            waits_for,
        }
    }
}
