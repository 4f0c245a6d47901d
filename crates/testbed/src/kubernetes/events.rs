//! Creates events.k8s.io/v1 Events.

use serde_json::Value;

use super::resource::EVENTS;
use super::status::Failure;
use super::store::Store;

/// Stores a new Event and answers it.
pub fn create(store: &mut Store, namespace: &str, mut event: Value) -> Result<Value, Failure> {
    let name = event["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if store.get(&EVENTS, namespace, &name).is_some() {
        return Err(Failure::already_exists(&EVENTS, &name));
    }
    event["apiVersion"] = "events.k8s.io/v1".into();
    event["kind"] = "Event".into();
    event["metadata"]["namespace"] = namespace.into();
    Ok((*store.put(&EVENTS, event)).clone())
}
