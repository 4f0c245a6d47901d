//! What one Lambda payload asks for. Pure: it knows JSON and names, no client and no setting.
//!
//! Data moves one way: payload -> [`Invocation`]. A queue's records are read one by one in
//! `message`: the envelopes come off (`envelope`), the forwarder's record gives a Kubernetes object
//! (`forwarder`), the object gives a [`Scope`] (`object`); the lines of an audit log (`audit_log`)
//! give such objects, too. An event only says where to look; nothing
//! else in it is believed. `events/` holds one payload of every accepted shape.

mod action;
mod audit_log;
mod continuation;
mod direct;
mod envelope;
mod forwarder;
mod kind;
mod message;
mod name;
mod object;
mod scope;
mod unusable;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

pub use action::Action;
pub use continuation::Continuation;
pub use direct::Command;
pub use message::{Message, Receipt};
pub use scope::{ClusterName, Scope};
pub use unusable::Unusable;

/// What one Lambda payload asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// A full sync of every configured cluster.
    Schedule,
    /// A batch of messages, each of which names a scope or is unusable.
    Queue(Vec<Message>),
    /// Lines of an audit log, each of which names a scope or is unusable.
    AuditLog(Vec<Message>),
    /// A command of whoever invoked the function directly.
    Direct(Command),
}

/// Why a payload as a whole cannot be served. Names what would be right; never holds a value of the
/// payload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Neither a schedule nor a batch nor an audit log nor a command.
    #[error(
        "the payload is neither a scheduled event nor an SQS batch nor an audit log nor a command; \
         a command is an object such as {{\"action\":\"sync\",\"cluster\":\"blue\"}}"
    )]
    UnknownPayload,
    /// An EventBridge event that is no schedule.
    #[error(
        "only scheduled EventBridge events may invoke the function; \
         let the rule send other events to its SQS queue"
    )]
    EventNotScheduled,
    /// Records that are not SQS records as Lambda makes them.
    #[error(
        "the payload has records, but not of SQS (eventSource \"aws:sqs\", each with a messageId); \
         let the sender use the function's SQS queue"
    )]
    RecordsNotFromSqs,
    /// A CloudWatch Logs subscription whose data cannot be unpacked.
    #[error(
        "the payload's awslogs.data is no gzipped batch of log events as CloudWatch Logs sends it"
    )]
    LogsNotReadable,
    /// A CloudWatch Logs subscription of something else than an EKS cluster's control plane.
    #[error(
        "the log events are of no EKS cluster's log group (/aws/eks/NAME/cluster); \
         let only the subscription of an audit log invoke the function"
    )]
    LogsNotOfCluster,
    /// A command's action that does not exist.
    #[error("the command's action is unknown; known are {}", Action::list())]
    UnknownAction,
    /// Fields that a command does not have.
    #[error(
        "the command has unknown fields ({}); known are {}",
        .fields.join(", "),
        .known.join(", ")
    )]
    UnknownFields {
        /// Their names, escaped and shortened.
        fields: Vec<String>,
        /// Those that it may have.
        known: &'static [&'static str],
    },
    /// A field of a command with a value that it cannot have.
    #[error("the command's {field} must be {expected}")]
    InvalidField {
        /// The field.
        field: &'static str,
        /// What would be right.
        expected: &'static str,
    },
    /// A command's cluster, namespace or service that cannot be one.
    #[error("the command names no valid scope")]
    Scope(#[source] Unusable),
}

/// Reads a payload.
///
/// # Errors
/// When the payload as a whole is of no known kind. A bad SQS record is no error: it is an
/// [`Unusable`] reading beside the others.
pub fn read(payload: &Value) -> Result<Invocation, Error> {
    let object = payload.as_object().ok_or(Error::UnknownPayload)?;
    if object.contains_key("Records") {
        return message::read_batch(payload).map(Invocation::Queue);
    }
    if object.contains_key("detail-type") {
        return if is_schedule(object) {
            Ok(Invocation::Schedule)
        } else {
            Err(Error::EventNotScheduled)
        };
    }
    if object.contains_key("awslogs") {
        return audit_log::read(object).map(Invocation::AuditLog);
    }
    if object.contains_key("action") {
        return direct::read(object).map(Invocation::Direct);
    }
    Err(Error::UnknownPayload)
}

/// EventBridge rules send an empty object as `detail`, EventBridge Scheduler the string `{}`; a
/// schedule has nothing to say there, so it is not looked at.
fn is_schedule(event: &Map<String, Value>) -> bool {
    let field = |name: &str| event.get(name).and_then(Value::as_str);
    field("detail-type") == Some("Scheduled Event")
        && matches!(field("source"), Some("aws.events" | "aws.scheduler"))
}
