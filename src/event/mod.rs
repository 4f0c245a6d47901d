//! Reads the request in a Lambda payload. Pure: JSON and names, without clients and settings.
//!
//! Data moves one way: payload -> [`Payload`]. `message` reads the records of a queue one by one and opens envelopes,
//! `third_party_forwarders` finds the Kubernetes object in a forwarder's record, and `object` derives the [`Scope`]
//! from it. `audit_log` reads audit lines, which reference Kubernetes objects; `direct` reads commands. From an event,
//! only the scope is used; all other content is untrusted and ignored. `events/` has one payload of every accepted
//! format.

mod audit_log;
mod direct;
mod message;
mod object;
mod third_party_forwarders;

#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};
use serde_with::SerializeDisplay;

pub use direct::{Action, Command};
pub use message::{Message, Receipt, Unusable};

/// The request in one Lambda payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A full sync of every configured cluster.
    Schedule,
    /// A batch of messages from the SQS queue, each of which has a scope or is unusable.
    Queue(Vec<Message>),
    /// Lines of an audit log, each of which has a scope or is unusable.
    AuditLog(Vec<Message>),
    /// A command of a direct invocation.
    Direct(Command),
}

/// The error of a payload that is rejected as a whole. It names the expected content and contains no value of the
/// payload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a scheduled event, an SQS batch, an audit log or a command.
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
    /// Records that lack the fields of SQS records.
    #[error(
        "the payload has records that are not from SQS (eventSource \"aws:sqs\", each with a messageId); \
         send to the function's SQS queue"
    )]
    RecordsNotFromSqs,
    /// A CloudWatch Logs subscription with unreadable data.
    #[error("the payload's awslogs.data is not a gzipped batch of log events from CloudWatch Logs")]
    LogsNotReadable,
    /// A CloudWatch Logs subscription of a log group that does not belong to an EKS cluster's control plane.
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
        /// The names of the unknown fields, escaped and shortened.
        fields: Vec<String>,
        /// The fields that the action allows.
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
/// Returns an error if the payload as a whole is rejected. A record without a usable scope becomes an [`Unusable`]
/// message.
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

/// Ignores `detail`: EventBridge rules send an empty object there, and EventBridge Scheduler sends the string `{}`.
fn is_schedule(event: &Map<String, Value>) -> bool {
    let field = |name: &str| event.get(name).and_then(Value::as_str);
    field("detail-type") == Some("Scheduled Event")
        && matches!(field("source"), Some("aws.events" | "aws.scheduler"))
}

// The scope of an event: a cluster, optionally a Kubernetes namespace in it, optionally a Service in that. The syntax
// of names is checked here; whether they exist is checked when the cluster is read.

/// The cluster of a scope, as an event names it.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, SerializeDisplay, thiserror::Error,
)]
pub enum ClusterName {
    /// Every configured cluster: a `sync` or `plan` without a scope.
    #[error("every cluster")]
    Every,
    /// The only configured cluster: the event has a namespace and no cluster. This scope is rejected if several
    /// clusters are configured.
    #[error("the only cluster")]
    Only,
    /// An EKS cluster's name or ARN, as given by the sender.
    #[error("{0}")]
    Named(String),
}

impl ClusterName {
    /// Parses a cluster's name or ARN.
    ///
    /// # Errors
    /// Returns an error if `text` is not a valid cluster name or ARN.
    pub fn parse(text: &str) -> Result<Self, Unusable> {
        object::check_cluster(text).map(Self::Named)
    }
}

/// The part of the clusters that a payload is about. A scope with a Service always has a namespace. A scope of
/// [`ClusterName::Every`] has neither.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Scope {
    /// The cluster.
    pub cluster: ClusterName,
    /// The Kubernetes namespace; `None` for the whole cluster.
    pub namespace: Option<String>,
    /// The Kubernetes Service; `None` for the whole namespace.
    pub service: Option<String>,
}

impl Scope {
    /// Every Service of every configured cluster.
    pub fn every() -> Self {
        Self { cluster: ClusterName::Every, namespace: None, service: None }
    }

