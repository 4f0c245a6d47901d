//! The namespaces in which the admission policy of a cluster lets the function create and change nothing. The function
//! cannot read policies, so it learns of one from a refusal, and remembers it: otherwise each import of the namespace would
//! be refused in each run.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::Kubernetes;
use crate::model::{SignedDuration, Timestamp};

/// How long a refusal counts. The first import after it finds out whether the namespace is still excluded.
const REFUSAL_TTL: SignedDuration = SignedDuration::from_mins(10);

/// The namespaces, with the time of the last refusal.
#[derive(Debug, Default)]
pub(super) struct ExcludedNamespaces {
    refused: Mutex<BTreeMap<String, Timestamp>>,
}

impl Kubernetes {
    /// Whether a write in a namespace was refused a short while ago, since the policy excludes it.
    pub fn excludes_namespace(&self, namespace: &str, now: Timestamp) -> bool {
        let refused = self.excluded.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get(namespace).is_some_and(|refused| now.duration_since(*refused) < REFUSAL_TTL)
    }

    /// Remembers that the policy excludes a namespace.
    pub fn remember_excluded(&self, namespace: &str, now: Timestamp) {
        let mut refused = self.excluded.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.insert(namespace.to_owned(), now);
    }
}
