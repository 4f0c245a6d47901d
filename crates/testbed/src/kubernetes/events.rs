//! Creates events.k8s.io/v1 Events under the server's strict rules (k8s.io/kubernetes pkg/apis/core/validation
//! events.go): one 422 reports all fields that are missing or too long.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::names::{is_qualified_name, is_subdomain};
use super::resource::EVENTS;
use super::status::Failure;
use super::store::Store;

/// Field, longest text, whether it may be absent.
const TEXTS: [(&str, usize, bool); 4] = [
    ("reportingInstance", 128, false),
    ("action", 128, false),
    ("reason", 128, false),
    ("note", 1024, true),
];
const DEPRECATED: [(&str, &str); 4] = [
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("deprecatedSource", "source"),
];

/// Stores a new Event and answers it.
pub fn create(store: &mut Store, namespace: &str, mut event: Value) -> Result<Value, Failure> {
    let sent = event["metadata"]["namespace"].as_str().unwrap_or_default();
    if !sent.is_empty() && sent != namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let name = event["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if !is_micro_time(&event["eventTime"]) {
        return Err(Failure::bad_request(
            "Event in version \"v1\" cannot be handled as a Event: eventTime is not of the form \
             \"2006-01-02T15:04:05.000000Z07:00\"",
        ));
    }
    let causes = causes(&event, &name, namespace);
    if !causes.is_empty() {
        return Err(Failure::invalid(&EVENTS, &name, &causes));
    }
    if store.get(&EVENTS, namespace, &name).is_some() {
        return Err(Failure::already_exists(&EVENTS, &name));
    }
    event["apiVersion"] = "events.k8s.io/v1".into();
    event["kind"] = "Event".into();
    event["metadata"]["namespace"] = namespace.into();
    Ok((*store.put(&EVENTS, event)).clone())
}

/// MicroTime takes six digits of a second, no more and no fewer.
fn is_micro_time(value: &Value) -> bool {
    let Some(text) = value.as_str() else { return value.is_null() };
    let fraction = text.split_once('.').map_or("", |(_, rest)| rest);
    let digits = fraction.chars().take_while(char::is_ascii_digit).count();
    digits == 6 && text.parse::<Timestamp>().is_ok()
}

fn causes(event: &Value, name: &str, namespace: &str) -> Vec<String> {
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    let mut causes = Vec::new();
    if !is_subdomain(name) {
        causes.push(format!(
            "metadata.name: Invalid value: \"{name}\": a lowercase RFC 1123 subdomain is expected"
        ));
    }
    if event["eventTime"].is_null() {
        causes.push("eventTime: Required value".to_owned());
    }
    if !matches!(text("type"), "Normal" | "Warning") {
        causes.push(format!("type: Invalid value: \"\": has invalid value: {}", text("type")));
    }
    let regarding = event["regarding"]["namespace"].as_str().unwrap_or_default();
    if regarding.is_empty() && !matches!(namespace, "default" | "kube-system") {
        causes.push(
            "involvedObject.namespace: Invalid value: \"\": does not match event.namespace"
                .to_owned(),
        );
    }
    if text("reportingController").is_empty() {
        causes.push("reportingController: Required value".to_owned());
    } else if !is_qualified_name(text("reportingController")) {
        let value = text("reportingController");
        causes.push(format!(
            "reportingController: Invalid value: \"{value}\": a qualified name is expected"
        ));
    }
    for (field, longest, optional) in TEXTS {
        if text(field).is_empty() && !optional {
            causes.push(format!("{field}: Required value"));
        }
        if text(field).len() > longest {
            causes.push(format!(
                "{field}: Invalid value: \"\": can have at most {longest} characters"
            ));
        }
    }
    for (field, path) in DEPRECATED {
        if !matches!(&event[field], Value::Null) && event[field] != 0 {
            causes.push(format!("{path}: Invalid value: \"\": needs to be unset"));
        }
    }
    causes.extend(series_causes(&event["series"]));
    causes
}

fn series_causes(series: &Value) -> Vec<String> {
    let mut causes = Vec::new();
    if !series.is_null() && series["count"].as_u64().unwrap_or_default() < 2 {
        causes.push("series.count: Invalid value: \"\": should be at least 2".to_owned());
    }
    if !series.is_null() && series["lastObservedTime"].is_null() {
        causes.push("series.lastObservedTime: Required value".to_owned());
    }
    causes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event() -> Value {
        json!({
            "metadata": {"name": "web.0123"}, "type": "Warning",
            "eventTime": "2026-11-21T07:42:00.000000Z",
            "reportingController": "cloud-map-sync", "reportingInstance": "cloud-map-sync",
            "action": "Sync", "reason": "Held", "note": "told once",
            "regarding": {"namespace": "default", "name": "web"},
        })
    }

    #[test]
    fn an_event_is_created_once_and_then_conflicts() {
        let mut store = Store::new();
        assert!(create(&mut store, "default", event()).is_ok());
        let again = create(&mut store, "default", event()).unwrap_err();
        assert_eq!(again.status()["message"], "events.events.k8s.io \"web.0123\" already exists");
        assert_eq!(again.code, 409);
    }

    #[test]
    fn an_incomplete_event_is_told_every_missing_field() {
        let mut broken = event();
        broken["action"] = Value::Null;
        broken["note"] = "x".repeat(1025).into();
        let refused = create(&mut Store::new(), "default", broken).unwrap_err();
        assert_eq!(
            refused.status()["message"],
            "Event.events.k8s.io \"web.0123\" is invalid: action: Required value, \
             note: Invalid value: \"\": can have at most 1024 characters"
        );
    }

    #[test]
    fn an_event_time_without_microseconds_cannot_be_read() {
        let mut broken = event();
        broken["eventTime"] = "2026-11-21T07:42:00Z".into();
        assert_eq!(create(&mut Store::new(), "default", broken).unwrap_err().code, 400);
    }
}
