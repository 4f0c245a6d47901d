//! One write to the API server with its fields, and the order of the writes of an import. [`super::Present::body`]
//! completes a change with the values that the API server assigned to earlier ones.

use std::fmt;

use serde_json::{Map, Value, json};

use super::present_objects::{Metadata, OwnerReference, ServiceImport, Texts};
use crate::model::{ExportedPort, Family, Line, Outcome, ServiceRef, join_or};

pub use crate::model::{Kind, ObjectRef};

/// One write to the API server of the importing cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub stage: Stage,
    pub object: ObjectRef,
    pub write: Write,
    pub content: Content,
    /// The content or the difference, for people.
    pub detail: String,
}

/// The order of the changes of one import. All additions precede all removals, so an endpoint that moves to another
/// slice is added there before it is removed from its present slice. The name of a port is removed from the derived
/// Service before it is removed from the slices, since kube-proxy connects the two by that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The ServiceImport, without IPs: the other objects refer to it as their owner.
    CreateImport,
    /// The derived Service and its new ports and families.
    AddPorts,
    AddEndpoints,
    /// The ServiceImport's IPs and all its other differences.
    UpdateImport,
    RemovePorts,
    RemoveEndpoints,
    /// Removes the guard's note about a loss that was carried out.
    RemoveNote,
    /// The ServiceImport of a name that no cluster exports. Its objects are removed by garbage collection.
    DeleteImport,
    /// Last, since it reports the success of all others. If one failed, the plan is made again with
    /// [`super::PlanInput::failures`].
    Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// POST of the whole object.
    Create,
    /// A JSON merge patch of the fields that differ. Server-side apply cannot be used: it never removes fields that a
    /// POST created.
    Patch,
    /// A JSON merge patch of the status sub-resource.
    PatchStatus,
    Delete,
}

/// An object or a patch of it, without the values that the API server assigns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub body: Value,
    /// The owner references to other owners, if the change writes owner references. The one to the ServiceImport is
    /// added later.
    pub owners: Option<Vec<OwnerReference>>,
    /// The families of the import's IPs in their order, if the change writes `spec.ips`. The IPs are those of the
    /// derived Service.
    pub ips: Option<Vec<Family>>,
}

impl Content {
    pub fn new(body: Value) -> Self {
        Self { body, ..Self::default() }
    }

    /// The paths of the fields for people, without a leading `spec` or `metadata`.
    pub fn fields(&self) -> Vec<String> {
        let mut fields = Vec::new();
        if !self.body.is_null() {
            add_paths(&self.body, "", &mut fields);
        }
        fields.extend(self.ips.as_ref().map(|_| "ips".to_owned()));
        fields.extend(self.owners.as_ref().map(|_| "ownerReferences".to_owned()));
        fields
    }
}

fn add_paths(patch: &Value, path: &str, paths: &mut Vec<String>) {
    let Value::Object(fields) = patch else {
        paths.push(path.to_owned());
        return;
    };
    for (key, value) in fields {
        let is_part = path.is_empty() && ["metadata", "spec"].contains(&key.as_str());
        let path = match path {
            _ if is_part => String::new(),
            "" => key.clone(),
            path => format!("{path}.{key}"),
        };
        add_paths(value, &path, paths);
    }
}

impl Change {
    /// The patch of the fields that differ; `None` if there are none.
    pub fn patch(stage: Stage, object: ObjectRef, content: Content) -> Option<Self> {
        let fields = content.fields();
        let detail = fields.join(", ");
        (!fields.is_empty()).then_some(Self { stage, object, write: Write::Patch, content, detail })
    }

    pub fn deletion(object: ObjectRef, detail: &str) -> Self {
        let stage = match object.kind {
            Kind::ServiceImport => Stage::DeleteImport,
            Kind::Service => Stage::RemovePorts,
            _ => Stage::RemoveEndpoints,
        };
        let content = Content::default();
        let detail = detail.to_owned();
        Self { stage, object, write: Write::Delete, content, detail }
    }

    /// Returns the change without its content, for the report after the change was sent. In a first sync of many
    /// clusters, the contents would take more memory than everything that the run reads.
    #[must_use]
    pub fn without_content(self) -> Self {
        Self { content: Content::default(), ..self }
    }

    /// The report line of the change in the import of a name.
    pub fn line(&self, import: &ServiceRef, outcome: Outcome) -> Line {
        let noun = match (self.object.kind, self.write) {
            (_, Write::PatchStatus) => "status",
            (Kind::ServiceImport, _) => "import",
            (Kind::Service, _) => "service",
            _ => "slice",
        };
        let ObjectRef { namespace, name, .. } = &self.object;
        let line = Line::new(self.sign(), noun, &*self.detail, outcome).about(import.clone());
        Line { object: Some(format!("{namespace}/{name}")), ..line }
    }

