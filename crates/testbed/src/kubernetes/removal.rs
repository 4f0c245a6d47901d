//! Deletion by HTTP: preconditions, the admission policy, finalizers.

use serde_json::{Value, json};

use super::super::clock;
use super::status::Failure;
use super::world::World;
use super::writes::Write;

/// Answers a DELETE of one object.
pub fn delete(world: &mut World, write: &Write<'_>) -> Result<Value, Failure> {
    let mut object = write.present(world)?;
    let options = if write.body.is_empty() { json!({}) } else { write.json()? };
    let (resource, name) = (write.resource, write.target.name.as_str());
    for (key, what) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (wanted, is) = (&options["preconditions"][key], &object["metadata"][key]);
        if !wanted.is_null() && wanted != is {
            return Err(Failure::precondition(resource, name, what, wanted, is));
        }
    }
    write.admit(world, name, Some(&object), None)?;
    if is_held(&object) {
        if object["metadata"]["deletionTimestamp"].is_null() {
            let now = clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            object["metadata"]["deletionTimestamp"] = now.into();
            object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        }
        return Ok(world.keep_sent(resource, object));
    }
    world.delete(resource, &write.target.namespace, name);
    let mut details =
        json!({"name": name, "kind": resource.plural, "uid": object["metadata"]["uid"]});
    if !resource.group.is_empty() {
        details["group"] = resource.group.into();
    }
    Ok(json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": details,
    }))
}

/// Whether a finalizer keeps an object.
pub fn is_held(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|it| !it.is_empty())
}
