//! Creation: the namespace must be there, the object valid, the name free.

use serde_json::{Value, json};

use super::resource::{EVENTS, NAMESPACES};
use super::status::Failure;
use super::world::World;
use super::writes::Write;
use super::{events, metadata, validation};

/// Answers a POST on a collection.
pub fn create(world: &mut World, write: &Write<'_>) -> Result<Value, Failure> {
    if *write.resource == EVENTS {
        let event = write.json()?;
        check_namespace(world, write, event["metadata"]["name"].as_str().unwrap_or_default())?;
        return events::create(&mut world.store, &write.target.namespace, event);
    }
    let mut object = write.object()?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    check_namespace(world, write, &name)?;
    metadata::restore(&mut object, None);
    reset_status(&mut object, write);
    let mut object = validation::complete(world, write.resource, object, None)?;
    write.admit(world, &name, None, Some(&object))?;
    if world.store.get(write.resource, &write.target.namespace, &name).is_some() {
        return Err(Failure::already_exists(write.resource, &name));
    }
    write.manager("Update").created(&mut object);
    if write.is_dry_run() {
        return Ok(object);
    }
    Ok(world.keep_sent(write.resource, object))
}

/// What the NamespaceLifecycle admission of every server checks.
fn check_namespace(world: &World, write: &Write<'_>, name: &str) -> Result<(), Failure> {
    if !write.resource.namespaced {
        return Ok(());
    }
    let namespace = write.target.namespace.as_str();
    let found = world.store.get(&NAMESPACES, "", namespace);
    let found = found.ok_or_else(|| Failure::not_found(&NAMESPACES, namespace))?;
    let is_going = !found["metadata"]["deletionTimestamp"].is_null()
        || found["status"]["phase"] == "Terminating";
    if is_going {
        return Err(Failure::terminating(write.resource, name, namespace));
    }
    Ok(())
}

/// The status of what has a status sub-resource is not written by a creation.
fn reset_status(object: &mut Value, write: &Write<'_>) {
    if write.resource.has_status()
        && let Some(members) = object.as_object_mut()
    {
        members.remove("status");
    }
    if *write.resource == super::resource::SERVICES {
        object["status"] = json!({"loadBalancer": {}});
    }
}
