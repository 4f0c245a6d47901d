//! Who wrote what: `metadata.managedFields`. Of the fields only the conditions of a status are listed one by one, since
//! a server-side apply is about these; what else a manager has is listed by its top-level fields.
//!
//! The metadata of objects that the server alone sets.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// A writer: its name, how it writes and what.
#[derive(Clone, Debug)]
pub struct Manager<'a> {
    pub name: &'a str,
    /// `Update` or `Apply`.
    pub operation: &'static str,
    /// `status`, or empty.
    pub subresource: &'a str,
    /// The apiVersion of the request.
    pub api_version: String,
    pub time: String,
}

impl Manager<'_> {
    /// Puts the creation's entry on an object.
    pub fn created(&self, object: &mut Value) {
        let mut entry = self.entry();
        entry["fieldsV1"] = top_level(object);
        object["metadata"]["managedFields"] = json!([entry]);
    }

    /// Notes a change; the types are those of the conditions that this manager has set and has now.
    pub fn changed(&self, object: &mut Value, conditions: Option<(&Types, &Types)>) {
        let mut entries = entries(object);
        if !entries.iter().any(|entry| self.is_mine(entry)) {
            entries.push(self.entry());
        }
        for entry in &mut entries {
            let mine = self.is_mine(entry);
            let mut types = conditions_of(entry);
            if let Some((set, owned)) = conditions {
                types = if mine { owned.clone() } else { &types - set };
                entry["fieldsV1"] = if types.is_empty() && !mine && is_of_status(entry) {
                    Value::Null
                } else {
                    with_conditions(&entry["fieldsV1"], &types)
                };
            }
            if mine {
                entry["time"] = self.time.clone().into();
            }
        }
        entries.retain(|entry| !entry["fieldsV1"].is_null());
        object["metadata"]["managedFields"] = entries.into();
    }

    /// The types of the conditions that it has.
    pub fn conditions(&self, object: &Value) -> Types {
        let mine = entries(object).into_iter().filter(|entry| self.is_mine(entry));
        mine.flat_map(|entry| conditions_of(&entry)).collect()
    }

    /// The other managers that have a condition.
    pub fn others_with(&self, object: &Value, kind: &str) -> Vec<String> {
        let entries = entries(object).into_iter().filter(|entry| !self.is_mine(entry));
        let with = entries.filter(|entry| conditions_of(entry).contains(kind));
        with.filter_map(|entry| entry["manager"].as_str().map(ToOwned::to_owned)).collect()
    }

    fn entry(&self) -> Value {
        let mut entry = json!({
            "manager": self.name, "operation": self.operation, "apiVersion": self.api_version,
            "time": self.time, "fieldsType": "FieldsV1", "fieldsV1": {},
        });
        if !self.subresource.is_empty() {
            entry["subresource"] = self.subresource.into();
        }
        entry
    }

    fn is_mine(&self, entry: &Value) -> bool {
        entry["manager"] == self.name
            && entry["operation"] == self.operation
            && entry["subresource"].as_str().unwrap_or_default() == self.subresource
    }
}

/// Types of conditions.
pub type Types = BTreeSet<String>;

fn entries(object: &Value) -> Vec<Value> {
    object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default()
}

fn is_of_status(entry: &Value) -> bool {
    entry["subresource"] == "status"
}

fn top_level(object: &Value) -> Value {
    let keys = object.as_object().into_iter().flat_map(Map::keys);
    let keys = keys.filter(|key| !["apiVersion", "kind", "metadata"].contains(&key.as_str()));
    keys.map(|key| (format!("f:{key}"), json!({}))).collect::<Map<_, _>>().into()
}

fn conditions_of(entry: &Value) -> Types {
    let keys = entry["fieldsV1"]["f:status"]["f:conditions"].as_object();
    let keys = keys.into_iter().flat_map(Map::keys).filter_map(|key| {
        let key: Value = serde_json::from_str(key.strip_prefix("k:")?).ok()?;
        key["type"].as_str().map(ToOwned::to_owned)
    });
    keys.collect()
}

fn with_conditions(fields: &Value, types: &Types) -> Value {
    let mut fields = fields.clone();
    if types.is_empty() {
        if let Some(status) = fields.get_mut("f:status").and_then(Value::as_object_mut) {
            status.remove("f:conditions");
        }
        return fields;
    }
    let keys = types.iter().map(|kind| {
        let field = format!("k:{}", json!({ "type": kind }));
        (field, json!({".": {}}))
    });
    fields["f:status"]["f:conditions"] = keys.collect::<Map<_, _>>().into();
    fields
}

/// What only the server sets; a client's values are ignored.
pub const OF_THE_SERVER: [&str; 6] = [
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
