//! Registers and deregisters an instance: one call each, whose result is returned. The plan has decided whether the
//! call may be made.

use std::fmt::Debug;

use aws_sdk_servicediscovery::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_servicediscovery::operation::deregister_instance::DeregisterInstanceError;
use aws_sdk_servicediscovery::operation::register_instance::RegisterInstanceError;

use super::{CloudMap, Error, Permit};
use crate::model::{Attributes, Place};

/// The id of the operation that a call returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The operation of this call.
    Operation(String),
    /// Another operation on the same object is under way.
    Busy(String),
}

impl CloudMap {
    /// Registers an instance, or replaces all attributes of an existing one with this id.
    ///
    /// # Errors
    /// Returns an error if Cloud Map refuses the call; an operation that is under way is no error.
    pub async fn register(
        &self,
        _permit: Permit<'_>,
        service: &str,
        place: &Place,
        instance: &str,
        attributes: &Attributes,
    ) -> Result<Accepted, Error> {
        let request = self.client.register_instance().service_id(service).instance_id(instance);
        self.reported.forget(service, instance);
        let owned = attributes.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        let answer = request.set_attributes(Some(owned.collect())).send().await;
        let duplicate = |error: &RegisterInstanceError| match error {
            RegisterInstanceError::DuplicateRequest(it) => it.duplicate_operation_id.clone(),
            _ => None,
        };
        let action = || format!("register {instance} in {place}");
        accepted(answer.map(|it| it.operation_id), duplicate, action)
    }

    /// # Errors
    /// Returns an error if Cloud Map refuses the call; an operation that is under way is no error.
    pub async fn deregister(
        &self,
        _permit: Permit<'_>,
        service: &str,
        place: &Place,
        instance: &str,
    ) -> Result<Accepted, Error> {
        let request = self.client.deregister_instance().service_id(service).instance_id(instance);
        let answer = request.send().await;
        let duplicate = |error: &DeregisterInstanceError| match error {
            DeregisterInstanceError::DuplicateRequest(it) => it.duplicate_operation_id.clone(),
            _ => None,
        };
        let action = || format!("deregister {instance} from {place}");
        accepted(answer.map(|it| it.operation_id), duplicate, action)
    }
}

/// The operation that Cloud Map began, or the one that is in its way.
pub(super) fn accepted<E, R>(
    answer: Result<Option<String>, SdkError<E, R>>,
    duplicate: impl Fn(&E) -> Option<String>,
    action: impl Fn() -> String,
) -> Result<Accepted, Error>
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
    R: Debug + Send + Sync + 'static,
{
    match answer {
        Ok(Some(operation)) => Ok(Accepted::Operation(operation)),
        Ok(None) => Err(Error::input(action(), &"Cloud Map returned no operation")),
        Err(error) => match error.as_service_error().and_then(duplicate) {
            Some(operation) => Ok(Accepted::Busy(operation)),
            None => Err(Error::new(action(), &error)),
        },
    }
}
