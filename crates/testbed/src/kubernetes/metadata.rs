//! The metadata of objects: what the server refuses of it, and what it alone sets.

use serde_json::Value;

use super::names::{is_label, is_label_value, is_letter_label, is_qualified_name, is_subdomain};
use super::resource::{NAMESPACES, Resource, SERVICES};

/// What only the server sets; a client's values are ignored.
const OF_THE_SERVER: [&str; 6] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
];
const MOST_ANNOTATION_BYTES: usize = 256 * 1024;

/// Puts back what the client may not set: what was there before, or nothing.
pub fn restore(object: &mut Value, before: Option<&Value>) {
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    for key in OF_THE_SERVER.into_iter().chain(["resourceVersion"]) {
        match before.and_then(|before| before["metadata"].get(key)) {
            Some(value) => metadata.insert(key.to_owned(), value.clone()),
            None => metadata.remove(key),
        };
    }
}

/// The generation grows with every change of what is neither metadata nor status.
pub fn set_generation(object: &mut Value, before: Option<&Value>) {
    let of = |object: &Value| object["metadata"]["generation"].as_u64().unwrap_or(1);
    let generation = match before {
        None => of(object),
        Some(before) => of(before) + u64::from(before.get("spec") != object.get("spec")),
    };
    object["metadata"]["generation"] = generation.into();
}

/// What is wrong with an object's metadata.
pub fn causes(resource: &Resource, metadata: &Value) -> Vec<String> {
    let name = metadata["name"].as_str().unwrap_or_default();
    let mut causes: Vec<String> = name_cause(resource, name).into_iter().collect();
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        if !is_qualified_name(key) {
            causes.push(format!("metadata.labels: Invalid value: \"{key}\": {NAME_PART}"));
        }
        let value = value.as_str().unwrap_or_default();
        if !is_label_value(value) {
            causes.push(format!(
                "metadata.labels: Invalid value: \"{value}\": a valid label must be an empty string \
                 or consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                 an alphanumeric character, and be no more than 63 characters"
            ));
        }
    }
    causes.extend(annotation_causes(&metadata["annotations"]));
    causes.extend(owner_causes(&metadata["ownerReferences"]));
    causes
}

const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must \
                         start and end with an alphanumeric character";

fn name_cause(resource: &Resource, name: &str) -> Option<String> {
    let (is_name, form) = if *resource == SERVICES {
        (is_letter_label(name), "DNS-1035 label")
    } else if *resource == NAMESPACES {
        (is_label(name), "lowercase RFC 1123 label")
    } else {
        (is_subdomain(name), "lowercase RFC 1123 subdomain")
    };
    (!is_name).then(|| {
        format!(
            "metadata.name: Invalid value: \"{name}\": a {form} must consist of lower case \
             alphanumeric characters or '-'"
        )
    })
}

fn annotation_causes(annotations: &Value) -> Vec<String> {
    let mut causes = Vec::new();
    let mut bytes = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        if !is_qualified_name(&key.to_lowercase()) {
            causes.push(format!("metadata.annotations: Invalid value: \"{key}\": {NAME_PART}"));
        }
    }
    if bytes > MOST_ANNOTATION_BYTES {
        let most = MOST_ANNOTATION_BYTES;
        causes.push(format!("metadata.annotations: Too long: may not be more than {most} bytes"));
    }
    causes
}

fn owner_causes(owners: &Value) -> Vec<String> {
    let mut causes = Vec::new();
    let mut controllers = 0;
    for owner in owners.as_array().into_iter().flatten() {
        for key in ["apiVersion", "kind", "name", "uid"] {
            if owner[key].as_str().unwrap_or_default().is_empty() {
                causes.push(format!(
                    "metadata.ownerReferences.{key}: Invalid value: \"\": must not be empty"
                ));
            }
        }
        controllers += usize::from(owner["controller"] == true);
    }
    if controllers > 1 {
        let text = "Only one reference can have Controller set to true";
        causes.push(format!("metadata.ownerReferences: Invalid value: {owners}: {text}"));
    }
    causes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::resource::{ENDPOINT_SLICES, SERVICE_IMPORTS};
    use super::*;

    #[test]
    fn names_have_the_form_of_their_kind() {
        for (name, expected) in [
            ("web", [true, true, true, true]),
            ("1web", [false, true, true, true]),
            ("web.1", [false, false, true, true]),
            ("Web", [false, false, false, false]),
        ] {
            let resources = [&SERVICES, &NAMESPACES, &ENDPOINT_SLICES, &SERVICE_IMPORTS];
            let found = resources.map(|it| causes(it, &json!({"name": name})).is_empty());
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn broken_metadata_is_refused() {
        let long = "x".repeat(64);
        for (metadata, expected) in [
            (json!({"labels": {"a/b/c": "x"}}), "metadata.labels: Invalid value: \"a/b/c\""),
            (json!({"labels": {"app": long}}), "a valid label must be"),
            (json!({"annotations": {"a b": ""}}), "metadata.annotations: Invalid value: \"a b\""),
            (json!({"annotations": {"a": "x".repeat(300_000)}}), "metadata.annotations: Too long"),
            (
                json!({"ownerReferences": [{"kind": "Service", "apiVersion": "v1", "name": "web"}]}),
                "metadata.ownerReferences.uid: Invalid value",
            ),
        ] {
            let mut metadata = metadata;
            metadata["name"] = "web".into();
            let found = causes(&SERVICES, &metadata);
            assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
        }
    }
}
