//! One change of an instance, one call. What is returned is what Cloud Map said; whether a call may be
//! made was decided in the plan.

use aws_sdk_servicediscovery::error::SdkError;
use aws_sdk_servicediscovery::operation::deregister_instance::DeregisterInstanceError;
use aws_sdk_servicediscovery::operation::register_instance::RegisterInstanceError;

use super::{CloudMap, Error, Permit};
use crate::model::{Attributes, Place};

/// What Cloud Map does with a change that takes its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It carries it out as this operation.
    Operation(String),
    /// Another operation on the same thing is under way.
    Busy(String),
}

impl CloudMap {
    /// Registers an instance, or replaces all attributes of the one that has the id.
    ///
    /// # Errors
    /// What Cloud Map refuses; an operation under way is none.
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
        let attributes = attributes.clone().into_iter().collect();
        let answer = request.set_attributes(Some(attributes)).send().await;
        let action = || format!("register {instance} in {place}");
        match answer {
            Ok(accepted) => operation(accepted.operation_id, action),
            Err(error) => match duplicate_register(&error) {
                Some(operation) => Ok(Accepted::Busy(operation)),
                None => Err(Error::new(action(), &error)),
            },
        }
    }

    /// Takes an instance out.
    ///
    /// # Errors
    /// What Cloud Map refuses; an operation under way is none.
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

/// The operation that a call was answered with.
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
