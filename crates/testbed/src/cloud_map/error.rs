//! The error replies of Cloud Map: a name, an HTTP status, a message and sometimes further members. `body` formats one
//! for the JSON protocol. Modelled errors have the member `Message`, throttles and other errors of the front end
//! `message`; both are sent, since clients read either. Every refusal is a 400, whatever the model says: no other
//! status was ever recorded over JSON (kubernetes-sigs/external-dns 5134 and 5180 have a DuplicateRequest and a
//! NamespaceNotFound).
//!
//! Assumed (no case): the words of a message that has no source here, which nothing may depend on.

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

    /// The status that the service model gives it: a switch, since no record over JSON has another than 400.
    pub(super) fn status_of_the_model(&self) -> u16 {
        match self.name {
            "RequestLimitExceeded" => 429,
            "DuplicateRequest" | "ResourceInUse" => 409,
            name if name.ends_with("NotFound") || name == "ResourceNotFoundException" => 404,
            _ => self.status,
        }
    }

    /// An operation on the same thing is in flight, or has ended a moment ago. The words are those that external-dns
    /// 5134, a log of Terraform of 2023 and badmintoncryer/cdk-preflight (bench/verify-rule.test.sh) recorded.
    pub(super) fn duplicate(call: &str, operation: &str, state: &str) -> Self {
        let message = format!("Another operation of type {call} and id {operation} {state}");
        Self::new(400, "DuplicateRequest", message).with("DuplicateOperationId", operation)
    }

    /// The internal error without a name.
    pub(super) fn unnamed() -> Self {
        Self::new(500, "", "")
    }

    /// Adds a member beside the message.
    pub(super) fn with(mut self, member: &'static str, value: &str) -> Self {
        self.members.push((member, value.to_owned()));
        self
    }

    /// The JSON body.
    pub(super) fn body(&self) -> Value {
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
