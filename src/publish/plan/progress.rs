//! Keeps an observation up to date with the changes that are made on it.

use std::sync::Arc;

use super::{Change, DeregisterReason, Observation, guard};
use crate::model::ServiceRef;

impl Observation {
    /// Records a change of a Service that Cloud Map has carried out.
    pub fn note(&mut self, service: &ServiceRef, change: &Change) {
        let key = change.place().key.clone();
        match change {
            Change::Register { instance, attributes, .. }
            | Change::Rewrite { instance, attributes, .. }
            | Change::Adopt { instance, attributes, .. } => {
                self.pass_on(change);
                if matches!(change, Change::Register { .. }) {
                    self.registry.capacity.take(service, &key);
                }
                let instances = self.registry.services.get_mut(&key);
                if let Some(instances) = instances.and_then(|it| it.instances.as_mut()) {
                    instances.insert(instance.clone(), attributes.clone());
                }
            }
            Change::NoteOnService { difference, text, .. } => {
                if let Some(service) = self.registry.services.get_mut(&key) {
                    service.attributes.set(&difference.attribute, text.as_deref());
                }
            }
            Change::Deregister { instance, marked, because, .. } => {
                if matches!(because, DeregisterReason::NameChanged(_)) {
                    self.registry.capacity.free(marked, &key);
                }
                let instances = self.registry.services.get_mut(&key);
                if let Some(instances) = instances.and_then(|it| it.instances.as_mut()) {
                    instances.remove(instance);
                }
            }
            _ => {}
        }
    }

    /// An instance that passes to another Service and stays where it can be found is no loss of the former one.
    fn pass_on(&mut self, change: &Change) {
        let Change::Rewrite { place, instance, attributes, exchange: None, .. } = change else {
            return;
        };
        let Some(from) = self.registry.instance(&place.key, instance) else { return };
        if let Some(judged) = &mut self.judged {
            Arc::make_mut(judged).pass_on(&self.owner, from, attributes);
        }
    }

    /// Whether the guard of a full sync holds the instances of a Service, as far as that was read.
    pub fn is_held(&self, service: &ServiceRef) -> bool {
        guard::holds(self, service)
    }
}
