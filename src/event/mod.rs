//! Reads the request in a Lambda payload. Pure: JSON and names, without clients and settings.
//!
//! Data moves one way: payload -> [`Payload`]. `message` reads the records of a queue one by one and opens envelopes,
//! `forwarder` finds the Kubernetes object in a forwarder's record, and `object` derives the [`Scope`] from it. The lines
//! of an audit log (`audit_log`) also contain such objects. An event about a change in Cloud Map (`drift`) names a
//! service there. Only that is used of an event; its other content is not trusted. `events/` has one payload of every
//! accepted format.

mod audit_log;
mod direct;
mod drift;
mod forwarder;
mod message;
mod object;
mod scope;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

pub use direct::{Action, Command};
pub use drift::Drift;
pub use message::{Message, Receipt, Subject, Unusable};
pub use scope::{ClusterName, Scope};

/// The request in one Lambda payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A full sync of every configured cluster.
    Schedule,
    /// A batch of messages, each of which names a scope or is unusable.
    Queue(Vec<Message>),
    /// Lines of an audit log, each of which names a scope or is unusable.
    AuditLog(Vec<Message>),
    /// A command of a direct invocation.
    Direct(Command),
}

/// The error of a payload that is rejected as a whole. It names the expected content and contains no value of the
/// payload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Neither a schedule nor a batch, an audit log or a command.
    #[error(
        "the payload is neither a scheduled event nor an SQS batch nor an audit log nor a command; \
         a command is an object such as {{\"action\":\"sync\",\"cluster\":\"blue\"}}"
    )]
    UnknownPayload,
    /// An EventBridge event other than a schedule.
    #[error(
        "only scheduled EventBridge events may invoke the function; \
         send other events to its SQS queue"
    )]
    EventNotScheduled,
    /// Records without the fields of SQS records from Lambda.
    #[error(
        "the payload has records that are not from SQS (eventSource \"aws:sqs\", each with a messageId); \
         send to the function's SQS queue"
    )]
    RecordsNotFromSqs,
    /// A CloudWatch Logs subscription with unreadable data.
    #[error("the payload's awslogs.data is not a gzipped batch of log events from CloudWatch Logs")]
    LogsNotReadable,
    /// A CloudWatch Logs subscription of a log group that is not of an EKS cluster's control plane.
    #[error(
        "the log events are not from an EKS cluster's log group (/aws/eks/NAME/cluster); \
         only the subscription of an audit log may invoke the function"
    )]
    LogsNotOfCluster,
    /// A command with an unknown action.
    #[error("the command's action is unknown; known actions: {}", Action::list())]
    UnknownAction,
    /// A command with unknown fields.
    #[error(
        "the command has unknown fields ({}); known fields: {}",
        .fields.join(", "),
        .known.join(", ")
    )]
    UnknownFields {
        /// Their names, escaped and shortened.
        fields: Vec<String>,
        /// The fields that it may have.
        known: &'static [&'static str],
    },
    /// A command with an invalid value.
    #[error("the command's {field} must be {expected}")]
    InvalidField {
        /// The field.
        field: &'static str,
        /// The expected value.
        expected: &'static str,
    },
    /// An invalid cluster, namespace or service in a command.
    #[error("the command has no valid scope")]
    Scope(#[source] Unusable),
}

/// Reads a payload.
///
/// # Errors
/// Returns an error if the kind of the whole payload is unknown. An invalid SQS record becomes an [`Unusable`] message.
pub fn read(payload: &Value) -> Result<Payload, Error> {
    let object = payload.as_object().ok_or(Error::UnknownPayload)?;
    if object.contains_key("Records") {
        return message::read_batch(payload).map(Payload::Queue);
    }
    if object.contains_key("detail-type") {
        return is_schedule(object).then_some(Payload::Schedule).ok_or(Error::EventNotScheduled);
    }
    if object.contains_key("awslogs") {
        return audit_log::read(object).map(Payload::AuditLog);
    }
    if object.contains_key("action") {
        return direct::read(object).map(Payload::Direct);
    }
    Err(Error::UnknownPayload)
}

/// Ignores `detail`: EventBridge rules send an empty object there, and EventBridge Scheduler the string `{}`.
fn is_schedule(event: &Map<String, Value>) -> bool {
    let field = |name: &str| event.get(name).and_then(Value::as_str);
    field("detail-type") == Some("Scheduled Event")
        && matches!(field("source"), Some("aws.events" | "aws.scheduler"))
}
