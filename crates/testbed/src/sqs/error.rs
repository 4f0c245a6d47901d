//! The errors of SQS for a whole request.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::super::sigv4::{Caller, Refusal};

/// A request that comes to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// HTTP status.
    pub status: StatusCode,
    /// `com.amazonaws.sqs#QueueDoesNotExist`, ...
    pub kind: String,
    /// What is wrong.
    pub message: String,
}

impl Failure {
    /// The request breaks a rule of SQS, which has a name.
    pub fn message(name: &str, message: impl Into<String>) -> Self {
        let kind = format!("com.amazonaws.sqs#{name}");
        Self { status: StatusCode::BAD_REQUEST, kind, message: message.into() }
    }

    fn service(status: StatusCode, name: &str, message: impl Into<String>) -> Self {
        let kind = format!("com.amazon.coral.service#{name}");
        Self { status, kind, message: message.into() }
    }

    /// The body is no JSON.
    pub fn not_json() -> Self {
        Self::service(StatusCode::BAD_REQUEST, "SerializationException", "")
    }

    /// An operation that is not played here.
    pub fn unknown_operation(name: &str) -> Self {
        let text = format!(
            "the sandbox plays SendMessage, ChangeMessageVisibility and their batches, not {name}"
        );
        Self::service(StatusCode::BAD_REQUEST, "UnknownOperationException", text)
    }

    /// The signature does not hold.
    pub fn signature(refusal: &Refusal) -> Self {
        Self::service(StatusCode::FORBIDDEN, refusal.code, &refusal.message)
    }

    /// The caller's role has no right to an action.
    pub fn denied(caller: &Caller, action: &str, queue: &str) -> Self {
        let action = action.to_lowercase();
        let text = format!(
            "User: {} is not authorized to perform: sqs:{action} on resource: {queue} because no \
             identity-based policy allows the sqs:{action} action",
            caller.principal.arn()
        );
        Self::service(StatusCode::FORBIDDEN, "AccessDeniedException", text)
    }

    /// SQS has a bad moment.
    pub fn unavailable() -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::service(status, "ServiceUnavailableException", "Service is unavailable")
    }

    /// No such queue in the caller's Region.
    pub fn no_queue() -> Self {
        Self::message("QueueDoesNotExist", "The specified queue does not exist.")
    }

    /// A parameter that is not there.
    pub fn missing_parameter(name: &str) -> Self {
        let text = format!("The request must contain the parameter {name}.");
        Self::message("MissingRequiredParameterException", text)
    }

    /// The answer's body.
    pub fn body(&self) -> Value {
        json!({"__type": self.kind, "message": self.message})
    }
}
