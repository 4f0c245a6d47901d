//! Applies the changes of one import in order, one request each. A failed change blocks the later changes that depend
//! on it ([`FailedWrite::blocks`]). Blocked changes are planned again, with the failure as input.
//!
//! [`Imported`] is the outcome of all imports of a cluster in one run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::observe::Objects;
use super::plan::{
    Change, FailedWrite, OwnerLabel, Present, Reason, Sources, Write, changed_fields,
    refused_fields, removal,
};
use crate::clusterset::merge::Merged;
use crate::error::chain;
use crate::guard::GuardStatus;
use crate::kubernetes::{Error, ErrorClass, Kubernetes};
use crate::model::{Kind, Notice, Outcome, Policy, RefusedField, ServiceRef};
use crate::time::Deadline;

/// A change with its outcome.
#[derive(Clone, Debug)]
pub struct Made {
    pub change: Change,
    pub result: Outcome,
}

/// The outcomes of the changes of an import, and the errors of those that failed.
#[derive(Debug, Default)]
pub struct Applied {
    pub made: Vec<Made>,
    pub failures: Vec<Failure>,
    /// Whether an unblocked change was not attempted: the deadline passed, or an object that it refers to is missing.
    pub is_cut_short: bool,
    /// Optional fields that the API server rejected or dropped. The objects work without them.
    pub refused: Vec<RefusedField>,
    /// Existing objects, not ours, that have the name of an object to be created.
    pub name_conflicts: Vec<(Kind, Value)>,
}

/// A change that failed, with its error.
#[derive(Debug)]
pub struct Failure {
    pub write: FailedWrite,
    pub error: Error,
}

const AFTER_FAILURE: &str = "an earlier change of the import failed";

/// Applies `changes` in sequence. Each response is stored in `present`, because later changes need it (UIDs, resource
/// versions, IPs).
pub async fn apply(
    kubernetes: &Kubernetes,
    present: &mut Present,
    changes: Vec<Change>,
    deadline: Deadline,
) -> Applied {
    let mut applied = Applied::default();
    for change in changes {
        let failures = applied.failures.iter().map(|failure| &failure.write);
        let blocking: Vec<&FailedWrite> = failures.filter(|write| write.blocks(&change)).collect();
        let result = if !blocking.is_empty() {
            if blocking.iter().all(|write| write.is_reported_for(&change)) {
                continue;
            }
            Outcome::not_attempted(AFTER_FAILURE)
        } else if !deadline.is_open() {
            applied.is_cut_short = true;
            Outcome::out_of_time()
        } else if let Some(body) = present.body(&change) {
            applied.send_and_record(kubernetes, present, (&change, &body)).await
        } else {
            applied.is_cut_short = true;
            Outcome::not_attempted(AFTER_FAILURE)
        };
        applied.made.push(Made { change: change.without_content(), result });
    }
    applied
}

impl Made {
    pub fn planned(change: Change) -> Self {
        Self { change, result: Outcome::Planned }
    }
}

impl Applied {
    async fn send_and_record(
        &mut self,
        kubernetes: &Kubernetes,
        present: &mut Present,
        (change, body): (&Change, &Value),
    ) -> Outcome {
        let kind = change.object.kind;
        match send(kubernetes, present, change, body).await {
            Ok(stored) => {
                if let Some(stored) = stored {
                    self.refused.extend(changed_fields(kind, body, &stored));
                    present.store(kind, &stored);
                }
                Outcome::Applied
            }
            Err(error) => {
                let fields = (body, &present.spec(kind));
                self.refused.extend(refused_fields(kind, fields, &error.invalid_fields()));
                let mut text = chain(&error);
                if error.is_name_taken() {
                    // A run lists only objects with our labels, so it has not read the object that has this name.
                    match kubernetes.object(&change.object).await {
                        Ok(found) => self.name_conflicts.extend(found.map(|found| (kind, found))),
                        Err(unread) => text = format!("{text}; {}", chain(&unread)),
                    }
                }
                let write = FailedWrite {
                    object: change.object.clone(),
                    stage: change.stage,
                    message: text.clone(),
                    is_denied: error.class == ErrorClass::Denied,
                };
                self.failures.push(Failure { write, error });
                Outcome::Failed { error: text }
            }
        }
    }

    /// Whether a retry can make a change that is still missing: a failure is not permanent, or an unblocked change was
    /// not attempted.
    pub fn is_unfinished(&self) -> bool {
        self.is_cut_short || self.failures.iter().any(|failure| !failure.error.is_permanent())
    }

