//! Whole payloads: every file of `events/`, and rejected payloads. `direct` has commands.

mod direct;

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Error, Payload, read};

/// The expected reading of each file of `events/`.
const FIXTURES: &[(&str, &[&str])] = &[
    ("direct-adopt.json", &["adopt blue"]),
    ("direct-adopt-confirmed.json", &["adopt blue"]),
    ("direct-adopt-owner.json", &["adopt blue/shop"]),
    ("direct-confirm.json", &["confirm blue"]),
    ("direct-doctor.json", &["doctor every cluster"]),
    ("direct-explain.json", &["explain blue/shop/web"]),
    ("direct-plan.json", &["plan every cluster"]),
    ("direct-plan-cluster.json", &["plan green"]),
    ("direct-purge.json", &["purge arn:aws:eks:eu-central-1:111122223333:cluster/retired"]),
    ("direct-status.json", &["status every cluster"]),
    ("direct-sync.json", &["sync every cluster"]),
    ("direct-sync-service.json", &["sync blue/shop/web"]),
    ("logs-audit.json", &["blue/shop/web", "blue/shop/web", "blue/shop/cart"]),
    ("schedule-eventbridge-rule.json", &["schedule"]),
    ("schedule-eventbridge-scheduler.json", &["schedule"]),
    ("sqs-argo-events.json", &["blue/shop/web"]),
    ("sqs-argo-events-data.json", &["green/shop/checkout"]),
    ("sqs-in-eventbridge.json", &["blue/shop"]),
    ("sqs-in-eventbridge-in-sns.json", &["green/shop/cart"]),
    ("sqs-in-sns.json", &["blue/shop"]),
    ("sqs-knative-reference.json", &["blue/shop/web"]),
    ("sqs-knative-resource.json", &["blue/shop/cart"]),
    ("sqs-kubernetes-event-exporter.json", &["blue/shop"]),
    ("sqs-kubewatch.json", &["green/shop/checkout"]),
    (
        "sqs-mixed-batch.json",
        &["blue/shop/web", "not_json", "blue/shop/web", "blue/shop/cart", "green/shop"],
    ),
    ("sqs-sync-service.json", &["blue/shop/web"]),
    ("sqs-sync-cluster.json", &["green"]),
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("events")
}

fn fixture(name: &str) -> Value {
    let text = std::fs::read_to_string(folder().join(name)).expect("the fixture");
    serde_json::from_str(&text).expect("JSON")
}

fn describe(invocation: Payload) -> Vec<String> {
    match invocation {
        Payload::Schedule => vec!["schedule".to_owned()],
        Payload::Direct(command) => vec![format!("{} {}", command.action, command.scope)],
        Payload::Queue(messages) | Payload::AuditLog(messages) => messages
            .into_iter()
            .map(|message| match message.reading {
                Ok(subject) => subject.to_string(),
                Err(unusable) => unusable.reason().to_owned(),
            })
            .collect(),
    }
}

#[test]
fn every_fixture_is_read_as_its_row_says() {
    for (name, expected) in FIXTURES {
        let invocation = read(&fixture(name)).expect(name);
        assert_eq!(describe(invocation), *expected, "{name}");
    }
}

#[test]
fn every_file_of_events_has_a_row_and_is_in_its_readme() {
    let rows: BTreeSet<String> = FIXTURES.iter().map(|(name, _)| (*name).to_owned()).collect();
    let files: BTreeSet<String> = std::fs::read_dir(folder())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .filter(|name| name != "README.md")
        .collect();
    assert_eq!(files, rows);
    let readme = std::fs::read_to_string(folder().join("README.md")).expect("the README");
    for name in files {
        assert!(readme.contains(&format!("`{name}`")), "{name} is not in the README");
    }
}

#[test]
fn queue_fixtures_keep_their_message_ids_in_order() {
    for (name, _) in FIXTURES.iter().filter(|(name, _)| name.starts_with("sqs-")) {
        let payload = fixture(name);
        let Ok(Payload::Queue(messages)) = read(&payload) else {
            panic!("{name} is no batch");
        };
        let records = payload["Records"].as_array().expect("records");
        assert_eq!(messages.len(), records.len(), "{name}");
        for (message, record) in messages.iter().zip(records) {
            assert_eq!(Some(message.id.as_str()), record["messageId"].as_str(), "{name}");
        }
    }
}

#[test]
fn a_batch_without_records_is_fine() {
    let invocation = read(&json!({"Records": []}));
    assert_eq!(invocation, Ok(Payload::Queue(Vec::new())));
}

#[test]
fn a_record_without_a_body_is_unusable_beside_a_good_one() {
    let mut payload = fixture("sqs-sync-service.json");
    let mut empty = payload["Records"][0].clone();
    empty.as_object_mut().expect("a record").remove("body");
    payload["Records"].as_array_mut().expect("records").push(empty);
    let invocation = read(&payload).expect("a batch");
    assert_eq!(describe(invocation), ["blue/shop/web", "not_json"]);
}

#[test]
fn other_payloads_are_rejected_with_the_expected_content() {
    let record = |source: &str| json!({"Records": [{"messageId": "1", "eventSource": source}]});
    let rows = [
        (json!({}), Error::UnknownPayload),
        (json!({"cluster": "blue", "namespace": "shop"}), Error::UnknownPayload),
        (json!([]), Error::UnknownPayload),
        (json!("sync"), Error::UnknownPayload),
        (json!(null), Error::UnknownPayload),
        (json!({"source": "aws.events"}), Error::UnknownPayload),
        (json!({"action": "destroy"}), Error::UnknownAction),
        (
            json!({"detail-type": "AWS API Call via CloudTrail", "source": "aws.eks", "detail": {}}),
            Error::EventNotScheduled,
        ),
        (
            json!({"detail-type": "Scheduled Event", "source": "shop", "detail": {}}),
            Error::EventNotScheduled,
        ),
        (
            json!({"detail-type": "EC2 Instance State-change", "source": "aws.events"}),
            Error::EventNotScheduled,
        ),
        (record("aws:s3"), Error::RecordsNotFromSqs),
        (json!({"Records": [{"eventSource": "aws:sqs"}]}), Error::RecordsNotFromSqs),
        (json!({"Records": [{"EventSource": "aws:sns", "Sns": {}}]}), Error::RecordsNotFromSqs),
        (
            json!({"Records": [{"eventSource": "aws:sqs", "messageId": ""}]}),
            Error::RecordsNotFromSqs,
        ),
        (json!({"Records": 7}), Error::RecordsNotFromSqs),
        (json!({"Records": [7]}), Error::RecordsNotFromSqs),
    ];
    for (payload, error) in rows {
        assert_eq!(read(&payload), Err(error), "{payload}");
    }
}

#[test]
fn errors_contain_only_field_names_of_the_payload() {
    let secret = "hunter2";
    let rows = [
        json!(secret),
        json!({"password": secret}),
        json!({"action": secret}),
        json!({"action": "sync", "cluster": format!("{secret}\n")}),
        json!({"action": "sync", "password": secret}),
        json!({"detail-type": secret, "source": secret}),
        json!({"Records": [{"eventSource": secret}]}),
        json!({"Records": secret}),
    ];
    for payload in rows {
        let error = read(&payload).expect_err("an error");
        assert!(!format!("{error} {error:?}").contains(secret), "{error:?}");
    }
}