    fn sign(&self) -> char {
        match self.write {
            Write::Create => '+',
            Write::Patch | Write::PatchStatus => '~',
            Write::Delete => '-',
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = if self.write == Write::PatchStatus { " status" } else { "" };
        write!(f, "{} {}{part}: {}", self.sign(), self.object, self.detail)
    }
}

// JSON merge patches (RFC 7386) of the fields that differ. Both sides contain only the fields that the plan decides, so
// a patch leaves all others unchanged.

/// The creation of an object with these fields.
pub(super) fn creation(stage: Stage, object: ObjectRef, mut body: Value, detail: String) -> Change {
    body["apiVersion"] = json!(object.kind.api_version());
    body["kind"] = json!(object.kind);
    body["metadata"]["name"] = json!(object.name);
    body["metadata"]["namespace"] = json!(object.namespace);
    body["metadata"] = without_empty(body["metadata"].take());
    // All other objects have an owner reference to the ServiceImport.
    let owners = (object.kind != Kind::ServiceImport).then(Vec::new);
    let content = Content { body, owners, ips: None };
    Change { stage, object, write: Write::Create, content, detail }
}

/// The patch that turns `present` into `wanted`; `None` if they are equal. A field that is only present becomes null,
/// which removes it.
pub(super) fn difference(present: &Value, wanted: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (present, wanted) else {
        return (present != wanted).then(|| wanted.clone());
    };
    let mut patch = Map::new();
    for (key, value) in after {
        let changed = match before.get(key) {
            Some(before) => difference(before, value),
            None => Some(value.clone()),
        };
        patch.extend(changed.map(|value| (key.clone(), value)));
    }
    let removed = before.keys().filter(|key| !after.contains_key(*key));
    patch.extend(removed.map(|key| (key.clone(), Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Returns the labels or annotations with these keys. All others belong to other writers.
pub(super) fn only<'a>(texts: &Texts, keys: impl IntoIterator<Item = &'a str>) -> Texts {
    let keys = keys.into_iter().filter_map(|key| texts.get_key_value(key));
    keys.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Returns the owner references to write, without the one to the ServiceImport. `None` if the object has exactly one
/// reference to a ServiceImport, and this is the present ServiceImport. A reference with another UID is outdated: the
/// ServiceImport was deleted and recreated, and garbage collection removes an object without an existing owner.
pub(super) fn owners(
    metadata: &Metadata,
    import: Option<&ServiceImport>,
) -> Option<Vec<OwnerReference>> {
    let (imports, others): (Vec<_>, Vec<_>) =
        metadata.owner_references.iter().partition(|owner| owner.is_import());
    let uid = import.map(|import| &import.metadata.uid);
    let is_right = matches!(imports.as_slice(), [owner] if Some(&owner.uid) == uid);
    (!is_right).then(|| others.into_iter().cloned().collect())
}

/// Removes empty fields, as the API server does. `ports` stays, since a ServiceImport requires it.
pub(super) fn without_empty(mut object: Value) -> Value {
    let empty = [Value::Null, json!(""), json!([]), json!({})];
    if let Value::Object(fields) = &mut object {
        fields.retain(|key, value| key == "ports" || !empty.contains(value));
    }
    object
}

/// Describes ports for people: `http:80/TCP`.
pub(super) fn describe_ports(ports: &[ExportedPort]) -> String {
    let describe = |port: &ExportedPort| {
        let colon = if port.name.is_empty() { "" } else { ":" };
        format!("{}{colon}{}/{}", port.name, port.number, port.protocol.as_str())
    };
    join_or(ports.iter().map(describe), " ", "no ports")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_has_only_the_fields_that_differ() {
        let cases = [
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({"a": 1}), json!({"a": 2}), Some(json!({"a": 2}))),
            (json!({"a": 1}), json!({}), Some(json!({"a": null}))),
            (json!({}), json!({"a": {"b": 1}}), Some(json!({"a": {"b": 1}}))),
            (
                json!({"a": {"b": 1, "c": [1, 2]}, "d": 1}),
                json!({"a": {"b": 1, "c": [1]}, "d": 1}),
                Some(json!({"a": {"c": [1]}})),
            ),
        ];
        for (present, wanted, expected) in cases {
            assert_eq!(difference(&present, &wanted), expected, "{present} -> {wanted}");
        }
    }

    #[test]
    fn owners_of_other_kinds_and_groups_stay() {
        let owner = |api_version: &str, kind: &str| OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            uid: format!("{kind} of {api_version}"),
            ..OwnerReference::default()
        };
        let own = [owner("multicluster.x-k8s.io/v1alpha1", "ServiceImport")];
        let others = [
            owner("other.example/v1", "ServiceImport"),
            owner("multicluster.x-k8s.io/v1beta1", "ServiceExport"),
        ];
        let owner_references = own.into_iter().chain(others.clone()).collect();
        let metadata = Metadata { owner_references, ..Metadata::default() };
        assert_eq!(owners(&metadata, None), Some(others.to_vec()));
    }

    #[test]
    fn description_names_the_fields() {
        let body =
            json!({"metadata": {"labels": {"a": "1"}}, "spec": {"ports": [], "x": {"y": 1}}});
        let content = Content { body, owners: Some(Vec::new()), ips: None };
        assert_eq!(content.fields().join(", "), "labels.a, ports, x.y, ownerReferences");
        assert!(Content::default().fields().is_empty());
    }
}
