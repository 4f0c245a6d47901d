//! The SQS stand-in: standard queues with SendMessageBatch, ChangeMessageVisibility and its batch in AWS JSON 1.0, with
//! the limits and errors of the service (`messages`). A test makes a `queue`, grants roles access to it, and
//! receives the messages like Lambda's event source mapping.

mod messages;
mod queue;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

pub use self::queue::{Message, Queue};
use super::operation;
use super::sigv4::{Caller, Refusal};

/// The queues of all accounts and Regions; clones share them.
#[derive(Clone, Default)]
pub struct Sqs(Arc<Mutex<BTreeMap<(String, String), Queue>>>);

impl Sqs {
    /// Makes a queue. `path` is that of its URL: `/account/name`.
    pub fn add(&self, region: &str, path: &str, queue: Queue) {
        let key = (region.to_owned(), path.to_owned());
        self.0.lock().expect("no poisoned lock").insert(key, queue);
    }

    /// Answers an operation.
    pub fn answer(&self, operation: &str, caller: &Caller, request: &Request<Bytes>) -> Response {
        match self.perform(operation, caller, request.body()) {
            Ok(answer) => respond(StatusCode::OK, &answer),
            Err(failure) => refuse(&failure),
        }
    }

    fn perform(&self, operation: &str, caller: &Caller, body: &[u8]) -> Result<Value, Failure> {
        let parameters: Value = serde_json::from_slice(body).map_err(|_| Failure::not_json())?;
        let url = parameters["QueueUrl"].as_str();
        let url = url.ok_or_else(|| Failure::missing_parameter("QueueUrl"))?;
        let queue = self.find(&caller.region, url).ok_or_else(Failure::no_queue)?;
        queue.admit(operation, caller)?;
        match operation {
            "SendMessageBatch" => messages::send_batch(&queue, caller, &parameters),
            "ChangeMessageVisibility" => messages::postpone(&queue, &parameters),
            "ChangeMessageVisibilityBatch" => messages::postpone_batch(&queue, &parameters),
            other => Err(Failure::unknown_operation(other)),
        }
    }

    /// The host in the URL does not matter, as the service has several.
    fn find(&self, region: &str, url: &str) -> Option<Queue> {
        let (_, path) = url.split_once("://")?;
        let path = &path[path.find('/')?..];
        let queues = self.0.lock().expect("no poisoned lock");
        queues.get(&(region.to_owned(), path.to_owned())).cloned()
    }
}

/// A request whose signature does not hold.
pub fn refuse_signature(refusal: &Refusal) -> Response {
    refuse(&Failure::signature(refusal))
}

fn refuse(failure: &Failure) -> Response {
    respond(failure.status, &failure.body())
}

fn respond(status: StatusCode, body: &Value) -> Response {
    operation::respond(status, "application/x-amz-json-1.0", body.to_string())
}

/// A request that comes to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub status: StatusCode,
    /// `com.amazonaws.sqs#QueueDoesNotExist`, ...
    pub kind: String,
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
            "the sandbox plays SendMessageBatch, ChangeMessageVisibility and its batch, not {name}"
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

    pub fn body(&self) -> Value {
        json!({"__type": self.kind, "message": self.message})
    }
}

#[cfg(test)]
mod tests;
