//! Writes by HTTP: create, patch, delete, in the order of checks of a real server. The endpoint controllers
//! and the garbage collector then run as after a change by a test.
//!
//! Creation: the namespace must be there, the object valid, the name free.
//!
//! Deletion by HTTP: preconditions, the admission policy, finalizers.

use axum::http::{HeaderMap, Method, Uri};
use serde_json::{Value, json};

use super::access::User;
use super::list::Parameters;
use super::managers::Manager;
use super::resource::{
    ENDPOINT_SLICES, EVENTS, NAMESPACES, Resource, SERVICE_IMPORTS, SERVICES, Target,
};
use super::status::{Failure, details};
use super::world::World;
use super::{managers, patch, recorded, validation};
use crate::clock;

/// A request that changes an object.
pub struct Write<'a> {
    /// Who sends it.
    pub user: &'a User,
    /// What it is about.
    pub resource: &'static Resource,
    /// Where that is.
    pub target: &'a Target,
    /// Its path and query.
    pub uri: &'a Uri,
    pub parameters: &'a Parameters,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
}

/// Answers a request that changes an object.
pub fn write(world: &mut World, method: &Method, write: &Write<'_>) -> Result<Value, Failure> {
    let is_tried =
        method == Method::POST && [&SERVICE_IMPORTS, &ENDPOINT_SLICES].contains(&write.resource);
    if !matches!((write.parameters.dry_run.as_str(), is_tried), ("", _) | ("All", true)) {
        return Err(Failure::bad_request(
            "the sandbox makes no dry runs but of new ServiceImports and EndpointSlices",
        ));
    }
    let before = world.present(write.resource, write.target).ok();
    let after = match (method, write.target.name.is_empty()) {
        (&Method::POST, true) => create(world, write)?,
        (&Method::PATCH, false) => patch::patch(world, write)?,
        (&Method::DELETE, false) if write.target.subresource.is_empty() => delete(world, write)?,
        _ => return Err(Failure::method_not_allowed()),
    };
    // A real API server, to which these are shown later, has no such webhook.
    if world.webhook_distribution.is_none() {
        recorded::record(method, write, before.as_ref(), &after);
    }
    Ok(after)
}

impl Write<'_> {
    /// Whether all is checked, and nothing stored.
    pub fn is_dry_run(&self) -> bool {
        !self.parameters.dry_run.is_empty()
    }

    pub fn json(&self) -> Result<Value, Failure> {
        serde_json::from_slice(self.body)
            .map_err(|error| Failure::bad_request(format!("the object could not be read: {error}")))
    }

    /// The object in the body, of the kind and namespace of the path.
    pub fn object(&self) -> Result<Value, Failure> {
        let mut object = self.json()?;
        self.place(&mut object);
        Ok(object)
    }

    /// Sets what the path says: kind and namespace, in the stored version.
    pub fn place(&self, object: &mut Value) {
        object["apiVersion"] = self.resource.api_version().into();
        object["kind"] = self.resource.kind.into();
        if self.resource.namespaced {
            object["metadata"]["namespace"] = self.target.namespace.as_str().into();
        }
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The field manager: as named, or else the program of the user agent.
    pub fn manager(&self, operation: &'static str) -> Manager<'_> {
        let agent = self.header("user-agent").split('/').next().unwrap_or_default();
        let named = self.parameters.field_manager.as_str();
        Manager {
            name: if named.is_empty() { agent } else { named },
            operation,
            subresource: &self.target.subresource,
            api_version: self.resource.api_version_of(&self.target.version),
            time: clock::timestamp(),
        }
    }

    /// Lets the mutating webhook change a Service.
    pub fn mutate(&self, world: &World, object: &mut Value) {
        let is_service = *self.resource == SERVICES && !self.target.is_status();
        if let Some(distribution) = world.webhook_distribution.filter(|_| is_service) {
            object["spec"]["trafficDistribution"] = distribution.into();
        }
    }

    /// Asks the admission policy, which the administrator is not subject to.
    pub fn admit(
        &self,
        world: &World,
        name: &str,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Result<(), Failure> {
        let policy = world.multi_cluster.admission.as_ref();
        let policy = policy.filter(|_| !self.user.is_administrator());
        policy.map_or(Ok(()), |policy| {
            policy.check(self.resource, (&self.target.namespace, name), before, after)
        })
    }
}

/// Answers a POST on a collection.
pub fn create(world: &mut World, write: &Write<'_>) -> Result<Value, Failure> {
    if *write.resource == EVENTS {
        let event = write.json()?;
        check_namespace(world, write, event["metadata"]["name"].as_str().unwrap_or_default())?;
        return create_event(world, &write.target.namespace, event);
    }
    let mut object = write.object()?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    check_namespace(world, write, &name)?;
    managers::restore(&mut object, None);
    reset_status(&mut object, write);
    write.mutate(world, &mut object);
    let mut object = validation::complete(world, write.resource, object, None)?;
    write.admit(world, &name, None, Some(&object))?;
    if world.store.get(write.resource, &write.target.namespace, &name).is_some() {
        return Err(Failure::already_exists(write.resource, &name));
    }
    check_quota(world, write, &name)?;
    write.manager("Update").created(&mut object);
    if write.is_dry_run() {
        return Ok(object);
    }
    Ok(world.keep_sent(write.resource, object))
}

/// The last of the admission plugins.
fn check_quota(world: &World, write: &Write<'_>, name: &str) -> Result<(), Failure> {
    let namespace = &write.target.namespace;
    let limit = world.quotas.get(&(namespace.clone(), write.resource.plural.to_owned()));
    match limit {
        Some(limit) if world.store.all(write.resource, namespace).len() >= *limit => {
            Err(Failure::exceeded_quota(write.resource, name, *limit))
        }
        _ => Ok(()),
    }
}

fn create_event(world: &mut World, namespace: &str, mut event: Value) -> Result<Value, Failure> {
    let name = event["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if world.store.get(&EVENTS, namespace, &name).is_some() {
        return Err(Failure::already_exists(&EVENTS, &name));
    }
    event["apiVersion"] = "events.k8s.io/v1".into();
    event["kind"] = "Event".into();
    event["metadata"]["namespace"] = namespace.into();
    Ok((*world.store.put(&EVENTS, event)).clone())
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

/// Answers a DELETE of one object.
pub fn delete(world: &mut World, write: &Write<'_>) -> Result<Value, Failure> {
    let mut object = world.present(write.resource, write.target)?;
    let options = if write.body.is_empty() { json!({}) } else { write.json()? };
    let resource = write.resource;
    let name = write.target.name.as_str();
    for (key, what) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let wanted = &options["preconditions"][key];
        let is = &object["metadata"][key];
        if !wanted.is_null() && wanted != is {
            return Err(Failure::precondition(resource, name, what, wanted, is));
        }
    }
    write.admit(world, name, Some(&object), None)?;
    if is_held(&object) {
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = clock::timestamp().into();
            object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        }
        return Ok(world.keep_sent(resource, object));
    }
    world.delete(resource, &write.target.namespace, name);
    let mut details = details(resource.group, resource.plural, name);
    details["uid"] = object["metadata"]["uid"].clone();
    Ok(json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": details,
    }))
}

/// Whether a finalizer keeps an object.
pub fn is_held(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}
