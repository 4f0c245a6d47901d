//! What the garbage collector and the namespace controller remove, at once instead of a little later.

use serde_json::Value;

use super::resource::{RESOURCES, Resource};
use super::store::Store;

/// An object by its resource, namespace and name.
pub type Place = (&'static Resource, String, String);

/// The objects of a namespace that name the object with this UID as an owner and have no owner left.
pub fn orphans_of(store: &Store, namespace: &str, uid: &Value) -> Vec<Place> {
    let names_it = |object: &Value| owners(object).iter().any(|owner| owner["uid"] == *uid);
    let all = objects_in(store, namespace).into_iter();
    let orphans = all.filter(|(_, object)| names_it(object) && is_orphan(store, object));
    orphans.map(|(resource, object)| place(resource, &object)).collect()
}

/// Everything in a namespace.
pub fn content_of(store: &Store, namespace: &str) -> Vec<Place> {
    let all = objects_in(store, namespace).into_iter();
    all.map(|(resource, object)| place(resource, &object)).collect()
}

/// Whether an object has owners and none of them exists. An owner of a kind that the stand-in does not have is alive.
pub fn is_orphan(store: &Store, object: &Value) -> bool {
    let owners = owners(object);
    !owners.is_empty() && !owners.iter().any(|owner| is_alive(store, object, owner))
}

fn is_alive(store: &Store, object: &Value, owner: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let Some(resource) = Resource::of_object(&text(&owner["apiVersion"]), &text(&owner["kind"]))
    else {
        return true;
    };
    let namespace =
        if resource.namespaced { &object["metadata"]["namespace"] } else { &Value::Null };
    let found = store.get(resource, &text(namespace), &text(&owner["name"]));
    found.is_some_and(|found| found["metadata"]["uid"] == owner["uid"])
}

fn owners(object: &Value) -> &[Value] {
    object["metadata"]["ownerReferences"].as_array().map_or(&[], Vec::as_slice)
}

fn objects_in(store: &Store, namespace: &str) -> Vec<(&'static Resource, std::sync::Arc<Value>)> {
    if namespace.is_empty() {
        return Vec::new();
    }
    let resources = RESOURCES.into_iter().filter(|resource| resource.namespaced);
    resources
        .flat_map(|resource| {
            let objects = store.all(resource, namespace);
            objects.into_iter().map(move |object| (resource, object))
        })
        .collect()
}

fn place(resource: &'static Resource, object: &Value) -> Place {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    (resource, text("namespace"), text("name"))
}
