//! One write to the API server, and the order of the writes of an import. [`super::Present::body`] completes a change with
//! the values that the API server assigned to earlier ones.

use std::fmt;

use serde_json::Value;

use super::present::OwnerReference;
use crate::model::words::words;
use crate::model::{Family, ServiceRef};

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

/// An object by kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

words! {
    pub enum Kind {
        ServiceImport = "ServiceImport",
        Service = "Service",
        EndpointSlice = "EndpointSlice",
    }
}

/// The order of the changes of one import. All additions precede all removals, so an endpoint that moves to another
/// slice is in before it is out. The name of a port is removed from the derived Service before it is removed from the
/// slices: kube-proxy connects the two by that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The ServiceImport, without IPs: the other objects refer to it as their owner.
    CreateImport,
    /// The derived Service and its new ports and families.
    AddPorts,
    AddEndpoints,
    /// The ServiceImport's IPs and all else that differs.
    UpdateImport,
    RemovePorts,
    RemoveEndpoints,
    /// The ServiceImport of a name that no cluster exports. Its objects are removed by garbage collection.
    DeleteImport,
    /// Last, since it reports the success of all others. If one failed, the plan is made again with
    /// [`super::Basis::failure`].
    Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// POST of the whole object.
    Create,
    /// A JSON merge patch of the fields that differ. Not a server-side apply: that never gives up the fields of a POST.
    Patch,
    /// A JSON merge patch of the status sub-resource.
    PatchStatus,
    Delete,
}

/// An object or a patch of it, without the values that the API server assigns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub body: Value,
    /// If the owner references are written: those to other owners. The one to the ServiceImport is added.
    pub owners: Option<Vec<OwnerReference>>,
    /// If `spec.ips` is written: the families of the derived Service's addresses, in their order.
    pub ips: Option<Vec<Family>>,
}

impl Kind {
    pub fn api_version(self) -> &'static str {
        match self {
            Self::ServiceImport => "multicluster.x-k8s.io/v1beta1",
            Self::Service => "v1",
            Self::EndpointSlice => "discovery.k8s.io/v1",
        }
    }

    /// The resource as kubectl has it.
    pub fn resource(self) -> &'static str {
        match self {
            Self::ServiceImport => "serviceimports.multicluster.x-k8s.io",
            Self::Service => "services",
            Self::EndpointSlice => "endpointslices.discovery.k8s.io",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ObjectRef {
    /// An object of the import of a service.
    pub fn of(service: &ServiceRef, kind: Kind, name: &str) -> Self {
        Self { kind, namespace: service.namespace.clone(), name: name.to_owned() }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

impl Content {
    pub fn new(body: Value) -> Self {
        Self { body, ..Self::default() }
    }

    /// The paths of the fields, without `spec` and `metadata` at their start.
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
        (!fields.is_empty()).then(|| Self { stage, object, write: Write::Patch, content, detail })
    }

    pub fn deletion(object: ObjectRef, detail: &str) -> Self {
        let stage = match object.kind {
            Kind::ServiceImport => Stage::DeleteImport,
            Kind::Service => Stage::RemovePorts,
            Kind::EndpointSlice => Stage::RemoveEndpoints,
        };
        let (content, detail) = (Content::default(), detail.to_owned());
        Self { stage, object, write: Write::Delete, content, detail }
    }

    /// The change as a line of the plan's table.
    pub fn line(&self) -> String {
        let noun = match (self.object.kind, self.write) {
            (_, Write::PatchStatus) => "status",
            (Kind::ServiceImport, _) => "import",
            (Kind::Service, _) => "service",
            (Kind::EndpointSlice, _) => "slice",
        };
        let ObjectRef { namespace, name, .. } = &self.object;
        format!("{} {noun:<10} {namespace}/{name}  {}", self.sign(), self.detail)
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
