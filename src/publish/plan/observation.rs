//! One read of a cluster and of Cloud Map, with the rules of the installation. Its methods find our instances by their
//! marks.

use std::sync::Arc;

use super::change::describe;
use super::{Change, DeregisterReason, Extent, Judged, Place, Rules, WaitsFor};
use crate::model::{Attributes, Desired, Owner, Registry, ServiceKey, ServiceRef, Timestamp};

/// One read of a cluster and of Cloud Map, with the rules of the installation.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The owner in the marks of our instances.
    pub owner: Owner,
    pub rules: Arc<Rules>,
    /// The time of the read.
    pub now: Timestamp,
    /// The part of the cluster that the plan covers.
    pub extent: Extent,
    /// The baseline of the guard between the passes, if it judges there again.
    pub judged: Option<Arc<Judged>>,
    /// The claims and endpoints of the cluster.
    pub desired: Desired,
    /// The contents of Cloud Map.
    pub registry: Registry,
}

/// An instance of ours with the Service in its marks.
#[derive(Clone, Debug)]
pub struct MarkedInstance<'a> {
    pub id: &'a String,
    pub attributes: &'a Attributes,
    /// The Service for which it was registered.
    pub service: ServiceRef,
}

impl Observation {
    /// The instances of ours that were read under a key.
    pub fn ours(&self, key: &ServiceKey) -> impl Iterator<Item = (&String, &Attributes)> {
        self.registry.instances(key).filter(|(_, attributes)| self.owner.owns(attributes))
    }

    /// The instances of ours that were read under a key, with the Service in the marks of each.
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

    /// The Service in the marks of each instance of ours, with the key of its Cloud Map service.
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
            waits_for: waits_for.map(Box::new),
        }
    }
}
