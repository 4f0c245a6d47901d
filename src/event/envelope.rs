//! The envelopes of a message: SNS without raw delivery, an EventBridge event, a CloudEvent in structured mode. Each is
//! recognised by its fields. Its content is returned, and parsed if it is text.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{Unusable, name};

/// Extensions of a CloudEvent with the cluster's name. CloudEvents allows only a-z and 0-9 in extension names.
const CLUSTER_EXTENSIONS: [&str; 2] = ["cluster", "clustername"];

/// The content of an envelope.
#[derive(Debug)]
pub(super) struct Opened<'a> {
    pub(super) content: Cow<'a, Value>,
    /// The cluster, if the envelope names one.
    pub(super) cluster: Option<String>,
}

/// Opens an envelope; `None` if the value is no envelope.
pub(super) fn open(value: &Value) -> Result<Option<Opened<'_>>, Unusable> {
    let Some(object) = value.as_object() else {
        return Ok(None);
    };
    let field = |name: &str| object.get(name).and_then(Value::as_str);
    if let (Some("Notification"), Some(message)) = (field("Type"), field("Message")) {
        return parse(message).map(|content| Some(unnamed(content)));
    }
    if let (Some(_), Some(_), Some(detail)) =
        (field("detail-type"), field("source"), object.get("detail"))
    {
        return parse_text(detail).map(|content| Some(unnamed(content)));
    }
    if let (Some(_), Some(_)) = (field("specversion"), field("type")) {
        return open_cloud_event(object).map(Some);
    }
    Ok(None)
}

fn unnamed(content: Cow<'_, Value>) -> Opened<'_> {
    Opened { content, cluster: None }
}

fn open_cloud_event(event: &Map<String, Value>) -> Result<Opened<'_>, Unusable> {
    let content = match (event.get("data"), event.get("data_base64")) {
        (Some(data), _) => parse_text(data)?,
        (None, Some(Value::String(encoded))) => decode(encoded)?,
        _ => return Err(Unusable::UnknownShape),
    };
    let mut cluster = None;
    for extension in CLUSTER_EXTENSIONS {
        if let Some(text) = name::text(event, extension)? {
            cluster = Some(name::cluster(text)?);
            break;
        }
    }
    Ok(Opened { content, cluster })
}

/// Parses content that some senders pass as JSON text instead of an object.
fn parse_text(content: &Value) -> Result<Cow<'_, Value>, Unusable> {
    match content {
        Value::String(text) => parse(text),
        other => Ok(Cow::Borrowed(other)),
    }
}

fn parse<'a>(text: &str) -> Result<Cow<'a, Value>, Unusable> {
    let content = serde_json::from_str(text).map_err(|_| Unusable::NotJson)?;
    Ok(Cow::Owned(content))
}

fn decode<'a>(encoded: &str) -> Result<Cow<'a, Value>, Unusable> {
    let bytes = STANDARD.decode(encoded).map_err(|_| Unusable::NotJson)?;
    let content = serde_json::from_slice(&bytes).map_err(|_| Unusable::NotJson)?;
    Ok(Cow::Owned(content))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
