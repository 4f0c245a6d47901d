//! The schemas of the custom resources.

use serde_json::{Value, json};

use super::super::resource::{SERVICE_EXPORTS, SERVICE_IMPORTS};
use super::super::schema;
use super::super::schema_check::{causes, prune};

#[test]
fn only_declared_fields_stay() {
    for (declares, left) in [(true, json!("Present")), (false, Value::Null)] {
        let mut import = json!({
            "spec": {"type": "Headless", "ports": [{"port": 80, "color": "red"}], "x": 1},
            "status": {"endpointSliceObjects": "Present"},
        });
        let unknown = prune(&mut import, &schema::of(&SERVICE_IMPORTS, declares).unwrap());
        assert!(unknown.starts_with(&["spec.ports[0].color".into(), "spec.x".into()]));
        assert_eq!(import["spec"], json!({"type": "Headless", "ports": [{"port": 80}]}));
        assert_eq!(import["status"].get("endpointSliceObjects").unwrap_or(&Value::Null), &left);
    }
}

#[test]
fn an_import_is_refused_for_what_its_definition_forbids() {
    let schema = schema::of(&SERVICE_IMPORTS, true).unwrap();
    for (spec, expected) in [
        (json!({"type": "Headless", "ports": []}), ""),
        (json!({"ports": []}), "spec.type: Required value"),
        (json!({"type": "Headless"}), "spec.ports: Required value"),
        (
            json!({"type": "Any", "ports": []}),
            "spec.type: Unsupported value: \"Any\": supported values: \"ClusterSetIP\", \"Headless\"",
        ),
        (
            json!({"type": "Headless", "ports": [], "ips": ["a", "b", "c"]}),
            "spec.ips: Too many: 3: must have at most 2 items",
        ),
        (
            json!({"type": "Headless", "ports": [{"port": "80"}]}),
            "spec.ports[0].port: Invalid value: \"string\": spec.ports[0].port in body must be \
             of type integer: \"string\"",
        ),
    ] {
        let found = causes(&json!({"spec": spec}), &schema).join("; ");
        assert_eq!(found, expected, "{spec}");
    }
}

#[test]
fn a_condition_is_complete_and_the_only_one_of_its_type() {
    let schema = schema::of(&SERVICE_EXPORTS, true).unwrap();
    let condition = json!({
        "type": "Valid", "status": "True", "reason": "A,B", "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    let with = |key: &str, value: Value| {
        let mut changed = condition.clone();
        changed[key] = value;
        json!({"status": {"conditions": [changed]}})
    };
    assert_eq!(causes(&with("message", json!("fine")), &schema), [""; 0]);
    for (key, value, expected) in [
        ("status", json!("Maybe"), "Unsupported value"),
        ("reason", json!(""), "at least 1 chars"),
        ("reason", json!("A, B"), "should match"),
        ("message", json!("x".repeat(32769)), "Too long"),
        ("observedGeneration", json!(-1), "greater than"),
        ("lastTransitionTime", json!("now"), "date-time"),
    ] {
        let found = causes(&with(key, value), &schema).join("; ");
        assert!(found.contains(expected), "{key}: {found}");
    }
    let twice = json!({"status": {"conditions": [condition, condition]}});
    assert_eq!(
        causes(&twice, &schema),
        ["status.conditions[1]: Duplicate value: {\"type\":\"Valid\"}"]
    );
}
