//! One line of the log: an audit event, and the object that it says was written.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::event::object::{self, Metadata};
use crate::event::{Scope, Unusable, name};

/// The resources whose writes change what is registered.
const FOLLOWED: [&str; 3] = ["services", "endpoints", "endpointslices"];
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

/// The part of an `audit.k8s.io/v1` Event that says what was written, and whether it was.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditEvent {
    stage: String,
    verb: String,
    object_ref: Option<ObjectReference>,
    response_status: Option<ResponseStatus>,
    request_object: Option<Value>,
    response_object: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectReference {
    resource: String,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    api_group: Option<String>,
    api_version: Option<String>,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

/// Where a line says to look; `None` where it is about nothing that is followed.
pub(super) fn read_line(message: &str) -> Result<Option<Scope>, Unusable> {
    let event: AuditEvent = serde_json::from_str(message).map_err(|_| Unusable::NotJson)?;
    let Some(written) = event.written() else { return Ok(None) };
    let version = match written.api_group.as_deref() {
        None | Some("") => "v1".to_owned(),
        Some(group) => format!("{group}/{}", written.api_version.as_deref().unwrap_or("v1")),
    };
    let read = |metadata: &Map<String, Value>| {
        let metadata = Metadata::read(metadata)?;
        object::scope(&written.resource, Some(&version), &metadata)
    };
    let object = [&event.response_object, &event.request_object].into_iter().flatten();
    for metadata in object.filter_map(|object| object.get("metadata")?.as_object()) {
        let of_object = written.completed(metadata);
        if let Ok(scope) = read(&of_object) {
            return Ok(Some(scope));
        }
    }
    match read(&written.completed(&Map::new())) {
        Err(Unusable::IncompleteScope { missing: "name" }) => written.whole_namespace().map(Some),
        scope => scope.map(Some),
    }
}

impl AuditEvent {
    /// What was written, where it is followed and the API server says that it was done.
    fn written(&self) -> Option<&ObjectReference> {
        let done = self.response_status.as_ref().is_none_or(|status| status.code < 300);
        let finished = self.stage == "ResponseComplete" && done;
        let object = self.object_ref.as_ref().filter(|_| finished)?;
        let followed = FOLLOWED.contains(&object.resource.as_str()) && object.subresource.is_none();
        (followed && WRITES.contains(&self.verb.as_str())).then_some(object)
    }
}

impl ObjectReference {
    /// Metadata of the object, with the name and namespace that the request was about.
    fn completed(&self, metadata: &Map<String, Value>) -> Map<String, Value> {
        let mut metadata = metadata.clone();
        for (field, text) in [("namespace", &self.namespace), ("name", &self.name)] {
            if let Some(text) = text {
                metadata.insert(field.to_owned(), Value::String(text.clone()));
            }
        }
        metadata
    }

    /// An object whose name the API server made up, or all objects of a namespace: at the level
    /// `Metadata` the log does not say which.
    fn whole_namespace(&self) -> Result<Scope, Unusable> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        Ok(Scope::inside(name::namespace(namespace)?, None))
    }
}
