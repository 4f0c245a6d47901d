//! Registers and deregisters an instance: one call each, whose result is returned. The plan has decided whether the
//! call may be made.

use aws_sdk_servicediscovery::error::SdkError;
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
        let action = || format!("register {instance} in {place}");
        match answer {
            Ok(accepted) => operation(accepted.operation_id, action),
            Err(error) => match duplicate_register(&error) {
                Some(operation) => Ok(Accepted::Busy(operation)),
                None => Err(Error::new(action(), &error)),
            },
        }
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
        let action = || format!("deregister {instance} from {place}");
        match answer {
            Ok(accepted) => operation(accepted.operation_id, action),
            Err(error) => match duplicate_deregister(&error) {
                Some(operation) => Ok(Accepted::Busy(operation)),
                None => Err(Error::new(action(), &error)),
            },
        }
    }
}

pub(super) fn operation(
    id: Option<String>,
    action: impl Fn() -> String,
) -> Result<Accepted, Error> {
    let id = id.ok_or_else(|| Error::input(action(), &"Cloud Map returned no operation"))?;
    Ok(Accepted::Operation(id))
}

fn duplicate_register<R>(error: &SdkError<RegisterInstanceError, R>) -> Option<String> {
    match error.as_service_error()? {
        RegisterInstanceError::DuplicateRequest(duplicate) => {
            duplicate.duplicate_operation_id().map(str::to_owned)
        }
        _ => None,
    }
}

fn duplicate_deregister<R>(error: &SdkError<DeregisterInstanceError, R>) -> Option<String> {
    match error.as_service_error()? {
        DeregisterInstanceError::DuplicateRequest(duplicate) => {
            duplicate.duplicate_operation_id().map(str::to_owned)
        }
        _ => None,
    }
}
