//! Prunes and checks the objects of custom resources by their schema, with the messages of k8s.io/apiextensions.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::resource::Resource;
use super::schema::{self, REASON};

/// A custom resource of a test, in the stored version. A test that breaks the schema is wrong itself.
pub fn checked(resource: &Resource, mut object: Value) -> Value {
    let schema = schema::of(resource, true).expect("a custom resource has one");
    let mut wrong = causes(&object, &schema);
    wrong.extend(prune(&mut object, &schema));
    assert!(wrong.is_empty(), "{}: {}", resource.kind, wrong.join(", "));
    object["apiVersion"] = resource.api_version().into();
    object
}

/// Removes the fields that the schema does not declare, and tells their paths.
pub fn prune(value: &mut Value, schema: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    prune_at(value, schema, "", &mut unknown);
    unknown
}

fn prune_at(value: &mut Value, schema: &Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let Some(declared) = schema["properties"].as_object() else { return };
            members.retain(|key, member| {
                let path = joined(path, key);
                if let Some(schema) = declared.get(key) {
                    prune_at(member, schema, &path, unknown);
                    return true;
                }
                unknown.push(path);
                false
            });
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune_at(item, &schema["items"], &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

/// What is wrong with a value.
pub fn causes(value: &Value, schema: &Value) -> Vec<String> {
    let mut causes = Vec::new();
    check(value, schema, "", &mut causes);
    causes
}

fn check(value: &Value, schema: &Value, path: &str, causes: &mut Vec<String>) {
    let wanted = schema["type"].as_str().unwrap_or_default();
    if type_of(value) != wanted {
        let found = type_of(value);
        causes.push(format!(
            "{path}: Invalid value: \"{found}\": {path} in body must be of type {wanted}: \"{found}\""
        ));
        return;
    }
    match value {
        Value::Object(_) => check_object(value, schema, path, causes),
        Value::Array(items) => check_list(items, schema, path, causes),
        Value::String(text) => check_text(text, schema, path, causes),
        number => {
            let least = schema["minimum"].as_i64().unwrap_or(i64::MIN);
            if number.as_i64().is_some_and(|number| number < least) {
                causes.push(format!(
                    "{path}: Invalid value: {number}: {path} in body should be greater than or \
                     equal to {least}"
                ));
            }
        }
    }
}

fn check_object(value: &Value, schema: &Value, path: &str, causes: &mut Vec<String>) {
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(key).is_none() {
            causes.push(format!("{}: Required value", joined(path, key)));
        }
    }
    for (key, member) in value.as_object().into_iter().flatten() {
        let declared = schema["properties"].get(key).or_else(|| schema.get("additionalProperties"));
        if let Some(declared) = declared {
            check(member, declared, &joined(path, key), causes);
        }
    }
}

fn check_list(items: &[Value], schema: &Value, path: &str, causes: &mut Vec<String>) {
    if let Some(most) = schema["maxItems"].as_u64().filter(|most| (items.len() as u64) > *most) {
        causes.push(format!("{path}: Too many: {}: must have at most {most} items", items.len()));
    }
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}[{index}]");
        check(item, &schema["items"], &path, causes);
        if let Some(key) = schema["x-kubernetes-list-map-keys"][0].as_str()
            && items[..index].iter().any(|other| other[key] == item[key])
        {
            causes.push(format!("{path}: Duplicate value: {{\"{key}\":{}}}", item[key]));
        }
    }
}

fn check_text(text: &str, schema: &Value, path: &str, causes: &mut Vec<String>) {
    if let Some(known) = schema["enum"].as_array().filter(|known| !known.contains(&text.into())) {
        let known: Vec<String> = known.iter().map(Value::to_string).collect();
        let known = known.join(", ");
        causes.push(format!("{path}: Unsupported value: \"{text}\": supported values: {known}"));
    }
    let length = text.chars().count() as u64;
    if let Some(most) = schema["maxLength"].as_u64().filter(|most| length > *most) {
        causes.push(format!("{path}: Too long: may not be more than {most} bytes"));
    }
    if schema["minLength"].as_u64().is_some_and(|least| length < least) {
        causes.push(format!(
            "{path}: Invalid value: \"\": {path} in body should be at least 1 chars long"
        ));
    }
    if schema["pattern"] == REASON && !text.is_empty() && !is_reason(text) {
        causes.push(format!(
            "{path}: Invalid value: \"{text}\": {path} in body should match '{REASON}'"
        ));
    }
    if schema["format"] == "date-time" && text.parse::<Timestamp>().is_err() {
        causes.push(format!(
            "{path}: Invalid value: \"{text}\": {path} in body must be of type date-time: \"{text}\""
        ));
    }
}

fn is_reason(text: &str) -> bool {
    let word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    text.starts_with(|character: char| character.is_ascii_alphabetic())
        && text.ends_with(word)
        && text.chars().all(|character| word(character) || ",:".contains(character))
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
