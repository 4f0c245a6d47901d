//! Arbitrary JSON, arbitrary text and damaged payloads: the reader never panics, and returns a name or a reason.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::read;
use super::{FIXTURES, describe, fixture};

/// The words on which the reader branches, so that arbitrary JSON passes its first checks.
fn word() -> impl Strategy<Value = String> {
    let words = [
        "Records",
        "action",
        "sync",
        "plan",
        "cluster",
        "namespace",
        "service",
        "kind",
        "metadata",
        "name",
        "labels",
        "kubernetes.io/service-name",
        "ownerReferences",
        "apiVersion",
        "v1",
        "discovery.k8s.io/v1",
        "Service",
        "EndpointSlice",
        "Endpoints",
        "Pod",
        "Namespace",
        "involvedObject",
        "clusterName",
        "specversion",
        "type",
        "data",
        "data_base64",
        "e30=",
        "Type",
        "Notification",
        "Message",
        "{}",
        "detail-type",
        "source",
        "detail",
        "aws.events",
        "Scheduled Event",
        "ADD",
        "body",
        "oldBody",
        "resource",
        "services",
        "group",
        "operation",
        "obj",
        "messageId",
        "eventSource",
        "aws:sqs",
        "shop",
        "web-x7k2p",
        "blue",
        "confirm",
        "aws.servicediscovery",
        "AWS API Call via CloudTrail",
        "servicediscovery.amazonaws.com",
        "eventName",
        "UpdateService",
        "requestParameters",
        "id",
        "srv-1",
        "eventTime",
        "2026-11-21T10:00:00Z",
        "account",
        "111122223333",
        "region",
        "eu-central-1",
    ];
    prop_oneof![4 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => any::<String>()]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        6 => word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            1 => proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => proptest::collection::hash_map(word(), inner.clone(), 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            1 => inner.prop_map(|value| Value::from(value.to_string())),
        ]
    })
}

/// Reads one record as a part of a whole payload.
fn read_body(body: &str) -> Vec<String> {
    let record = json!({"messageId": "1", "eventSource": "aws:sqs", "body": body});
    describe(read(&json!({"Records": [record]})).expect("a batch"))
}

fn is_name_or_reason(text: &str) -> bool {
    text.len() < 400 && text.chars().all(|c| c == ' ' || c.is_ascii_graphic())
}

proptest! {
    #[test]
    fn arbitrary_payloads_never_panic(payload in any_json()) {
        let _ = read(&payload);
    }

    #[test]
    fn arbitrary_bodies_give_a_name_or_a_reason_and_disturb_no_batch(body in any_json()) {
        let readings = read_body(&body.to_string());
        prop_assert!(readings.len() == 1 && is_name_or_reason(&readings[0]), "{:?}", readings);
    }

    #[test]
    fn arbitrary_texts_give_a_name_or_a_reason(body in any::<String>()) {
        let readings = read_body(&body);
        prop_assert!(readings.len() == 1 && is_name_or_reason(&readings[0]), "{:?}", readings);
    }

    #[test]
    fn a_damaged_fixture_never_panics(
        (name, _) in proptest::sample::select(FIXTURES.to_vec()),
        at in any::<proptest::sample::Index>(),
        with in any_json(),
    ) {
        let mut payload = fixture(name);
        let paths = paths_of(&payload);
        let path = at.get(&paths);
        *payload.pointer_mut(path).expect("a path of it") = with;
        let _ = read(&payload);
    }
}

/// JSON pointers to all values in a value.
fn paths_of(value: &Value) -> Vec<String> {
    let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (escape(key), value)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    let mut paths = vec![String::new()];
    for (key, child) in children {
        paths.extend(paths_of(child).into_iter().map(|rest| format!("/{key}{rest}")));
    }
    paths
}
