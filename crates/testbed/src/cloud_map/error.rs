//! The error replies of Cloud Map: a name, an HTTP status, a message and sometimes further members. `body` formats one
//! for the JSON protocol. Modelled errors have the member `Message`, throttles and other errors of the front end
//! `message`; both are sent, since clients read either.
//!
//! An error of the caller has the status 400, as in all recorded answers, though the service model has others.
//!
//! Assumed (no case): the words of a message without a case, which nothing may depend on; names and members have a source.

use serde_json::{Map, Value};

/// One error answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ApiError {
    pub(super) status: u16,
    pub(super) name: &'static str,
    pub(super) message: String,
    members: Vec<(&'static str, String)>,
}

impl ApiError {
    /// An error of any name, as the common errors of all AWS services are.
    pub(super) fn new(status: u16, name: &'static str, message: impl Into<String>) -> Self {
        Self { status, name, message: message.into(), members: Vec::new() }
    }

    /// The request breaks a rule that can be seen without doing it.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "InvalidInput", message)
    }

    /// A member of the request breaks a constraint of the service model.
    pub(super) fn constraint(member: &str, value: &str, constraint: &str) -> Self {
        let mut camel = member.to_owned();
        if let Some(first) = camel.get_mut(0..1) {
            first.make_ascii_lowercase();
        }
        Self::invalid(format!(
            "1 validation error detected: Value '{value}' at '{camel}' failed to satisfy constraint: {constraint}"
        ))
    }

    /// The named thing is not there; `name` is the error's own name.
    pub(super) fn missing(name: &'static str, what: &str) -> Self {
        Self::new(400, name, format!("{what} does not exist"))
    }

    /// Another thing stands in the way of this change.
    pub(super) fn in_use(message: impl Into<String>) -> Self {
        Self::new(400, "ResourceInUse", message)
    }

    /// A quota of the account is used up.
    pub(super) fn limit(message: impl Into<String>) -> Self {
        Self::new(400, "ResourceLimitExceeded", message)
    }

    /// An operation on the same thing is still in flight.
    pub(super) fn duplicate(call: &str, operation: &str) -> Self {
        let message = format!("Another operation of type {call} and id {operation} is in progress");
        Self::new(400, "DuplicateRequest", message).with("DuplicateOperationId", operation)
    }

    /// The status that the service model gives it.
    pub(super) fn status_of_the_model(&self) -> u16 {
        match self.name {
            "RequestLimitExceeded" => 429,
            "DuplicateRequest" | "ResourceInUse" => 409,
            name if name.ends_with("NotFound") || name == "ResourceNotFoundException" => 404,
            _ => self.status,
        }
    }

    /// Adds a member beside the message.
    pub(super) fn with(mut self, member: &'static str, value: &str) -> Self {
        self.members.push((member, value.to_owned()));
        self
    }

    /// The JSON body.
    pub(super) fn body(&self) -> Value {
        let mut body = Map::new();
        body.insert("__type".into(), self.name.into());
        body.insert("Message".into(), self.message.clone().into());
        body.insert("message".into(), self.message.clone().into());
        for (member, value) in &self.members {
            body.insert((*member).into(), value.clone().into());
        }
        Value::Object(body)
    }
}
