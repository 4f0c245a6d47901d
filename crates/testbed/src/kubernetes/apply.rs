//! Server-side apply on the status of a ServiceExport. Its conditions are a list by `type`: those that the manager
//! applied before and no longer applies go, those of others stay.

use serde_json::Value;

use super::managers::{Manager, Types};

/// The status after an apply, with the types that it changed and those that are the manager's now.
pub struct Applied {
    /// The conditions of the object.
    pub conditions: Vec<Value>,
    /// The types whose condition the manager has set to another value.
    pub set: Types,
    /// The types that the manager has applied.
    pub owned: Types,
}

/// Merges the applied conditions into an object, by force.
pub fn merge(object: &Value, applied: &Value, manager: &Manager<'_>) -> Applied {
    let applied = list(&applied["status"]["conditions"]);
    let owned: Types = applied.iter().map(kind_of).collect();
    let former = manager.conditions(object);
    let mut conditions = Vec::new();
    for present in list(&object["status"]["conditions"]) {
        let kind = kind_of(&present);
        let others = manager.others_with(object, &kind);
        match applied.iter().find(|it| kind_of(it) == kind) {
            Some(wanted) => {
                let alone = former.contains(&kind) && others.is_empty();
                conditions.push(if alone { wanted.clone() } else { overlay(&present, wanted) });
            }
            None if former.contains(&kind) && others.is_empty() => {}
            None => conditions.push(present),
        }
    }
    let present = |kind: &str| conditions.iter().any(|it| kind_of(it) == kind);
    let new: Vec<Value> = applied.iter().filter(|it| !present(&kind_of(it))).cloned().collect();
    conditions.extend(new);
    let set = changed(&list(&object["status"]["conditions"]), &conditions, &owned);
    Applied { conditions, set, owned }
}

/// The types of these that differ between two lists.
pub fn changed(before: &[Value], after: &[Value], of: &Types) -> Types {
    let find = |list: &[Value], kind: &str| list.iter().find(|it| kind_of(it) == kind).cloned();
    of.iter().filter(|kind| find(before, kind) != find(after, kind)).cloned().collect()
}

/// The types of the conditions of an object.
pub fn types(object: &Value) -> Types {
    list(&object["status"]["conditions"]).iter().map(kind_of).collect()
}

/// The conditions, or none.
pub fn list(conditions: &Value) -> Vec<Value> {
    conditions.as_array().cloned().unwrap_or_default()
}

fn kind_of(condition: &Value) -> String {
    condition["type"].as_str().unwrap_or_default().to_owned()
}

fn overlay(present: &Value, wanted: &Value) -> Value {
    let mut merged = present.clone();
    for (key, value) in wanted.as_object().into_iter().flatten() {
        merged[key] = value.clone();
    }
    merged
}
