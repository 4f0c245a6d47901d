//! The kinds of Kubernetes objects that are followed, read or written, and a reference to one object.

use super::ServiceRef;
use super::words::{display, words};

words! {
    /// A kind of objects. Of several of an import, the first kind is named in a report.
    pub enum Kind {
        Namespace = "Namespace",
        Pod = "Pod",
        ServiceExport = "ServiceExport",
        ServiceImport = "ServiceImport",
        Service = "Service",
        Endpoints = "Endpoints",
        EndpointSlice = "EndpointSlice",
    }
}

impl Kind {
    /// The version of the API that is read and written.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Namespace | Self::Pod | Self::Service | Self::Endpoints => "v1",
            Self::EndpointSlice => "discovery.k8s.io/v1",
            Self::ServiceExport | Self::ServiceImport => "multicluster.x-k8s.io/v1beta1",
        }
    }

    /// The API group; empty for the core group.
    pub fn group(self) -> &'static str {
        self.api_version().split_once('/').map_or("", |(group, _)| group)
    }

    /// The name of its resource in paths.
    pub fn plural(self) -> String {
        let name = self.as_str().to_ascii_lowercase();
        if name.ends_with('s') { name } else { name + "s" }
    }

    /// The same with its group, as kubectl takes it.
    pub fn resource(self) -> String {
        let (plural, group) = (self.plural(), self.group());
        if group.is_empty() { plural } else { format!("{plural}.{group}") }
    }
}

/// An object by kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

impl ObjectRef {
    /// An object in the namespace of a Service.
    pub fn of(service: &ServiceRef, kind: Kind, name: &str) -> Self {
        Self { kind, namespace: service.namespace.clone(), name: name.to_owned() }
    }
}

display!(ObjectRef { kind, namespace, name } => "{kind} {namespace}/{name}");
