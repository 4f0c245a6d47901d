//! Reads an SQS batch, record by record: body -> opened envelopes -> a forwarder's record or a scope's fields -> scope.
//! An invalid record gets a reason and does not affect the other records. The only text of the message that a reason
//! may contain is a validated kind, so reasons are safe to log and count.
//!
//! The envelopes are an SNS notification without raw delivery, an EventBridge event, and a CloudEvent in structured
//! mode. Each is recognized by its fields. Its content is returned, and parsed if it is text.

use std::borrow::Cow;

use aws_lambda_events::sqs::{SqsEvent, SqsMessage};
use base64::engine::{Engine, general_purpose};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Action, Error, Scope, object, third_party_forwarders};

/// The maximum number of nested envelopes. EventBridge to SNS to SQS makes two.
const ENVELOPE_LIMIT: usize = 5;

/// One SQS record, or one line of an audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its id, by which the response reports its failure to the queue.
    pub id: String,
    /// This delivery of the message; `None` for a line of an audit log, or if the record lacks the fields.
    pub receipt: Option<Receipt>,
    /// Its scope, or the reason why it has none.
    pub reading: Result<Scope, Unusable>,
}

/// One delivery of a message by its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The queue's handle of the delivery.
    pub handle: String,
    /// The number of deliveries, including this one.
    pub receives: u32,
}

impl Receipt {
    fn from_record(record: &SqsMessage) -> Option<Self> {
        let receives = record.attributes.get("ApproximateReceiveCount")?.parse().ok()?;
        let handle = record.receipt_handle.clone().filter(|handle| !handle.is_empty())?;
        Some(Self { handle, receives })
    }
}

/// Reads a batch in the format of Lambda's event source mapping. It may be empty.
pub(super) fn read_batch(payload: &Value) -> Result<Vec<Message>, Error> {
    let batch = SqsEvent::deserialize(payload).map_err(|_| Error::RecordsNotFromSqs)?;
    batch.records.into_iter().map(read_record).collect()
}

fn read_record(record: SqsMessage) -> Result<Message, Error> {
    let from_sqs = record.event_source.as_deref() == Some("aws:sqs");
    let receipt = Receipt::from_record(&record);
    let id = record.message_id.filter(|id| from_sqs && !id.is_empty());
    let content = serde_json::from_str(&record.body.unwrap_or_default());
    Ok(Message {
        id: id.ok_or(Error::RecordsNotFromSqs)?,
        receipt,
        reading: content
            .map_or(Err(Unusable::NotJson), |content| read_content(&content, ENVELOPE_LIMIT)),
    })
}

fn read_content(content: &Value, envelopes_left: usize) -> Result<Scope, Unusable> {
    let Some(Opened { content, cluster }) = open(content)? else {
        let object = content.as_object().ok_or(Unusable::UnknownShape)?;
        // An exporter's record may also have a field `action`, so forwarders come first.
        return third_party_forwarders::read(object).unwrap_or_else(|| read_scope(object));
    };
    let envelopes_left =
        envelopes_left.checked_sub(1).ok_or(Unusable::TooDeep { limit: ENVELOPE_LIMIT })?;
    Ok(read_content(&content, envelopes_left)?.in_cluster(cluster))
}

/// `{"cluster"?,"namespace","service"?}` or `{"action":"sync","cluster"?}`. Other fields are ignored, since a message
/// can only select a scope; `confirm` and other actions are rejected.
fn read_scope(object: &Map<String, Value>) -> Result<Scope, Unusable> {
    if object.contains_key("confirm") {
        return Err(Unusable::ActionNotAllowed { action: "confirm" });
    }
    if let Some(action) = object.get("action") {
        check_action(action)?;
        return Scope::from_fields(object);
    }
    if !["cluster", "namespace", "service"].iter().any(|field| object.contains_key(*field)) {
        return Err(Unusable::UnknownShape);
    }
    let scope = Scope::from_fields(object)?;
    match scope.namespace {
        Some(_) => Ok(scope),
        // A sync of a whole cluster must be requested by an action.
        None => Err(Unusable::IncompleteScope { missing: "namespace" }),
    }
}

/// Allows only `sync`. Other actions require a direct invocation, since more senders may write to the queue than may
/// invoke the function.
fn check_action(action: &Value) -> Result<(), Unusable> {
    match action.as_str().and_then(Action::parse) {
        Some(Action::Sync) => Ok(()),
        Some(action) => Err(Unusable::ActionNotAllowed { action: action.as_str() }),
        None => Err(Unusable::UnknownAction),
    }
}

