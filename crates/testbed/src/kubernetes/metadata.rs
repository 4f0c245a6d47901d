//! The metadata of objects that the server alone sets.

use serde_json::Value;

/// What only the server sets; a client's values are ignored.
const OF_THE_SERVER: [&str; 6] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
];

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
