//! One read of a cluster and of Cloud Map, with the rules of the installation and all else that a plan is made from. Its
//! methods find our instances by their marks, and keep it up to date with the changes that are made on it.
//!
//! The holders of names are decided once for an observation; code that changes an observation decides them again.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::change::{Change, describe};
use super::claims::Holders;
use super::guard::GuardBaseline;
use super::part::{RereadScope, affected};
use super::removals::{DeregisterReason, WaitsFor};
use crate::guard::Extent;
use crate::model::{
    Attributes, Desired, Owner, Place, Registry, Rules, Selection, ServiceKey, ServiceRef,
    Timestamp,
};

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
    pub judged: Option<Arc<GuardBaseline>>,
    /// The claims and endpoints of the cluster.
    pub desired: Desired,
    /// The contents of Cloud Map.
    pub registry: Registry,
    /// The holders of each name in it.
    pub holders: Holders,
    /// The Services that a plan is about.
    pub affected: BTreeSet<ServiceRef>,
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

    /// A part of a cluster that claims nothing.
    pub fn new(owner: Owner, rules: Arc<Rules>, now: Timestamp, registry: Registry) -> Self {
        Self {
            owner,
            rules,
            now,
            extent: Extent::Part,
            judged: None,
            desired: Desired::default(),
            registry,
            holders: Holders::default(),
            affected: BTreeSet::new(),
        }
    }

    /// Decides all that follows from the claims and from Cloud Map, for the Services of `selection`.
    #[must_use]
    pub fn decided(mut self, selection: &Selection) -> Self {
        self.decide(selection);
        self
    }

    /// Decides it again.
    pub fn decide(&mut self, selection: &Selection) {
        self.choose_namespaces();
        self.decide_holders();
        self.affected = affected(self, selection);
    }

    pub fn decide_holders(&mut self) {
        self.holders = Holders::decide(self);
    }

    /// The same after it was read again for a turn.
    #[must_use]
    pub fn reread(mut self, scope: &RereadScope) -> Self {
        self.decide_holders();
        self.affected.clone_from(&scope.services);
        self
    }

    /// Records a change of a Service that Cloud Map has carried out.
    pub fn note(&mut self, service: &ServiceRef, change: &Change) {
        let key = change.place().key.clone();
        self.pass_on(change);
        match change {
            Change::Register { .. } => self.registry.capacity.take(service, &key),
            Change::Deregister { marked, because: DeregisterReason::NameChanged(_), .. } => {
                self.registry.capacity.free(marked, &key);
            }
            _ => {}
        }
        let Some(present) = self.registry.services.get_mut(&key) else { return };
        match (change, &mut present.instances) {
            (
                Change::Register { instance, attributes, .. }
                | Change::Rewrite { instance, attributes, .. },
                Some(instances),
            ) => _ = instances.insert(instance.clone(), attributes.clone()),
            (Change::Deregister { instance, .. }, Some(instances)) => {
                instances.remove(instance);
            }
            (Change::NoteOnService { difference, text, .. }, _) => {
                present.attributes.set(&difference.attribute, text.as_deref());
            }
            _ => {}
        }
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
