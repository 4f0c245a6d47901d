//! Makes the changes of one import, in their order: each is one request. After the first that fails, the slices and the
//! status are left to be written, by a plan that knows the failure.

use serde_json::Value;

use super::plan::{
    Change, FailedWrite, Present, Stage, Unexpected, Write, missing_fields, refused_fields,
};
use crate::error::chain;
use crate::kubernetes::{Error, Kubernetes};
use crate::model::{Kind, Outcome, RefusedField, ServiceRef};
use crate::time::Deadline;

/// A change with its outcome.
#[derive(Clone, Debug)]
pub struct Made {
    pub change: Change,
    pub result: Outcome,
}

/// The changes of an import as they were made, and the error that ended them.
#[derive(Debug, Default)]
pub struct Applied {
    pub made: Vec<Made>,
    pub failure: Option<Error>,
    /// The change that failed, after which the import is planned again: not the status, since another one would fail as
    /// well.
    pub failed: Option<FailedWrite>,
    /// The fields that the API server refused or did not store, without which the objects serve.
    pub refused: Vec<RefusedField>,
    /// The object that has the name of one to be created.
    pub taken: Option<(Kind, Value)>,
    /// The problem of an object as the API server stored it.
    pub unreadable: Option<Unexpected>,
}

const AFTER_FAILURE: &str = "an earlier change of the import failed";

/// Makes the changes of an import, one after the other. Each needs the answers to those before it, which `present` takes
/// over.
pub async fn apply(
    kubernetes: &Kubernetes,
    service: &ServiceRef,
    present: &mut Present,
    changes: Vec<Change>,
    deadline: Deadline,
) -> Applied {
    let mut applied = Applied::default();
    for change in changes {
        let has_failed = applied.failure.is_some();
        // The status of a failed import is planned again.
        if has_failed && change.stage == Stage::Status {
            continue;
        }
        let has_time = deadline.is_open();
        let result = match present.body(&change) {
            Some(body) if !has_failed && has_time => {
                applied.send(kubernetes, service, present, (&change, &body)).await
            }
            _ if !has_failed && !has_time => Outcome::out_of_time(),
            _ => Outcome::undone(AFTER_FAILURE),
        };
        applied.made.push(Made { change, result });
    }
    applied
}

impl Made {
    pub fn planned(change: Change) -> Self {
        Self { change, result: Outcome::Planned }
    }
}

impl Applied {
    async fn send(
        &mut self,
        kubernetes: &Kubernetes,
        service: &ServiceRef,
        present: &mut Present,
        (change, body): (&Change, &Value),
    ) -> Outcome {
        let kind = change.object.kind;
        match send(kubernetes, present, change, body).await {
            Ok(stored) => {
                if let Some(stored) = stored {
                    self.refused.extend(missing_fields(kind, service, body, &stored));
                    self.unreadable = present.store(kind, &stored).err().or(self.unreadable.take());
                }
                Outcome::Applied
            }
            Err(error) => {
                let fields = (body, &present.spec(kind));
                self.refused.extend(refused_fields(kind, service, fields, &error.invalid_fields()));
                let mut text = chain(&error);
                if error.is_name_taken() {
                    // The lists of a run are by our labels, so it was not known.
                    match kubernetes.object(&change.object).await {
                        Ok(found) => self.taken = found.map(|found| (kind, found)),
                        Err(unread) => text = format!("{text}; {}", chain(&unread)),
                    }
                }
                self.failure = Some(error);
                self.failed = (change.stage != Stage::Status)
                    .then(|| FailedWrite { kind, message: text.clone() });
                Outcome::Failed { error: text }
            }
        }
    }

    /// Whether a change is left that a retry can make: the failure is not permanent, or the time was over.
    pub fn is_unfinished(&self) -> bool {
        let is_undone = |made: &Made| matches!(made.result, Outcome::Undone { .. });
        match &self.failure {
            Some(error) => !error.is_permanent(),
            None => self.made.iter().any(is_undone),
        }
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
