//! The kinds of objects that are read or written as JSON, and the paths of their requests.

use super::Error;

/// A kind of object that is read or written as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    Namespaces,
    Services,
    EndpointSlices,
    ServiceImports,
    ServiceExports,
}

/// An object, for the paths and messages of its requests.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    pub resource: Resource,
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Resource {
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Services => "services",
            Self::EndpointSlices => "endpointslices",
            Self::ServiceImports => "serviceimports",
            Self::ServiceExports => "serviceexports",
        }
    }

    fn api(self) -> &'static str {
        match self {
            Self::Namespaces | Self::Services => "/api/v1",
            Self::EndpointSlices => "/apis/discovery.k8s.io/v1",
            Self::ServiceImports | Self::ServiceExports => "/apis/multicluster.x-k8s.io/v1beta1",
        }
    }
}

impl Resource {
    /// The path of all objects.
    pub(super) fn path(self) -> String {
        format!("{}/{}", self.api(), self.plural())
    }

    /// The path of the objects of a namespace.
    pub(super) fn path_in(self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/{}", self.api(), self.plural())
    }
}

impl Named<'_> {
    /// The path of the objects beside it.
    pub(super) fn path(&self) -> String {
        self.resource.path_in(self.namespace)
    }

    pub(super) fn failed(&self, verb: &str, error: kube::Error) -> Error {
        let Self { resource, namespace, name } = self;
        let action = format!("{verb} {} {namespace}/{name}", resource.plural());
        Error::new(action, error).of_multi_cluster()
    }
}
