//! Creates missing HTTP namespaces, each at most once in an invocation. The Services that need the same namespace share
//! the result.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_servicediscovery::error::SdkError;
use aws_sdk_servicediscovery::operation::create_http_namespace::CreateHttpNamespaceError;
use aws_sdk_servicediscovery::types::NamespaceType;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::operation::Ended;
use super::{Call, CloudMap, Error};
use crate::model::{NamespaceKind, description};

type CreatedNamespace = OnceCell<Result<String, Arc<Error>>>;

/// The answer to the creation of a namespace.
enum Creation {
    /// The operation of this call.
    Accepted(String),
    /// The operation of another client's creation under this name, which may have ended.
    Busy(String),
    /// The id of the namespace that has the name, also while it is being deleted.
    Exists(String),
}

/// The results of an invocation, by namespace name.
#[derive(Debug, Default)]
pub struct NewNamespaces(Mutex<BTreeMap<String, Arc<CreatedNamespace>>>);

impl NewNamespaces {
    fn cell(&self, name: &str) -> Arc<CreatedNamespace> {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.entry(name.to_owned()).or_default().clone()
    }

    /// The reference of a namespace that this invocation has created or found: its id, which serves as the ARN does.
    pub fn reference(&self, name: &str) -> Option<String> {
        self.cell(name).get()?.as_ref().ok().cloned()
    }
}

impl CloudMap {
    /// The reference of the HTTP namespace `name`, which is created if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the namespace could not be created or found before `until`; it is of class
    /// [`super::Class::NotFound`] if the namespace is being deleted.
    pub async fn ensure_namespace(
        &self,
        created: &NewNamespaces,
        name: &str,
        owner: &str,
        until: Instant,
    ) -> Result<String, Arc<Error>> {
        let cell = created.cell(name);
        let create = || async { self.create_namespace(name, owner, until).await.map_err(Arc::new) };
        cell.get_or_init(create).await.clone()
    }

    /// The id comes from the operation or the refusal: a list may not show the namespace yet. The one of another client
    /// is read, since it may be of another type, or gone.
    async fn create_namespace(
        &self,
        name: &str,
        owner: &str,
        until: Instant,
    ) -> Result<String, Error> {
        match self.create_http_namespace(name, owner).await? {
            Creation::Accepted(operation) => self.created_by(&operation, name, until).await,
            Creation::Busy(operation) => {
                let id = self.created_by(&operation, name, until).await?;
                self.http_namespace(id, name).await
            }
            Creation::Exists(id) => self.http_namespace(id, name).await,
        }
    }

    async fn create_http_namespace(&self, name: &str, owner: &str) -> Result<Creation, Error> {
        let _permit = self.permit(Call::CreateHttpNamespace).await;
        let tags = self.new_tags(owner).map_err(|error| Error::input(action(name), &error))?;
        let request = self.client.create_http_namespace().name(name).set_tags(Some(tags));
        let request = request.description(description(owner));
        match request.send().await {
            Ok(accepted) => {
                let missing = || Error::missing_member(action(name), "OperationId");
                accepted.operation_id.map(Creation::Accepted).ok_or_else(missing)
            }
            Err(error) => match of_another(&error) {
                Some(creation) => Ok(creation),
                None => Err(Error::new(action(name), &error)),
            },
        }
    }

    /// The id of the namespace that an operation has created.
    async fn created_by(
        &self,
        operation: &str,
        name: &str,
        until: Instant,
    ) -> Result<String, Error> {
        let kind = (Call::CreateHttpNamespace, NamespaceKind::Http);
        let problem = match self.wait(operation, kind, None, until).await? {
            Ended::Success { namespace: Some(id) } => return Ok(id),
            Ended::Success { namespace: None } => {
                return Err(Error::missing_member(action(name), "Targets"));
            }
            Ended::Fail { code, message } => format!("{code}: {message}"),
            Ended::Pending => "the operation has not ended in time".to_owned(),
        };
        Err(Error::input(action(name), &problem))
    }

    /// A namespace that another client created or creates, if it is of the type HTTP.
    async fn http_namespace(&self, id: String, name: &str) -> Result<String, Error> {
        let _permit = self.permit(Call::GetNamespace).await;
        let read = self.client.get_namespace().id(&id).send().await;
        let action_of_read = || format!("read the Cloud Map namespace {name} ({id})");
        let read = read.map_err(|error| Error::new(action_of_read(), &error))?;
        match read.namespace.and_then(|namespace| namespace.r#type) {
            Some(NamespaceType::Http) => Ok(id),
            Some(_) => Err(Error::input(
                action(name),
                &format!(
                    "{id} is a DNS namespace of that name since a moment ago, which the next run uses"
                ),
            )),
            None => Err(Error::missing_member(action_of_read(), "Namespace")),
        }
    }
}

fn action(name: &str) -> String {
    format!("create the Cloud Map namespace {name}")
}

/// The creation of another client that a refusal names.
fn of_another<R>(error: &SdkError<CreateHttpNamespaceError, R>) -> Option<Creation> {
    match error.as_service_error()? {
        CreateHttpNamespaceError::DuplicateRequest(duplicate) => {
            duplicate.duplicate_operation_id().map(|id| Creation::Busy(id.to_owned()))
        }
        CreateHttpNamespaceError::NamespaceAlreadyExists(exists) => {
            exists.namespace_id().map(|id| Creation::Exists(id.to_owned()))
        }
        _ => None,
    }
}
