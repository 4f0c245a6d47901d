//! The number of instances of services and namespaces, including those of accepted registrations. It is updated with
//! each change: counting 20,000 instances at each registration would be too slow.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::operation::{Effect, Targets};
use super::resource::Instance;
use super::state::State;
use super::wire::{ApiError, Checked};

const INSTANCES_PER_SERVICE: usize = 1000;

/// Places that are taken, by the id of the service or namespace.
#[derive(Default)]
pub struct Room(BTreeMap<String, usize>);

impl Room {
    fn taken(&self, id: &str) -> usize {
        self.0.get(id).copied().unwrap_or(0)
    }

    fn take(&mut self, service: &str, namespace: &str) {
        for id in [service, namespace] {
            *self.0.entry(id.to_owned()).or_default() += 1;
        }
    }

    fn free(&mut self, service: &str, namespace: &str) {
        for id in [service, namespace] {
            let taken = self.0.get_mut(id).expect("a place that is freed was taken");
            *taken -= 1;
        }
    }
}

impl State {
    /// An id that exists is replaced and takes no room.
    /// Assumed (no case): a registration on its way counts as there. To ask, 1,000 instances are needed.
    pub fn refuse_above_limits(&self, targets: &Targets, adds: bool) -> Checked<()> {
        if !adds {
            return Ok(());
        }
        let service = targets.service.as_deref().unwrap_or_default();
        let namespace = &targets.namespace;
        let in_service = self.room.taken(service);
        let in_namespace = self.room.taken(namespace);
        if in_service >= INSTANCES_PER_SERVICE {
            return Err(ApiError::limit(format!(
                "The service {service} holds {in_service} instances"
            )));
        }
        if in_namespace >= self.behaviour.instances_per_namespace {
            return Err(ApiError::limit(format!(
                "The namespace {namespace} holds {in_namespace} instances"
            )));
        }
        Ok(())
    }

    /// Keeps a place for an accepted registration, or gives it back when the operation has ended.
    pub fn reserve(&mut self, effect: &Effect, targets: &Targets, ended: bool) {
        if let (Effect::Register { adds: true, .. }, Some(service)) = (effect, &targets.service) {
            if ended {
                self.room.free(service, &targets.namespace);
            } else {
                self.room.take(service, &targets.namespace);
            }
        }
    }

    /// Writes what becomes of one instance at `ended`, and from when each plane shows it: the control plane's time
    /// first. Every change of an instance goes through here, so that it is counted and the guard looks at it.
    pub fn put(
        &mut self,
        service_id: &str,
        id: &str,
        ended: Instant,
        shown: (Instant, Instant),
        instance: Option<Arc<Instance>>,
    ) {
        let Some(service) = self.services.get_mut(service_id) else { return };
        let was = service.instance(id).is_some();
        let is = instance.is_some();
        service.put(id, ended, shown, instance);
        match (was, is) {
            (false, true) => self.room.take(service_id, &service.namespace),
            (true, false) => self.room.free(service_id, &service.namespace),
            _ => {}
        }
        self.guard.changed(service_id, id);
    }
}