    /// Whether an object has changed since it was read.
    pub fn is_outdated(&self) -> bool {
        self.failures.iter().any(|failure| failure.error.is_outdated())
    }
}

/// Makes one change. Returns the object as the API server stored it, unless it is deleted.
async fn send(
    kubernetes: &Kubernetes,
    present: &Present,
    change: &Change,
    body: &Value,
) -> Result<Option<Value>, Error> {
    let object = &change.object;
    match change.write {
        Write::Create => kubernetes.create_object(object, body).await.map(Some),
        Write::Patch => kubernetes.patch_object(object, body).await.map(Some),
        Write::PatchStatus => kubernetes.patch_status(object, body).await.map(Some),
        Write::Delete => {
            let Some(metadata) = present.metadata(object) else { return Ok(None) };
            kubernetes.delete_object(object, &metadata.uid, &metadata.resource_version).await?;
            Ok(None)
        }
    }
}

/// The outcome of the imports of a cluster in one run.
#[derive(Debug, Default)]
pub struct Imported {
    pub imports: BTreeMap<ServiceRef, ImportOutcome>,
    /// Whether the cluster has imports but Cloud Map lacks its record. The Cloud Map may then be the wrong one, for
    /// example in another account.
    pub lacks_own_record: bool,
    /// Errors of Cloud Map services that could not be read. Endpoints imported from them stay.
    pub read_problems: BTreeSet<String>,
    /// The verdict of the guard, if a loss exceeds its limits.
    pub guard: Option<Arc<GuardStatus>>,
    /// The policy of the cluster, if it forbids changes of imports.
    pub frozen_by: Option<Policy>,
}

impl Imported {
    /// Merges the outcome of a second pass, which has planned again everything that the first pass did not apply. The
    /// changes that the first pass applied are kept.
    #[must_use]
    pub fn followed_by(mut self, mut second: Self) -> Self {
        for (name, outcome) in second.imports {
            let first = self.imports.remove(&name).unwrap_or_default();
            self.imports.insert(name, first.followed_by(outcome));
        }
        second.imports = self.imports;
        second
    }
}

/// The outcome of one import.
#[derive(Debug, Default)]
pub struct ImportOutcome {
    /// The merged exports of the name, if the cluster exports it itself.
    pub merged: Option<Arc<Merged>>,
    /// The number of ready endpoints in the import after the plan.
    pub endpoints: usize,
    /// The sources of the plan, if the plan is not carried out.
    pub sources: Option<Sources>,
    pub made: Vec<Made>,
    pub held_back: Vec<Reason>,
    /// The notices that an IP of the import changed.
    pub notices: Vec<Notice>,
    /// Whether a retry can make a change that is still missing.
    pub is_unfinished: bool,
    /// Whether a write met a conflict: an object changed after it was read. The remaining changes of the import were
    /// not made, so `is_unfinished` is true as well.
    pub is_outdated: bool,
}

impl ImportOutcome {
    /// Merges the outcome of a second attempt. The changes that the first attempt applied, and its notices, are kept.
    pub(super) fn followed_by(mut self, mut second: Self) -> Self {
        self.made.retain(|made| made.result == Outcome::Applied);
        second.made.splice(..0, self.made);
        second.notices.splice(..0, self.notices);
        second
    }
}

// A purge removes every import of an owner, whatever is exported.

/// The removal of all imports of an owner.
pub struct ImportRemoval<'a> {
    pub kubernetes: &'a Kubernetes,
    pub owner: &'a OwnerLabel,
    pub objects: &'a Objects,
    /// Whether the plans are carried out.
    pub writes: bool,
    pub deadline: Deadline,
}

impl ImportRemoval<'_> {
    /// Removes each import. If `writes` is false, only plans the removal.
    pub async fn run(&self) -> Imported {
        let mut imported = Imported::default();
        let names = self.objects.names(self.owner);
        for name in names.iter().chain(&self.objects.leftovers(&names)) {
            let outcome = self.remove(name, self.objects.present(name)).await;
            imported.imports.insert(name.clone(), outcome);
        }
        imported
    }

    async fn remove(&self, name: &ServiceRef, mut present: Present) -> ImportOutcome {
        let changes = removal(self.owner, name, &present).changes;
        let made = if self.writes {
            apply(self.kubernetes, &mut present, changes, self.deadline).await.made
        } else {
            changes.into_iter().map(Made::planned).collect()
        };
        ImportOutcome { made, ..ImportOutcome::default() }
    }
}