/// The extensions of a CloudEvent that may name the cluster. CloudEvents allows only a-z and 0-9 in extension names.
const CLUSTER_EXTENSIONS: [&str; 2] = ["cluster", "clustername"];

/// The content of an envelope.
#[derive(Debug)]
pub(super) struct Opened<'a> {
    pub(super) content: Cow<'a, Value>,
    /// The cluster, if the envelope names one.
    pub(super) cluster: Option<String>,
}

/// Opens an envelope. Returns `None` if the value is not an envelope.
pub(super) fn open(value: &Value) -> Result<Option<Opened<'_>>, Unusable> {
    let Some(object) = value.as_object() else {
        return Ok(None);
    };
    let field = |name: &str| object.get(name).and_then(Value::as_str);
    let notified = field("Message").filter(|_| field("Type") == Some("Notification"));
    let detail =
        object.get("detail").filter(|_| field("source").and(field("detail-type")).is_some());
    let content = match (notified, detail) {
        (Some(message), _) => parse(message.as_bytes())?,
        (None, Some(detail)) => parse_text(detail)?,
        _ if field("specversion").and(field("type")).is_some() => {
            return open_cloud_event(object).map(Some);
        }
        _ => return Ok(None),
    };
    Ok(Some(Opened { content, cluster: None }))
}

fn open_cloud_event(event: &Map<String, Value>) -> Result<Opened<'_>, Unusable> {
    let content = match (event.get("data"), event.get("data_base64")) {
        (Some(data), _) => parse_text(data)?,
        (None, Some(Value::String(encoded))) => {
            parse(&general_purpose::STANDARD.decode(encoded).map_err(|_| Unusable::NotJson)?)?
        }
        _ => return Err(Unusable::UnknownShape),
    };
    let [cluster, name] = CLUSTER_EXTENSIONS;
    let cluster = match object::read_text(event, cluster, object::check_cluster)? {
        None => object::read_text(event, name, object::check_cluster)?,
        cluster => cluster,
    };
    Ok(Opened { content, cluster })
}

/// Parses content that some senders pass as JSON text instead of an object.
fn parse_text(content: &Value) -> Result<Cow<'_, Value>, Unusable> {
    match content {
        Value::String(text) => parse(text.as_bytes()),
        other => Ok(Cow::Borrowed(other)),
    }
}

fn parse<'a>(text: &[u8]) -> Result<Cow<'a, Value>, Unusable> {
    serde_json::from_slice(text).map(Cow::Owned).map_err(|_| Unusable::NotJson)
}

/// The reason that a message is unusable. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The body, or the text inside an envelope, is not JSON.
    #[error("the message, or the content of its envelope, is not JSON")]
    NotJson,
    /// JSON in the format of no known sender.
    #[error("the message has none of the known shapes")]
    UnknownShape,
    /// More nested envelopes than any sender makes intentionally.
    #[error("the message is wrapped in more than {limit} envelopes")]
    TooDeep {
        /// The maximum number of envelopes that are opened.
        limit: usize,
    },
    /// An object of a kind whose changes are not followed.
    #[error("objects of kind {kind} are not followed")]
    UnknownKind {
        /// The kind, with its API group after a dot if it has one.
        kind: String,
    },
    /// An object that this function wrote for an import. Such a message is not reported.
    #[error("the object belongs to an import")]
    Imported,
    /// An Event that this function created. Such a message is not reported.
    #[error("the Event is one of this function")]
    OwnEvent,
    /// An action that only a direct invocation may request.
    #[error("{action} is only allowed by direct invocation")]
    ActionNotAllowed {
        /// The action.
        action: &'static str,
    },
    /// An action that does not exist.
    #[error("the message's action is unknown; a message may only request sync")]
    UnknownAction,
    /// A part of the scope is absent.
    #[error("the {missing} is missing")]
    IncompleteScope {
        /// The absent field.
        missing: &'static str,
    },
    /// A text that is not a valid name.
    #[error("the {field} is not a valid name: expected {expected}")]
    InvalidName {
        /// The field.
        field: &'static str,
        /// The expected value.
        expected: &'static str,
    },
}

