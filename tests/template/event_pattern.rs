//! The pattern of the rule for drift, with calls of all parties, by the part of EventBridge's patterns that it has: values,
//! `prefix`, `anything-but`, `exists` and `$or`
//! (<https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html>).

use serde_json::{Map, Value, json};

use super::TEMPLATE;

const FORWARDING: &str = include_str!("../../deploy/drift-events.yaml");
/// The characters that a pattern has by default, without a request to AWS.
const LONGEST: usize = 2048;
/// The most patterns without `$or` that one may stand for.
const MOST: usize = 1000;
const OURS: &str = "arn:aws:iam::111122223333:role/cloud-map-sync-FunctionRole-1ABCDEF";

/// The pattern of a template, where a function of CloudFormation gives the role.
fn pattern(template: &str, role: &str) -> Value {
    let (_, rest) = template.split_once("      EventPattern:\n").expect("a rule");
    let lines = rest.lines().take_while(|line| line.starts_with("        "));
    let text = lines.collect::<Vec<_>>().join("\n");
    assert!(text.contains(role), "{role}");
    serde_json::from_str(&text.replace(role, &json!(OURS).to_string())).expect("JSON")
}

fn of_template() -> Value {
    pattern(TEMPLATE, "!GetAtt FunctionRole.Arn")
}

/// Whether an event matches: all fields of a pattern, and one of the alternatives of `$or`. A field that is absent from the
/// event, or part of one that is no object, matches `exists: false` alone.
fn matches(pattern: &Map<String, Value>, event: Option<&Value>) -> bool {
    pattern.iter().all(|(field, wanted)| match wanted {
        Value::Array(all) if field == "$or" => {
            all.iter().any(|it| matches(it.as_object().expect("a pattern"), event))
        }
        Value::Object(fields) => matches(fields, event.and_then(|it| it.get(field))),
        Value::Array(all) => {
            let value = event.and_then(|it| it.get(field)).filter(|it| !it.is_object());
            all.iter().any(|matcher| is_match(matcher, value))
        }
        other => panic!("{field} is {other}"),
    })
}

fn is_match(matcher: &Value, value: Option<&Value>) -> bool {
    let Some((operator, operand)) = matcher.as_object().and_then(|it| it.iter().next()) else {
        return value == Some(matcher);
    };
    match (operator.as_str(), operand) {
        ("exists", Value::Bool(exists)) => value.is_some() == *exists,
        ("prefix", Value::String(prefix)) => {
            value.and_then(Value::as_str).is_some_and(|it| it.starts_with(prefix))
        }
        ("anything-but", Value::Array(others)) => value.is_some_and(|it| !others.contains(it)),
        _ => panic!("{matcher}"),
    }
}

fn wakes(event: &Value) -> bool {
    matches(of_template().as_object().expect("an object"), Some(event))
}

/// The number of patterns without `$or` that a pattern stands for.
fn combinations(pattern: &Value) -> usize {
    let Value::Object(fields) = pattern else { return 1 };
    let of_field = |(field, value): (&String, &Value)| match value {
        Value::Array(all) if field == "$or" => all.iter().map(combinations).sum(),
        value => combinations(value),
    };
    fields.iter().map(of_field).product()
}

fn event(file: &str) -> Value {
    let path = format!("{}/events/{file}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("the file");
    let batch: Value = serde_json::from_str(&text).expect("JSON");
    serde_json::from_str(batch["Records"][0]["body"].as_str().expect("a body")).expect("JSON")
}

fn by(role: &str, mut event: Value) -> Value {
    event["detail"]["userIdentity"] = json!({
        "type": "AssumedRole", "arn": "arn:aws:sts::111122223333:assumed-role/it/session",
        "sessionContext": { "sessionIssuer": { "type": "Role", "arn": role } },
    });
    event
}

#[test]
fn every_call_of_another_party_wakes_the_function_and_no_call_of_its_own() {
    let files = ["instance", "service", "created", "tags", "namespace"];
    for file in files.map(|it| format!("sqs-drift-{it}")) {
        let event = event(&file);
        assert!(wakes(&event), "{file}");
        assert!(wakes(&by("arn:aws:iam::111122223333:role/operators", event.clone())), "{file}");
        assert!(!wakes(&by(OURS, event.clone())), "{file}");
        let mut failed = event;
        failed["detail"]["errorCode"] = json!("AccessDeniedException");
        assert!(!wakes(&failed), "{file}");
    }
}

#[test]
fn users_and_aws_s_own_services_have_no_role_that_issued_their_session() {
    for identity in [
        json!({ "type": "Root", "arn": "arn:aws:iam::111122223333:root" }),
        json!({ "type": "IAMUser", "arn": "arn:aws:iam::111122223333:user/smithj" }),
        json!({ "type": "IAMUser", "sessionContext": { "sessionIssuer": {} } }),
        json!({ "type": "IAMUser", "sessionContext": { "attributes": {} } }),
        json!({ "type": "AWSService", "invokedBy": "cloudformation.amazonaws.com" }),
    ] {
        let mut event = event("sqs-drift-service");
        event["detail"]["userIdentity"] = identity;
        assert!(wakes(&event), "{event}");
    }
}

/// The forms are those of `publish::plan::instance` and `clusterset::id`; ECS's id is that of its task.
#[test]
fn only_instances_with_ids_in_the_form_of_ours_wake_the_function() {
    let rows = [
        ("ip-10-0-1-1", true),
        ("tcp-10-0-1-1-8080-0123456789", true),
        ("udp-10-0-1-1-53-0123456789", true),
        ("sctp-2001-db8--1-36412-0123456789", true),
        ("address-10-0-1-1-0123456789", true),
        ("export-0123456789abcdef0123", true),
        ("cluster", true),
        ("cluster-2", false),
        ("0123456789abcdef0123456789abcdef", false),
        ("3f2504e0-4f89-41d3-9a0c-0305e82c3301", false),
        ("i-0123456789abcdef0", false),
        ("myservice-53", false),
    ];
    for (id, expected) in rows {
        for name in ["RegisterInstance", "DeregisterInstance"] {
            let mut event = event("sqs-drift-instance");
            event["detail"]["eventName"] = json!(name);
            event["detail"]["requestParameters"]["instanceId"] = json!(id);
            assert_eq!(wakes(&event), expected, "{name} {id}");
        }
    }
}

#[test]
fn reads_and_calls_of_other_services_wake_nothing() {
    let changes = [
        ("/detail/eventName", json!("ListServices")),
        ("/detail/eventName", json!("UpdateInstanceCustomHealthStatus")),
        ("/detail/eventSource", json!("route53.amazonaws.com")),
        ("/detail-type", json!("AWS Service Event via CloudTrail")),
        ("/source", json!("aws.ecs")),
    ];
    for (pointer, value) in changes {
        let mut event = event("sqs-drift-service");
        *event.pointer_mut(pointer).expect("a field of it") = value;
        assert!(!wakes(&event), "{event}");
    }
}

#[test]
fn pattern_is_within_the_limits_and_the_same_in_both_templates() {
    let pattern_of_template = of_template();
    assert_eq!(pattern(FORWARDING, "!Ref RegistryRoleArn"), pattern_of_template);
    let characters = pattern_of_template.to_string().len();
    assert!(characters < LONGEST, "{characters}");
    assert_eq!(combinations(&pattern_of_template), 4);
    assert!(combinations(&pattern_of_template) <= MOST);
}
