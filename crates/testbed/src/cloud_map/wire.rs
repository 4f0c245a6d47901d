//! The JSON 1.1 protocol: reads the members of a request, a POST to `/` whose signature the AWS endpoint has checked, and
//! formats replies and damaged replies.
//!
//! The error replies of Cloud Map: a name, an HTTP status, a message and sometimes further members. `body` formats one
//! for the JSON protocol. Modelled errors have the member `Message`, throttles and other errors of the front end
//! `message`; both are sent, since clients read either. Every refusal is a 400, whatever the model says: no other
//! status was ever recorded over JSON (kubernetes-sigs/external-dns 5134 and 5180 have a DuplicateRequest and a
//! NamespaceNotFound).
//!
//! Assumed (no case): the words of a message that has no source here, which nothing may depend on.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode, header};
use axum::response::Response;
use serde_json::{Map, Value};

use crate::aws_fault::{broken, reset};

const CONTENT_TYPE: &str = "application/x-amz-json-1.1";
const DISCOVERY_PREFIX: &str = "data-";

/// A request that the protocol accepts.
pub struct Accepted {
    pub operation: String,
    pub on_data_host: bool,
    pub members: Map<String, Value>,
}

/// Reads a request, or says why the front end refuses it.
pub fn accept(operation: &str, request: &Request<Bytes>) -> Checked<Accepted> {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let content_type = header("content-type").and_then(|value| value.split(';').next());
    let is_posted = request.method() == "POST" && request.uri().path() == "/";
    if !is_posted || content_type != Some(CONTENT_TYPE) {
        return Err(unknown_operation());
    }
    let Ok(Value::Object(members)) = serde_json::from_slice(request.body()) else {
        return Err(ApiError::new(400, "SerializationException", "The body is not a JSON object"));
    };
    let host = header("host").or(request.uri().host()).unwrap_or_default();
    let on_data_host = host.starts_with(DISCOVERY_PREFIX);
    Ok(Accepted { operation: operation.to_owned(), on_data_host, members })
}

/// The error for an operation that this host does not know.
/// Assumed (no case): the name of this error, which other services of AWS have. The client of the suite sends no such
/// request.
pub fn unknown_operation() -> ApiError {
    ApiError::new(
        400,
        "UnknownOperationException",
        "The requested operation is not known to this host",
    )
}

/// An answer before it is put on the wire.
pub struct Answer {
    pub status: u16,
    pub body: Value,
    pub damage: Damage,
    pub wait: Duration,
    pub request_id: String,
}

/// What happens to an answer on its way.
#[derive(PartialEq)]
pub enum Damage {
    None,
    /// Only half of the body, in a message that is whole.
    Half,
    /// Half of the body, then the connection ends.
    Cut,
    /// The connection ends before the body.
    Reset,
}

impl Answer {
    /// The HTTP response; an operation without output has an empty body.
    pub fn into_response(self) -> Response {
        let whole = if self.body.is_null() { String::new() } else { self.body.to_string() };
        let half = Bytes::copy_from_slice(&whole.as_bytes()[..whole.len() / 2]);
        let body = match self.damage {
            Damage::None => Body::from(whole),
            Damage::Half => Body::from(half),
            Damage::Cut => broken(vec![Ok(half), Err(reset())]),
            Damage::Reset => broken(vec![Err(reset())]),
        };
        Response::builder()
            .status(StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
            .header(header::CONTENT_TYPE, CONTENT_TYPE)
            .header("x-amzn-requestid", self.request_id)
            .body(body)
            .expect("the status and the two headers are well formed")
    }
}

/// What an operation answers, or what is read of its request: null is an output that is not even an empty object.
pub type Checked<T> = Result<T, ApiError>;

/// One error answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    pub status: u16,
    pub name: &'static str,
    pub message: String,
    members: Vec<(&'static str, String)>,
}

impl ApiError {
    /// An error of any name, as the common errors of all AWS services are.
    pub fn new(status: u16, name: &'static str, message: impl Into<String>) -> Self {
        Self { status, name, message: message.into(), members: Vec::new() }
    }

    /// The request breaks a rule that can be seen without doing it.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "InvalidInput", message)
    }

    /// A member of the request breaks a constraint of the service model.
    pub fn constraint(member: &str, value: &str, constraint: &str) -> Self {
        let mut camel = member.to_owned();
        if let Some(first) = camel.get_mut(0..1) {
            first.make_ascii_lowercase();
        }
        Self::invalid(format!(
            "1 validation error detected: Value '{value}' at '{camel}' failed to satisfy constraint: {constraint}"
        ))
    }

    /// The named thing is not there; `name` is the error's own name.
    pub fn missing(name: &'static str, what: &str) -> Self {
        Self::new(400, name, format!("{what} does not exist"))
    }

    /// Another thing stands in the way of this change.
    pub fn in_use(message: impl Into<String>) -> Self {
        Self::new(400, "ResourceInUse", message)
    }

    /// A quota of the account is used up.
    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(400, "ResourceLimitExceeded", message)
    }

    /// The status that the service model gives it: a switch, since no record over JSON has another than 400.
    pub fn status_of_the_model(&self) -> u16 {
        match self.name {
            "RequestLimitExceeded" => 429,
            "DuplicateRequest" | "ResourceInUse" => 409,
            name if name.ends_with("NotFound") || name == "ResourceNotFoundException" => 404,
            _ => self.status,
        }
    }

    /// An operation on the same thing is in flight, or has ended a moment ago. The words are those that external-dns
    /// 5134, a log of Terraform of 2023 and badmintoncryer/cdk-preflight (bench/verify-rule.test.sh) recorded.
    pub fn duplicate(call: &str, operation: &str, state: &str) -> Self {
        let message = format!("Another operation of type {call} and id {operation} {state}");
        Self::new(400, "DuplicateRequest", message).with("DuplicateOperationId", operation)
    }

    /// The internal error without a name.
    pub fn unnamed() -> Self {
        Self::new(500, "", "")
    }

    /// Adds a member beside the message.
    pub fn with(mut self, member: &'static str, value: &str) -> Self {
        self.members.push((member, value.to_owned()));
        self
    }

    /// The JSON body.
    pub fn body(&self) -> Value {
        let mut body = Map::new();
        if self.name.is_empty() {
            return Value::Object(body);
        }
        body.insert("__type".into(), self.name.into());
        body.insert("Message".into(), self.message.clone().into());
        body.insert("message".into(), self.message.clone().into());
        for (member, value) in &self.members {
            body.insert((*member).into(), value.clone().into());
        }
        Value::Object(body)
    }
}
