//! The fields that an API server refuses, since it is older than the exporters or the values break its rules. They are
//! remembered, or each import would be refused in each run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::Kubernetes;
use crate::model::clusterset::RefusedField;
use crate::model::{SignedDuration, Timestamp};

/// How long a refusal counts, unless the server's version changes before.
const REFUSAL_TTL: SignedDuration = SignedDuration::from_hours(1);

/// The fields, each with the time of its refusal.
#[derive(Debug, Default)]
pub(super) struct RefusedFields(Mutex<Refusals>);

#[derive(Debug, Default)]
struct Refusals {
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
