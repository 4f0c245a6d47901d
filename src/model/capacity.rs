//! The remaining capacity of Cloud Map's namespaces, as a run has seen it. No API reports the quota of a namespace, so
//! a namespace is full when Cloud Map refuses a registration in it, for the rest of the run.

use std::collections::{BTreeMap, BTreeSet};

use super::{ServiceKey, ServiceRef};

/// The full namespaces, as this run has seen them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Cloud Map's error messages, by namespace id.
    refused: BTreeMap<String, String>,
    /// Places in full namespaces that a Service freed for its own new instances, by namespace id.
    freed: BTreeMap<(ServiceRef, String), usize>,
    /// Full namespaces that refused a registration for a freed place: another writer took it, or Cloud Map's count
    /// lags.
    closed: BTreeSet<String>,
}

impl Capacity {
    /// Records that a namespace is full. A second refusal was for a freed place and closes the namespace.
    pub fn refuse(&mut self, namespace: &str, message: &str) {
        let known = self.refused.insert(namespace.to_owned(), message.to_owned());
        if known.is_some() {
            self.closed.insert(namespace.to_owned());
            self.freed.retain(|(_, freed), _| freed != namespace);
        }
    }

    /// Whether this run frees no more places in the namespace.
    pub fn is_closed(&self, key: &ServiceKey) -> bool {
        self.closed.contains(&key.namespace)
    }

    pub fn is_empty(&self) -> bool {
        self.refused.is_empty()
    }

    /// Cloud Map's error message if the namespace of `key` is full.
    pub fn refusal(&self, key: &ServiceKey) -> Option<&String> {
        self.refused.get(&key.namespace)
    }

    /// Records that a Service deregistered an instance to free its place for a new one.
    pub fn free(&mut self, service: &ServiceRef, key: &ServiceKey) {
        if self.refusal(key).is_some() {
            *self.freed.entry((service.clone(), key.namespace.clone())).or_default() += 1;
        }
    }

    /// Whether a freed place has not been taken yet.
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
