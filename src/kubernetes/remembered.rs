//! Answers of an API server that a client remembers: the APIs that it serves, for some minutes, and what it refuses, which
//! each import would meet again in each run. These are the fields that it does not know, since it is older than the
//! exporters, or whose values break its rules; the namespaces in which the admission policy of the cluster lets the
//! function change nothing, since it cannot read policies; and the IP families that the cluster has for its Services, which
//! an API server states nowhere but in a refusal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Kubernetes;
use crate::model::clusterset::RefusedField;
use crate::model::{Family, SignedDuration, Timestamp};

/// How long a refusal counts, unless the server's version changes before.
const REFUSAL_TTL: SignedDuration = SignedDuration::from_hours(1);

/// The fields, each with the time of its refusal.
#[derive(Debug, Default)]
pub(super) struct RefusedFields(Mutex<FieldRefusals>);

#[derive(Debug, Default)]
struct FieldRefusals {
    fields: BTreeMap<RefusedField, Timestamp>,
    /// The version of the server that refused them.
    version: Option<String>,
}

impl Kubernetes {
    /// The fields that were refused within the last hour.
    pub fn refused_fields(&self, now: Timestamp) -> BTreeSet<RefusedField> {
        let mut refused = self.refused.0.lock().unwrap_or_else(PoisonError::into_inner);
        refused.fields.retain(|_, at| now.duration_since(*at) < REFUSAL_TTL);
        refused.fields.keys().cloned().collect()
    }

    pub fn remember_refused(&self, fields: Vec<RefusedField>, now: Timestamp) {
        let mut refused = self.refused.0.lock().unwrap_or_else(PoisonError::into_inner);
        refused.fields.extend(fields.into_iter().map(|field| (field, now)));
    }

    /// Forgets what another version of the server refused. Asks for the version only if there is anything to forget.
    pub async fn forget_refusals_of_another_version(&self, now: Timestamp) {
        if self.refused_fields(now).is_empty() {
            return;
        }
        // Without an answer they count for the rest of their hour.
        let Ok(version) = self.client.apiserver_version().await else { return };
        let mut refused = self.refused.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = refused.version.replace(version.git_version.clone());
        if before.is_some_and(|before| before != version.git_version) {
            refused.fields.clear();
        }
    }
}

/// The time after which the server is asked again.
const TTL: Duration = Duration::from_mins(5);

#[derive(Debug, Default)]
pub(super) struct Recent<T>(Mutex<Option<(Instant, T)>>);

impl<T: Clone> Recent<T> {
    /// Whether there is an answer that counts without another request.
    pub(super) fn is_recent(&self) -> bool {
        self.get().is_some_and(|(asked, _)| asked.elapsed() < TTL)
    }

    /// The latest answer, of any age.
    pub(super) fn latest(&self) -> Option<T> {
        self.get().map(|(_, answer)| answer)
    }

    /// Keeps an answer, or forgets the one before.
    pub(super) fn set(&self, answer: Option<T>) {
        let answer = answer.map(|answer| (Instant::now(), answer));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }

    fn get(&self) -> Option<(Instant, T)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How long a refusal counts. The first import after it finds out whether the namespace is still excluded.
const EXCLUSION_TTL: SignedDuration = SignedDuration::from_mins(10);

/// The namespaces, with the time of the last refusal.
#[derive(Debug, Default)]
pub(super) struct ExcludedNamespaces {
    refused: Mutex<BTreeMap<String, Timestamp>>,
}

impl Kubernetes {
    /// Whether a write in a namespace was refused a short while ago, since the policy excludes it.
    pub fn excludes_namespace(&self, namespace: &str, now: Timestamp) -> bool {
        let refused = self.excluded.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get(namespace).is_some_and(|refused| now.duration_since(*refused) < EXCLUSION_TTL)
    }

    /// Remembers that the policy excludes a namespace.
    pub fn remember_excluded(&self, namespace: &str, now: Timestamp) {
        let mut refused = self.excluded.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.insert(namespace.to_owned(), now);
    }
}

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
