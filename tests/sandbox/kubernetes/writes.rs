//! Writes by the administrator, so that kubectl can change a served cluster: create, replace, merge-patch, delete. The
//! endpoint controllers then run as after a change by a test.

use axum::http::Method;
use serde_json::{Value, json};

use super::events;
use super::resource::{EVENTS, Resource, Target};
use super::status::Failure;
use super::world::World;

/// Answers a request that changes an object.
pub fn write(
    world: &mut World,
    method: &Method,
    resource: &'static Resource,
    target: &Target,
    content_type: &str,
    body: &[u8],
) -> Result<Value, Failure> {
    let (namespace, name) = (target.namespace.as_str(), target.name.as_str());
    match (method, name.is_empty()) {
        (&Method::POST, true) => create(world, resource, namespace, object(body)?),
        (&Method::PUT, false) => {
            existing(world, resource, namespace, name)?;
            let mut replacement = object(body)?;
            replacement["metadata"]["name"] = name.into();
            Ok(world.put(place(resource, namespace, replacement)))
        }
        (&Method::PATCH, false) => patch(world, resource, target, content_type, body),
        (&Method::DELETE, false) => {
            existing(world, resource, namespace, name)?;
            world.delete(resource, namespace, name);
            Ok(json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": {"name": name, "kind": resource.plural},
            }))
        }
        _ => Err(Failure::method_not_allowed()),
    }
}

fn create(
    world: &mut World,
    resource: &'static Resource,
    namespace: &str,
    object: Value,
) -> Result<Value, Failure> {
    if *resource == EVENTS {
        return events::create(&mut world.store, namespace, object);
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if name.is_empty() {
        let causes = ["metadata.name: Required value: name or generateName is required".to_owned()];
        return Err(Failure::invalid(resource, "", &causes));
    }
    if existing(world, resource, namespace, &name).is_ok() {
        return Err(Failure::already_exists(resource, &name));
    }
    Ok(world.put(place(resource, namespace, object)))
}

fn patch(
    world: &mut World,
    resource: &'static Resource,
    target: &Target,
    content_type: &str,
    body: &[u8],
) -> Result<Value, Failure> {
    let mut object_now = existing(world, resource, &target.namespace, &target.name)?;
    if content_type != "application/merge-patch+json" {
        return Err(Failure::unsupported_media_type(content_type));
    }
    merge(&mut object_now, object(body)?);
    Ok(world.put(place(resource, &target.namespace, object_now)))
}

/// RFC 7396.
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

fn existing(
    world: &World,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Value, Failure> {
    let found = world.store.get(resource, namespace, name);
    found.map(|object| (*object).clone()).ok_or_else(|| Failure::not_found(resource, name))
}

fn object(body: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(body)
        .map_err(|error| Failure::bad_request(format!("the object could not be read: {error}")))
}

fn place(resource: &Resource, namespace: &str, mut object: Value) -> Value {
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.into();
    if resource.namespaced {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}