impl Unusable {
    /// The reason's stable code, for metrics and log filters.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotJson => "not_json",
            Self::UnknownShape => "unknown_shape",
            Self::TooDeep { .. } => "too_deep",
            Self::UnknownKind { .. } => "unknown_kind",
            Self::Imported => "imported",
            Self::OwnEvent => "own_event",
            Self::ActionNotAllowed { .. } => "action_not_allowed",
            Self::UnknownAction => "unknown_action",
            Self::IncompleteScope { .. } => "incomplete_scope",
            Self::InvalidName { .. } => "invalid_name",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: &Value) -> Result<String, &'static str> {
        read_body(&body.to_string())
            .map(|scope| scope.to_string())
            .map_err(|unusable| unusable.reason())
    }

    fn read_body(body: &str) -> Result<Scope, Unusable> {
        let mut record = SqsMessage::default();
        record.message_id = Some("1".to_owned());
        record.event_source = Some("aws:sqs".to_owned());
        record.body = Some(body.to_owned());
        read_record(record).expect("a record").reading
    }

    fn in_sns(body: &Value) -> Value {
        json!({"Type": "Notification", "Message": body.to_string()})
    }

    #[test]
    fn message_names_a_scope_or_requests_a_sync() {
        let rows = [
            (
                json!({"cluster": "blue", "namespace": "shop", "service": "web"}),
                Ok("blue/shop/web"),
            ),
            (json!({"namespace": "shop", "sender": "pipeline"}), Ok("the only cluster/shop")),
            (json!({"action": "sync"}), Ok("every cluster")),
            (json!({"action": "sync", "cluster": "green"}), Ok("green")),
            (json!({"action": "sync", "namespace": "shop"}), Ok("the only cluster/shop")),
            (json!({"cluster": "blue"}), Err("incomplete_scope")),
            (json!({"cluster": "blue", "service": "web"}), Err("incomplete_scope")),
            (json!({"namespace": null}), Err("incomplete_scope")),
            (json!({"cluster": "", "namespace": "shop"}), Err("invalid_name")),
        ];
        for (body, expected) in rows {
            assert_eq!(read(&body), expected.map(str::to_owned), "{body}");
        }
    }

    #[test]
    fn a_message_can_request_only_a_sync() {
        for action in Action::ALL.into_iter().filter(|it| *it != Action::Sync).map(Action::as_str) {
            let unusable = read_body(&json!({"action": action, "cluster": "blue"}).to_string());
            assert_eq!(unusable, Err(Unusable::ActionNotAllowed { action }));
        }
        let confirmed = json!({"action": "sync", "cluster": "blue", "confirm": true});
        assert_eq!(read(&confirmed), Err("action_not_allowed"));
        for action in [json!("porge"), json!("SYNC"), json!(1), json!(null)] {
            assert_eq!(read(&json!({"action": action})), Err("unknown_action"));
        }
        assert_eq!(read(&in_sns(&json!({"action": "purge"}))), Err("action_not_allowed"));
    }

    #[test]
    fn envelopes_are_opened_up_to_the_limit() {
        let mut body = json!({"cluster": "blue", "namespace": "shop"});
        for _ in 0..5 {
            body = in_sns(&body);
            assert_eq!(read(&body).as_deref(), Ok("blue/shop"));
        }
        assert_eq!(read(&in_sns(&body)), Err("too_deep"));
    }

    #[test]
    fn mixed_envelopes_open_in_any_order_and_the_inner_cluster_wins() {
        let own = json!({"namespace": "shop"});
        let cloud_event =
            json!({"specversion": "1.0", "type": "t", "cluster": "blue", "data": own});
        let event = json!({"detail-type": "t", "source": "s", "detail": cloud_event});
        assert_eq!(read(&in_sns(&event)).as_deref(), Ok("blue/shop"));
        let outer = json!({"specversion": "1.0", "type": "t", "cluster": "green", "data": event});
        assert_eq!(read(&outer).as_deref(), Ok("blue/shop"));
    }

    #[test]
    fn junk_is_unusable_and_its_text_is_not_repeated() {
        let secret = "hunter2";
        let rows = [
            (String::new(), "not_json"),
            (format!("{secret} is not JSON"), "not_json"),
            ("[".repeat(10_000), "not_json"),
            (format!("[\"{secret}\"]"), "unknown_shape"),
            (format!("\"{secret}\""), "unknown_shape"),
            ("null".to_owned(), "unknown_shape"),
            ("{}".to_owned(), "unknown_shape"),
            (json!({"password": secret}).to_string(), "unknown_shape"),
            (json!({"namespace": format!("{secret}!")}).to_string(), "invalid_name"),
            (json!({"action": secret}).to_string(), "unknown_action"),
            (json!({"kind": format!("{secret}!")}).to_string(), "invalid_name"),
            (json!({"kind": "Pod", "metadata": secret}).to_string(), "unknown_shape"),
        ];
        for (body, reason) in rows {
            let unusable = read_body(&body).expect_err("junk");
            assert_eq!(unusable.reason(), reason, "{body:.80}");
            assert!(!format!("{unusable} {unusable:?}").contains(secret));
        }
    }

    #[test]
    fn events_about_other_things_have_no_known_shape() {
        let call = json!({"eventSource": "eks.amazonaws.com", "eventName": "CreateCluster"});
        let rows = [
            json!({"detail-type": "AWS API Call via CloudTrail", "source": "aws.eks", "detail": call}),
            json!({"detail-type": "Scheduled Event", "source": "aws.events", "detail": {}}),
            json!({"detail-type": "Scheduled Event", "source": "aws.scheduler", "detail": "{}"}),
            json!({"Type": "SubscriptionConfirmation", "Message": "You have chosen to subscribe"}),
            json!({"Records": [{"eventSource": "aws:s3"}]}),
        ];
        for body in rows {
            assert_eq!(read(&body), Err("unknown_shape"), "{body}");
        }
    }

    fn content(value: &Value) -> Result<Option<Value>, Unusable> {
        open(value).map(|opened| opened.map(|opened| opened.content.into_owned()))
    }

    #[test]
    fn every_envelope_returns_its_content() {
        let rows = [
            json!({"Type": "Notification", "Message": "{\"n\":1}"}),
            json!({"detail-type": "t", "source": "s", "detail": {"n": 1}}),
            json!({"detail-type": "t", "source": "s", "detail": "{\"n\":1}"}),
            json!({"specversion": "1.0", "type": "t", "data": {"n": 1}}),
            json!({"specversion": "1.0", "type": "t", "data": "{\"n\":1}"}),
            json!({"specversion": "1.0", "type": "t", "data_base64": "eyJuIjoxfQ=="}),
        ];
        for envelope in rows {
            assert_eq!(content(&envelope), Ok(Some(json!({"n": 1}))), "{envelope}");
        }
    }

    #[test]
    fn a_value_without_an_envelopes_fields_is_no_envelope() {
        let rows = [
            json!({"Type": "SubscriptionConfirmation", "Message": "You have chosen to subscribe"}),
            json!({"Type": "Notification"}),
            json!({"detail-type": "t", "source": "s"}),
            json!({"specversion": 1, "type": "t", "data": {}}),
            json!({"cluster": "blue", "namespace": "shop"}),
            json!(["Type", "Notification"]),
            json!(null),
        ];
        for value in rows {
            assert_eq!(content(&value), Ok(None), "{value}");
        }
    }

    #[test]
    fn content_that_is_no_json_makes_the_message_unusable() {
        let rows = [
            json!({"Type": "Notification", "Message": "scaled web to 3"}),
            json!({"detail-type": "t", "source": "s", "detail": "{"}),
            json!({"specversion": "1.0", "type": "t", "data": "<web/>"}),
            json!({"specversion": "1.0", "type": "t", "data_base64": "!"}),
            json!({"specversion": "1.0", "type": "t", "data_base64": "/w=="}),
        ];
        for envelope in rows {
            assert_eq!(content(&envelope), Err(Unusable::NotJson), "{envelope}");
        }
        let empty = json!({"specversion": "1.0", "type": "t"});
        assert_eq!(content(&empty), Err(Unusable::UnknownShape));
    }

    #[test]
    fn a_cloud_events_extension_names_the_cluster() {
        for extension in CLUSTER_EXTENSIONS {
            let event = json!({"specversion": "1.0", "type": "t", "data": {}, extension: "blue"});
            let opened = open(&event).expect("usable").expect("an envelope");
            assert_eq!(opened.cluster.as_deref(), Some("blue"));
        }
        let hostile = json!({"specversion": "1.0", "type": "t", "data": {}, "cluster": "a\u{7f}b"});
        assert!(matches!(open(&hostile), Err(Unusable::InvalidName { field: "cluster", .. })));
    }
}
