//! Checks the permissions of the function in a cluster by access reviews of the API server: the permissions for every
//! sync, for Events, and for each direction of the Multi-Cluster Services API (`deploy/rbac-multi-cluster.yaml`).

use std::fmt::{self, Display, Formatter};

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};

use super::{Error, Kubernetes};

/// A resource of an API group that a permission is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceOf {
    pub group: &'static str,
    pub plural: &'static str,
    /// Empty for the object itself.
    pub subresource: &'static str,
    /// The only object that the permission is about; empty for all objects.
    pub name: &'static str,
}

/// Verbs on one resource.
pub type Rights = (&'static [&'static str], ResourceOf);

impl ResourceOf {
    const fn new(group: &'static str, plural: &'static str) -> Self {
        Self { group, plural, subresource: "", name: "" }
    }

    const fn status(self) -> Self {
        Self { subresource: "status", ..self }
    }
}

const MULTI_CLUSTER: &str = "multicluster.x-k8s.io";
const EXPORTS: ResourceOf = ResourceOf::new(MULTI_CLUSTER, "serviceexports");
const IMPORTS: ResourceOf = ResourceOf::new(MULTI_CLUSTER, "serviceimports");

/// The permissions that a sync requires.
pub const NEEDED: [Rights; 4] = [
    (&["list"], ResourceOf::new("", "services")),
    (&["get"], ResourceOf::new("", "services")),
    (&["list"], ResourceOf::new("discovery.k8s.io", "endpointslices")),
    (&["get"], ResourceOf::new("", "endpoints")),
];

/// The optional permission to create Events on Services, ServiceExports and ServiceImports.
pub const EVENTS: Rights = (&["create"], ResourceOf::new("events.k8s.io", "events"));

/// The permissions to publish ServiceExports, besides those of a sync.
pub const TO_EXPORT: [Rights; 2] = [(&["get", "list"], EXPORTS), (&["patch"], EXPORTS.status())];

/// The permissions to import, besides those of a sync.
pub const TO_IMPORT: [Rights; 5] = [
    (&["get", "list"], ResourceOf::new("", "namespaces")),
    (&["get", "list", "create", "patch", "delete"], IMPORTS),
    (&["patch"], IMPORTS.status()),
    (&["create", "patch", "delete"], ResourceOf::new("", "services")),
    (&["create", "patch", "delete"], ResourceOf::new("discovery.k8s.io", "endpointslices")),
];

/// The permission to read a `ClusterProperty`.
pub const fn cluster_property(name: &'static str) -> Rights {
    (&["get"], ResourceOf { name, ..ResourceOf::new("about.k8s.io", "clusterproperties") })
}

/// `serviceexports/status of multicluster.x-k8s.io`
impl Display for ResourceOf {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { group, plural, subresource, name } = self;
        let group = if group.is_empty() { "the core group" } else { group };
        match (*subresource, *name) {
            ("", "") => write!(f, "{plural} of {group}"),
            ("", name) => write!(f, "{plural} {name} of {group}"),
            (subresource, _) => write!(f, "{plural}/{subresource} of {group}"),
        }
    }
}

impl Kubernetes {
    /// Whether the function has a permission in all namespaces. Every authenticated identity may create this review.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached or does not accept the token.
    pub async fn may(&self, verb: &str, resource: ResourceOf) -> Result<bool, Error> {
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let attributes = ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(resource.group.to_owned()),
            resource: Some(resource.plural.to_owned()),
            subresource: text(resource.subresource),
            name: text(resource.name),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let action = || format!("review the permission to {verb} {resource}");
        let answer = self.in_time(action, api.create(&PostParams::default(), &review)).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}
