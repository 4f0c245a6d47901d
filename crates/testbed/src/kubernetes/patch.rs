//! Changes of an object that is there: a JSON merge patch (RFC 7386), or an apply on a status. The
//! object itself and its status are changed by requests of their own.
//!
//! Server-side apply is for the status of a ServiceExport. Its conditions are a list by `type`: those that the manager
//! applied before and no longer applies go, those of others stay.

use serde_json::{Value, json};

use super::managers::{Manager, Types};
use super::resource::{SERVICE_EXPORTS, SERVICES};
use super::status::Failure;
use super::world::World;
use super::writes::Write;
use super::{managers, validation};

/// Answers a PATCH, by its content type.
pub fn patch(world: &mut World, write: &Write<'_>) -> Result<Value, Failure> {
    let before = world.present(write.resource, write.target)?;
    let is_apply_target = *write.resource == SERVICE_EXPORTS && write.target.is_status();
    match write.header("content-type") {
        "application/merge-patch+json" => {
            let mut object = before.clone();
            merge(&mut object, write.json()?);
            store(world, write, &before, object, None)
        }
        "application/apply-patch+yaml" if is_apply_target => apply(world, write, &before),
        other => Err(Failure::unsupported_media_type(other)),
    }
}

/// RFC 7386.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let members = target.as_object_mut().expect("made an object above");
    for (key, value) in patch {
        if value.is_null() {
            members.remove(&key);
        } else {
            merge(members.entry(key).or_insert(Value::Null), value);
        }
    }
}

fn apply(world: &mut World, write: &Write<'_>, before: &Value) -> Result<Value, Failure> {
    let applied = write.object()?;
    let manager = write.manager("Apply");
    let merged = merge_conditions(before, &applied, &manager);
    let mut object = before.clone();
    object["status"]["conditions"] = merged.conditions.into();
    for key in ["resourceVersion", "uid"] {
        if !applied["metadata"][key].is_null() {
            object["metadata"][key] = applied["metadata"][key].clone();
        }
    }
    let owned = (merged.set, merged.owned);
    store(world, write, before, object, Some((manager, owned)))
}

/// Checks a changed object and stores it, unless nothing is different.
fn store(
    world: &mut World,
    write: &Write<'_>,
    before: &Value,
    mut object: Value,
    applied: Option<(Manager<'_>, (Types, Types))>,
) -> Result<Value, Failure> {
    let name = write.target.name.as_str();
    check_identity(write, before, &object)?;
    write.place(&mut object);
    managers::restore(&mut object, Some(before));
    keep_other_part(&mut object, before, write);
    write.mutate(world, &mut object);
    let object = validation::complete(world, write.resource, object, Some(before))?;
    write.admit(world, name, Some(before), Some(&object))?;
    let object = noted(write, before, object, applied);
    Ok(world.keep_sent(write.resource, object))
}

/// UID and version are those of the object that is there.
fn check_identity(write: &Write<'_>, before: &Value, object: &Value) -> Result<(), Failure> {
    let resource = write.resource;
    let name = write.target.name.as_str();
    let sent = &object["metadata"];
    let is = &before["metadata"];
    if !sent["uid"].is_null() && sent["uid"] != is["uid"] {
        return Err(Failure::precondition(resource, name, "UID", &sent["uid"], &is["uid"]));
    }
    let version = &sent["resourceVersion"];
    if !version.is_null() && *version != "" && *version != is["resourceVersion"] {
        return Err(Failure::stale(resource, name));
    }
    Ok(())
}

/// A write of the status changes nothing else, and a write of the object no status.
fn keep_other_part(object: &mut Value, before: &Value, write: &Write<'_>) {
    if write.target.is_status() {
        let status = object["status"].take();
        *object = before.clone();
        object["status"] = status;
    } else if write.resource.has_status() || *write.resource == SERVICES {
        object["status"] = before["status"].clone();
    }
    if object["metadata"]["name"].is_null() {
        object["metadata"]["name"] = before["metadata"]["name"].clone();
    }
    if object["status"].is_null()
        && let Some(members) = object.as_object_mut()
    {
        members.remove("status");
    }
}

/// The object with its manager's entry; as it was, if the write changes nothing.
fn noted(
    write: &Write<'_>,
    before: &Value,
    mut object: Value,
    applied: Option<(Manager<'_>, (Types, Types))>,
) -> Value {
    if let Some((manager, (set, owned))) = applied {
        if object != *before || manager.conditions(before) != owned {
            manager.changed(&mut object, Some((&set, &owned)));
        }
        return object;
    }
    if object == *before {
        return object;
    }
    let manager = write.manager("Update");
    if !write.target.is_status() {
        manager.changed(&mut object, None);
        return object;
    }
    let now = types(&object);
    let lists = [before, &object].map(conditions_of);
    let set = changed(&lists[0], &lists[1], &(&now | &types(before)));
    let owned = &(&set | &manager.conditions(before)) & &now;
    manager.changed(&mut object, Some((&set, &owned)));
    object
}

/// The status after an apply, with the types that it changed and those that are the manager's now.
struct Applied {
    /// The conditions of the object.
    conditions: Vec<Value>,
    /// The types whose condition the manager has set to another value.
    set: Types,
    /// The types that the manager has applied.
    owned: Types,
}

/// Merges the applied conditions into an object, by force. They come in the applied order, and others where they were
/// between them (`mergeListItems` of structured-merge-diff).
fn merge_conditions(object: &Value, applied: &Value, manager: &Manager<'_>) -> Applied {
    let applied = conditions_of(applied);
    let owned: Types = applied.iter().map(kind_of).collect();
    let former = manager.conditions(object);
    let is_own_alone =
        |kind: &String| former.contains(kind) && manager.others_with(object, kind).is_empty();
    let before = conditions_of(object);
    let mut present = before.iter().peekable();
    let mut conditions = Vec::new();
    for wanted in &applied {
        let kind = kind_of(wanted);
        // A present condition that is applied, too, has the place of the applied one.
        while let Some(other) = present.next_if(|condition| !owned.contains(&kind_of(condition))) {
            if !is_own_alone(&kind_of(other)) {
                conditions.push(other.clone());
            }
        }
        _ = present.next_if(|condition| kind_of(condition) == kind);
        let mut shared = before.iter().filter(|_| !is_own_alone(&kind));
        let shared = shared.find(|condition| kind_of(condition) == kind);
        conditions.push(shared.map_or_else(|| wanted.clone(), |shared| overlay(shared, wanted)));
    }
    let rest = present.filter(|condition| {
        let kind = kind_of(condition);
        !owned.contains(&kind) && !is_own_alone(&kind)
    });
    conditions.extend(rest.cloned());
    let set = changed(&before, &conditions, &owned);
    Applied { conditions, set, owned }
}

/// The types of these that differ between two lists.
fn changed(before: &[Value], after: &[Value], of: &Types) -> Types {
    let find = |list: &[Value], kind: &str| {
        list.iter().find(|condition| kind_of(condition) == kind).cloned()
    };
    of.iter().filter(|kind| find(before, kind) != find(after, kind)).cloned().collect()
}

/// The types of the conditions of an object.
fn types(object: &Value) -> Types {
    conditions_of(object).iter().map(kind_of).collect()
}

/// The conditions of an object, or none.
fn conditions_of(object: &Value) -> Vec<Value> {
    object["status"]["conditions"].as_array().cloned().unwrap_or_default()
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
