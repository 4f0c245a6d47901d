//! One write to the API server, and the order of the writes of an import. [`super::Known`] completes a change with the
//! values that the API server assigned to earlier ones.

use std::fmt;

use serde_json::Value;

use super::present::OwnerReference;
use crate::model::Family;

/// One write to the API server of the importing cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub stage: Stage,
    pub object: ObjectRef,
    pub write: Write,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ServiceImport,
    Service,
    EndpointSlice,
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// POST of the whole object.
    Create(Content),
    /// A JSON merge patch of the fields that differ. Not a server-side apply: that never gives up the fields of a POST.
    Patch(Content),
    /// A JSON merge patch of the status sub-resource.
    PatchStatus(Value),
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
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServiceImport => "ServiceImport",
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
        }
    }

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

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

impl Change {
    /// The change as a line of the plan's table.
    pub fn line(&self) -> String {
        let noun = match (self.object.kind, &self.write) {
            (_, Write::PatchStatus(_)) => "status",
            (Kind::ServiceImport, _) => "import",
            (Kind::Service, _) => "service",
            (Kind::EndpointSlice, _) => "slice",
        };
        let ObjectRef { namespace, name, .. } = &self.object;
        format!("{} {noun:<10} {namespace}/{name}  {}", self.sign(), self.detail)
    }

    fn sign(&self) -> char {
        match self.write {
            Write::Create(_) => '+',
            Write::Patch(_) | Write::PatchStatus(_) => '~',
            Write::Delete => '-',
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = if matches!(self.write, Write::PatchStatus(_)) { " status" } else { "" };
        write!(f, "{} {}{part}: {}", self.sign(), self.object, self.detail)
    }
}
