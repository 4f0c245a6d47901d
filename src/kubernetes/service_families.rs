//! The IP families that a cluster has for its Services. An API server states them nowhere but in a refusal.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::Kubernetes;
use crate::model::Family;

/// The families that the API server has refused on this connection.
#[derive(Debug, Default)]
pub(super) struct ServiceFamilies {
    missing: Mutex<BTreeSet<Family>>,
}

impl Kubernetes {
    /// The families to ask for, without those that the cluster is known not to have.
    pub fn service_families(&self) -> Vec<Family> {
        let missing = self.families.missing.lock().unwrap_or_else(PoisonError::into_inner);
        Family::ALL.into_iter().filter(|family| !missing.contains(family)).collect()
    }

    /// Remembers that the cluster does not have a family.
    pub fn lacks_family(&self, family: Family) {
        let mut missing = self.families.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.insert(family);
    }
}
