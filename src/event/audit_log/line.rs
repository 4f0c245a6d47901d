//! One line of the log: an audit event of the API server. The written object gives the scope; an event that is no
//! finished write of a followed resource gives none.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::event::object::{self, Metadata};
use crate::event::{Scope, Unusable, name};

/// The resources of which a write can change a registration, or an import.
const FOLLOWED: [&str; 5] =
    ["services", "endpoints", "endpointslices", "serviceexports", "namespaces"];
/// The group of the function in `deploy/`. What it wrote itself needs no sync.
const OWN_GROUP: &str = "cloud-map-sync";
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

/// The part of an `audit.k8s.io/v1` Event with the written object and the response.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditEvent {
    stage: String,
    verb: String,
    #[serde(default)]
    user: User,
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

#[derive(Default, Deserialize)]
struct User {
    #[serde(default)]
    groups: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

/// The scope of a line; `None` if it is no write of a followed resource.
pub(super) fn read_line(message: &str) -> Result<Option<Scope>, Unusable> {
    let event: AuditEvent = serde_json::from_str(message).map_err(|_| Unusable::NotJson)?;
    let Some(written) = event.written_object() else { return Ok(None) };
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
        let of_object = written.complete_metadata(metadata);
        match read(&of_object) {
            Ok(scope) => return Ok(Some(scope)),
            Err(Unusable::Imported) => return Ok(None),
            Err(_) => {}
        }
    }
    match read(&written.complete_metadata(&Map::new())) {
        Err(Unusable::Imported) => Ok(None),
        Err(Unusable::IncompleteScope { missing: "name" }) => written.namespace_scope().map(Some),
        scope => scope.map(Some),
    }
}

impl AuditEvent {
    /// The written object, if its resource is followed and the API server finished the write.
    fn written_object(&self) -> Option<&ObjectReference> {
        let done = self.response_status.as_ref().is_none_or(|status| status.code < 300);
        let finished = self.stage == "ResponseComplete" && done;
        let is_own = self.user.groups.iter().any(|group| group == OWN_GROUP);
        let object = self.object_ref.as_ref().filter(|_| finished && !is_own)?;
        let followed = FOLLOWED.contains(&object.resource.as_str()) && object.subresource.is_none();
        (followed && WRITES.contains(&self.verb.as_str())).then_some(object)
    }
}

impl ObjectReference {
    /// The object's metadata, with name and namespace from the request.
    fn complete_metadata(&self, metadata: &Map<String, Value>) -> Map<String, Value> {
        let mut metadata = metadata.clone();
        for (field, text) in [("namespace", &self.namespace), ("name", &self.name)] {
            if let Some(text) = text {
                metadata.insert(field.to_owned(), Value::String(text.clone()));
            }
        }
        metadata
    }

    /// The scope of a namespace. At the level `Metadata` the log has no name for an object with a generated name, nor
    /// for a write to all objects of a namespace.
    fn namespace_scope(&self) -> Result<Scope, Unusable> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        Ok(Scope::inside(name::namespace(namespace)?, None))
    }
}
