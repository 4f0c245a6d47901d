//! Makes the changes of one import, in their order: each is one request. After the first that fails, the slices and the
//! status are left to be written, by a plan that knows the failure.

use serde_json::Value;

use super::plan::{
    Answer, Change, Failure, Kind, Known, ObjectRef, Request, Stage, missing_fields, refused_fields,
};
use super::read;
use crate::error::chain;
use crate::kubernetes::objects::{Named, Resource};
use crate::kubernetes::{Error, Kubernetes};
use crate::model::clusterset::RefusedField;
use crate::time::Deadline;

/// A change with its outcome.
#[derive(Clone, Debug)]
pub struct Made {
    pub change: Change,
    pub outcome: Outcome,
}

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Planned,
    Applied,
    Failed(String),
    /// An earlier change failed, or the time was used up.
    Undone(&'static str),
}

/// The changes of an import as they were made, and the error that ended them.
#[derive(Debug, Default)]
pub struct Applied {
    pub made: Vec<Made>,
    /// The objects that were written, as the API server stored them.
    pub stored: Vec<(Kind, Value)>,
    pub failure: Option<Error>,
    /// The fields that the API server refused or did not store, without which the objects serve.
    pub refused: Vec<RefusedField>,
}

const AFTER_FAILURE: &str = "an earlier change of the import failed";
const NO_TIME: &str = "the time of this invocation is used up";

/// Makes the changes of the import `import`, one after the other.
pub async fn apply(
    kubernetes: &Kubernetes,
    import: &str,
    known: &mut Known,
    changes: &[Change],
    deadline: Deadline,
) -> Applied {
    let mut applied = Applied::default();
    for change in changes {
        let has_failed = applied.failure.is_some();
        let outcome = match known.request(change, import) {
            _ if has_failed => Outcome::Undone(AFTER_FAILURE),
            _ if !deadline.is_open() => Outcome::Undone(NO_TIME),
            None => Outcome::Undone(AFTER_FAILURE),
            Some(request) => match send(kubernetes, change, &request).await {
                Ok(stored) => {
                    if let Some(stored) = stored {
                        let missing = request
                            .body()
                            .map(|body| missing_fields(&change.object, import, body, &stored));
                        applied.refused.extend(missing.unwrap_or_default());
                        known.record(&change.object, answer(&stored));
                        applied.stored.push((change.object.kind, stored));
                    }
                    Outcome::Applied
                }
                Err(error) => {
                    let text = chain(&error);
                    let causes = error.invalid_fields();
                    applied.refused.extend(
                        request
                            .body()
                            .into_iter()
                            .flat_map(|body| refused_fields(&change.object, import, body, causes)),
                    );
                    applied.failure = Some(error);
                    Outcome::Failed(text)
                }
            },
        };
        // The status of a failed import is planned again.
        let is_replaced = has_failed && change.stage == Stage::Status;
        if !is_replaced {
            applied.made.push(Made { change: change.clone(), outcome });
        }
    }
    applied
}

impl Applied {
    /// The change that failed. No change is made after it.
    fn failed(&self) -> Option<&Made> {
        self.made.iter().find(|made| matches!(made.outcome, Outcome::Failed(_)))
    }

    /// Whether it is the status that could not be written. Another status would fail as well.
    pub fn is_without_status(&self) -> bool {
        self.failed().is_some_and(|made| made.change.stage == Stage::Status)
    }

    /// The kind of the object that could not be written, and the failure as the report has it.
    pub fn failed_change(&self) -> Option<Failure> {
        self.failed().and_then(|made| match &made.outcome {
            Outcome::Failed(text) => {
                Some(Failure { kind: made.change.object.kind, message: text.clone() })
            }
            _ => None,
        })
    }

    /// Whether a change is left that a retry can make: the failure is not permanent, or the time was over.
    pub fn is_unfinished(&self) -> bool {
        match &self.failure {
            Some(error) => !error.is_permanent(),
            None => self.made.iter().any(|made| matches!(made.outcome, Outcome::Undone(_))),
        }
    }

    /// Adds a further problem to the failure.
    pub fn add_to_failure(&mut self, problem: &str) {
        for made in &mut self.made {
            if let Outcome::Failed(text) = &mut made.outcome {
                *text = format!("{text}; {problem}");
            }
        }
    }

    /// The object whose name is taken by one that the run did not know.
    pub fn taken(&self) -> Option<&ObjectRef> {
        self.failure.as_ref().filter(|error| error.is_name_taken())?;
        self.failed().map(|made| &made.change.object)
    }
}

/// Makes one change. Returns the object as the API server stored it, unless it is deleted.
async fn send(
    kubernetes: &Kubernetes,
    change: &Change,
    request: &Request,
) -> Result<Option<Value>, Error> {
    let object = named(&change.object);
    let stored = match request {
        Request::Create(body) => kubernetes.create_object(object, body).await?,
        Request::Patch(patch) => kubernetes.patch_object(object, patch).await?,
        Request::PatchStatus(patch) => kubernetes.patch_status(object, patch).await?,
        Request::Delete(identity) => {
            let (uid, version) = (&identity.uid, &identity.resource_version);
            kubernetes.delete_object(object, uid, version).await?;
            return Ok(None);
        }
    };
    Ok(Some(stored))
}

fn answer(stored: &Value) -> Answer {
    Answer { identity: read::identity(stored), cluster_ips: read::cluster_ips(stored) }
}

pub(super) fn named(object: &ObjectRef) -> Named<'_> {
    let resource = match object.kind {
        Kind::ServiceImport => Resource::ServiceImports,
        Kind::Service => Resource::Services,
        Kind::EndpointSlice => Resource::EndpointSlices,
    };
    Named { resource, namespace: &object.namespace, name: &object.name }
}
