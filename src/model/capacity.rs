//! What a run learnt of the places for instances in Cloud Map's namespaces. No API reports the quota of a namespace,
//! so a namespace is full when Cloud Map refuses a registration in it, and only for the run that saw the refusal.

use std::collections::{BTreeMap, BTreeSet};

use super::{ServiceKey, ServiceRef};

/// The namespaces that are full, as this run saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Cloud Map's words, by the namespace's id.
    refused: BTreeMap<String, String>,
    /// Places in full namespaces that a Service freed for its own new instances, by the namespace's id.
    freed: BTreeMap<(ServiceRef, String), usize>,
    /// Full namespaces in which a freed place could not be taken: another writer did, or Cloud Map's count is late.
    closed: BTreeSet<String>,
}

impl Capacity {
    /// Records that Cloud Map takes no more instances in a namespace. A second time it refused a freed place.
    pub fn refuse(&mut self, namespace: &str, message: &str) {
        let known = self.refused.insert(namespace.to_owned(), message.to_owned());
        if known.is_some() {
            self.closed.insert(namespace.to_owned());
            self.freed.retain(|(_, freed), _| freed != namespace);
        }
    }

    /// Whether no more places are to be freed in a full namespace in this run.
    pub fn is_closed(&self, key: &ServiceKey) -> bool {
        self.closed.contains(&key.namespace)
    }

    /// Whether no namespace is known to be full.
    pub fn is_empty(&self) -> bool {
        self.refused.is_empty()
    }

    /// Cloud Map's words if the namespace of `key` is full.
    pub fn refusal(&self, key: &ServiceKey) -> Option<&String> {
        self.refused.get(&key.namespace)
    }

    /// Records that a Service gave up a place for one of its own new instances.
    pub fn free(&mut self, service: &ServiceRef, key: &ServiceKey) {
        if self.refusal(key).is_some() {
            *self.freed.entry((service.clone(), key.namespace.clone())).or_default() += 1;
        }
    }

    /// Whether a freed place is still to be taken.
    pub fn has_freed(&self) -> bool {
        self.freed.values().any(|places| *places > 0)
    }

    /// Records that an instance of a Service took a place.
    pub fn take(&mut self, service: &ServiceRef, key: &ServiceKey) {
        if let Some(freed) = self.freed.get_mut(&(service.clone(), key.namespace.clone())) {
            *freed = freed.saturating_sub(1);
        }
    }

    /// How many places a Service freed in a full namespace and has not taken yet.
    pub fn freed(&self, service: &ServiceRef, key: &ServiceKey) -> usize {
        self.freed.get(&(service.clone(), key.namespace.clone())).copied().unwrap_or_default()
    }
}