    /// Reads the fields `cluster`, `namespace` and `service`. An empty name is an error: as absent, it would widen the
    /// scope.
    fn from_fields(object: &Map<String, Value>) -> Result<Self, Unusable> {
        let cluster = object::read_text(object, "cluster", object::check_cluster)?;
        let namespace = object::read_text(object, "namespace", object::check_namespace)?;
        let service = object::read_text(object, "service", object::check_service)?;
        match (namespace, service) {
            (Some(namespace), service) => Ok(Self::inside(namespace, service).in_cluster(cluster)),
            (None, None) => Ok(Self::every().in_cluster(cluster)),
            (None, Some(_)) => Err(Unusable::IncompleteScope { missing: "namespace" }),
        }
    }

    /// A namespace or one Service of it, without the cluster's name.
    fn inside(namespace: String, service: Option<String>) -> Self {
        let namespace = Some(namespace);
        Self { cluster: ClusterName::Only, namespace, service }
    }

    /// Sets the cluster, unless the scope already has one.
    fn in_cluster(mut self, name: Option<String>) -> Self {
        if let (ClusterName::Every | ClusterName::Only, Some(name)) = (&self.cluster, name) {
            self.cluster = ClusterName::Named(name);
        }
        self
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cluster.fmt(f)?;
        for name in [&self.namespace, &self.service].into_iter().flatten() {
            write!(f, "/{name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod scope_tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Result<Scope, Unusable> {
        Scope::from_fields(value.as_object().expect("an object"))
    }

    #[test]
    fn named_fields_print_as_a_path() {
        let rows = [
            (json!({}), "every cluster"),
            (json!({"cluster": "blue"}), "blue"),
            (json!({"cluster": "blue", "namespace": "shop"}), "blue/shop"),
            (json!({"cluster": "blue", "namespace": "shop", "service": "web"}), "blue/shop/web"),
            (json!({"namespace": "shop"}), "the only cluster/shop"),
            (json!({"namespace": "shop", "service": "web"}), "the only cluster/shop/web"),
            (
                json!({"cluster": null, "namespace": "shop", "service": null}),
                "the only cluster/shop",
            ),
        ];
        for (fields, printed) in rows {
            assert_eq!(read(&fields).map(|s| s.to_string()), Ok(printed.to_owned()));
        }
    }

    #[test]
    fn a_service_without_its_namespace_is_incomplete() {
        assert_eq!(
            read(&json!({"cluster": "blue", "service": "web"})),
            Err(Unusable::IncompleteScope { missing: "namespace" })
        );
    }

    #[test]
    fn an_empty_or_foreign_typed_name_never_widens_the_scope() {
        for field in ["cluster", "namespace", "service"] {
            for bad in [json!(""), json!(7), json!(["web"]), json!({}), json!("a\nb")] {
                let mut fields = json!({"cluster": "blue", "namespace": "shop", "service": "web"});
                fields[field] = bad;
                let reading = read(&fields);
                assert!(
                    matches!(reading, Err(Unusable::InvalidName { field: named, .. }) if named == field),
                    "{fields}: {reading:?}"
                );
            }
        }
    }

    #[test]
    fn a_cluster_named_inside_wins_over_one_named_outside() {
        let outside = Some("green".to_owned());
        let named = read(&json!({"cluster": "blue", "namespace": "shop"})).expect("a scope");
        assert_eq!(named.in_cluster(outside.clone()).to_string(), "blue/shop");
        let unnamed = read(&json!({"namespace": "shop"})).expect("a scope");
        assert_eq!(unnamed.in_cluster(outside).to_string(), "green/shop");
    }

    #[test]
    fn scopes_serialise_without_absent_names() {
        let scope = read(&json!({"cluster": "blue", "namespace": "shop"})).expect("a scope");
        assert_eq!(
            serde_json::to_value(scope).expect("JSON"),
            json!({"cluster": "blue", "namespace": "shop"})
        );
        assert_eq!(
            serde_json::to_value(Scope::every()).expect("JSON"),
            json!({"cluster": "every cluster"})
        );
    }
}
