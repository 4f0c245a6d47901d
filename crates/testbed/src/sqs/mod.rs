//! The SQS stand-in: standard queues with SendMessage, ChangeMessageVisibility and their batches in AWS JSON 1.0, with
//! the limits and errors of the service (`send`, `receive`, `error`). A test makes a `queue`, grants roles access to
//! it, and receives the messages like Lambda's event source mapping (`lambda`).

pub mod error;
pub mod lambda;
pub mod queue;
mod receive;
mod send;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use serde_json::Value;

use self::error::Failure;
use self::queue::Queue;
use super::sigv4::{Caller, Refusal};

/// How a request names an operation of SQS.
pub const TARGET: &str = "AmazonSQS.";

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
            "SendMessage" => send::one(&queue, caller, &parameters),
            "SendMessageBatch" => send::batch(&queue, caller, &parameters),
            "ChangeMessageVisibility" => receive::one(&queue, &parameters),
            "ChangeMessageVisibilityBatch" => receive::batch(&queue, &parameters),
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
    let builder = Response::builder().status(status);
    let builder = builder.header("content-type", "application/x-amz-json-1.0");
    builder.body(Body::from(body.to_string())).expect("valid headers")
}

#[cfg(test)]
mod tests;
