//! The errors of SQS for a whole request: the name of the error in JSON, and its name in the older query protocol, if
//! it differs, in a header.

use axum::http::{HeaderValue, StatusCode};
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
    query: Option<&'static str>,
}

impl Failure {
    fn sqs(name: &str, message: impl Into<String>, query: Option<&'static str>) -> Self {
        let kind = format!("com.amazonaws.sqs#{name}");
        Self { status: StatusCode::BAD_REQUEST, kind, message: message.into(), query }
    }

    fn service(status: StatusCode, name: &str, message: impl Into<String>) -> Self {
        let kind = format!("com.amazon.coral.service#{name}");
        Self { status, kind, message: message.into(), query: None }
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
        let code = "AWS.SimpleQueueService.NonExistentQueue;Sender";
        Self::sqs("QueueDoesNotExist", "The specified queue does not exist.", Some(code))
    }

    /// A parameter that is not there.
    pub fn missing_parameter(name: &str) -> Self {
        let text = format!("The request must contain the parameter {name}.");
        Self::sqs("MissingRequiredParameterException", text, Some("MissingParameter;Sender"))
    }

    /// A message that is empty, too long, or holds what no message may.
    pub fn message(code: &str, message: impl Into<String>) -> Self {
        Self::sqs(code, message, None)
    }

    /// A batch without messages.
    pub fn empty_batch() -> Self {
        let code = "AWS.SimpleQueueService.EmptyBatchRequest;Sender";
        let text = "There should be at least one SendMessageBatchRequestEntry in the request.";
        Self::sqs("EmptyBatchRequest", text, Some(code))
    }

    /// More than ten messages.
    pub fn too_many(sent: usize) -> Self {
        let code = "AWS.SimpleQueueService.TooManyEntriesInBatchRequest;Sender";
        let text = format!("Maximum number of entries per request are 10. You have sent {sent}.");
        Self::sqs("TooManyEntriesInBatchRequest", text, Some(code))
    }

    /// An id that no entry may have.
    pub fn bad_id() -> Self {
        let code = "AWS.SimpleQueueService.InvalidBatchEntryId;Sender";
        let text = "A batch entry id can only contain alphanumeric characters, hyphens and \
                    underscores. It can be at most 80 letters long.";
        Self::sqs("InvalidBatchEntryId", text, Some(code))
    }

    /// Two entries with one id.
    pub fn same_id(id: &str) -> Self {
        let code = "AWS.SimpleQueueService.BatchEntryIdsNotDistinct;Sender";
        Self::sqs("BatchEntryIdsNotDistinct", format!("Id {id} repeated."), Some(code))
    }

    /// All messages together are too long.
    pub fn too_long(limit: usize, sent: usize) -> Self {
        let code = "AWS.SimpleQueueService.BatchRequestTooLong;Sender";
        let text = format!(
            "Batch requests cannot be longer than {limit} bytes. You have sent {sent} bytes."
        );
        Self::sqs("BatchRequestTooLong", text, Some(code))
    }

    /// The answer's body.
    pub fn body(&self) -> Value {
        json!({"__type": self.kind, "message": self.message})
    }

    /// The header for clients that know the older names.
    pub fn query_error(&self) -> Option<HeaderValue> {
        self.query.map(HeaderValue::from_static)
    }
}
