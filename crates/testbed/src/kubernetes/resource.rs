//! The resources that the stand-in stores, and the parser of request paths: group, version, namespace, resource, name.
//! RBAC judges a path before the server checks if the resource exists.

use axum::http::Method;

/// One kind of object.
#[derive(Debug, PartialEq, Eq)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// The versions it can be served in, the stored one first.
    pub versions: &'static [&'static str],
    /// Name in paths.
    pub plural: &'static str,
    /// Name in objects.
    pub kind: &'static str,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Whether it is of a CustomResourceDefinition: with a schema, a generation and a status sub-resource.
    pub custom: bool,
}

const fn resource(group: &'static str, plural: &'static str, kind: &'static str) -> Resource {
    Resource { group, versions: &["v1"], plural, kind, namespaced: true, custom: false }
}

const fn multi_cluster(plural: &'static str, kind: &'static str) -> Resource {
    let versions = &["v1beta1", "v1alpha1"];
    Resource { versions, custom: true, ..resource("multicluster.x-k8s.io", plural, kind) }
}

/// Kubernetes Services.
pub static SERVICES: Resource = resource("", "services", "Service");
/// The older Endpoints.
pub static ENDPOINTS: Resource = resource("", "endpoints", "Endpoints");
/// EndpointSlices.
pub static ENDPOINT_SLICES: Resource =
    resource("discovery.k8s.io", "endpointslices", "EndpointSlice");
/// Events, new form.
pub static EVENTS: Resource = resource("events.k8s.io", "events", "Event");
/// Pods, where a test shows them.
pub static PODS: Resource = resource("", "pods", "Pod");
/// Namespaces.
pub static NAMESPACES: Resource =
    Resource { namespaced: false, ..resource("", "namespaces", "Namespace") };
/// The Services that a cluster offers to its clusterset.
pub static SERVICE_EXPORTS: Resource = multi_cluster("serviceexports", "ServiceExport");
/// The services of the clusterset as a cluster sees them.
pub static SERVICE_IMPORTS: Resource = multi_cluster("serviceimports", "ServiceImport");
/// What a cluster says about itself, such as its id.
pub static CLUSTER_PROPERTIES: Resource = Resource {
    versions: &["v1alpha1"],
    namespaced: false,
    custom: true,
    ..resource("about.k8s.io", "clusterproperties", "ClusterProperty")
};

/// Everything that is stored.
pub static RESOURCES: [&Resource; 9] = [
    &SERVICES,
    &ENDPOINTS,
    &ENDPOINT_SLICES,
    &EVENTS,
    &NAMESPACES,
    &PODS,
    &SERVICE_EXPORTS,
    &SERVICE_IMPORTS,
    &CLUSTER_PROPERTIES,
];

impl Resource {
    /// `v1` or `<group>/<version>`, in the stored version.
    pub fn api_version(&self) -> String {
        self.api_version_of(self.versions[0])
    }

    /// `v1` or `<group>/<version>`
    pub fn api_version_of(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// Whether it has a status sub-resource here, so that its status is written by requests of their own.
    pub fn has_status(&self) -> bool {
        self.custom && self.namespaced
    }

    /// The resource of an object, by its apiVersion and kind.
    pub fn of_object(api_version: &str, kind: &str) -> Option<&'static Resource> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        RESOURCES.into_iter().find(|known| {
            known.kind == kind && known.group == group && known.versions.contains(&version)
        })
    }
}

/// What a path names below `/api` and `/apis`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// API group, empty for the core group.
    pub group: String,
    pub version: String,
    /// Namespace, empty for all.
    pub namespace: String,
    pub plural: String,
    /// Object name, empty for the collection.
    pub name: String,
    /// Subresource, empty mostly.
    pub subresource: String,
}

impl Target {
    /// Reads a path; `None` where it names no resource (`/version`, `/apis/discovery.k8s.io/v1`).
    pub fn of_path(path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/').map(ToOwned::to_owned);
        let group = match parts.next()?.as_str() {
            "api" => String::new(),
            "apis" => parts.next()?,
            _ => return None,
        };
        let version = parts.next()?;
        let mut plural = parts.next()?;
        let mut namespace = String::new();
        let mut name = parts.next().unwrap_or_default();
        // "namespaces/x" is the namespace x itself, "namespaces/x/services" something inside it.
        if plural == "namespaces"
            && let Some(inner) = parts.next()
        {
            namespace = std::mem::replace(&mut name, parts.next().unwrap_or_default());
            plural = inner;
        }
        let subresource = parts.next().unwrap_or_default();
        Some(Self { group, version, namespace, plural, name, subresource })
    }

    /// The stored resource, if the server has it.
    pub fn resource(&self) -> Option<&'static Resource> {
        let known = RESOURCES
            .into_iter()
            .find(|known| known.group == self.group && known.plural == self.plural);
        known.filter(|known| {
            known.versions.contains(&self.version.as_str())
                && (self.subresource.is_empty() || known.has_status() && self.is_status())
        })
    }

    /// The plural name, with the sub-resource as in `serviceexports/status`.
    pub fn qualified(&self) -> String {
        match self.subresource.as_str() {
            "" => self.plural.clone(),
            subresource => format!("{}/{subresource}", self.plural),
        }
    }

    /// Whether it is the status sub-resource of an object.
    pub fn is_status(&self) -> bool {
        self.subresource == "status"
    }

    /// RBAC's verb for a method on this target.
    pub fn verb(&self, method: &Method, watch: bool) -> &'static str {
        match (method.as_str(), self.name.is_empty()) {
            ("GET" | "HEAD", _) if watch => "watch",
            ("GET" | "HEAD", true) => "list",
            ("GET" | "HEAD", false) => "get",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", true) => "deletecollection",
            _ => "delete",
        }
    }
}
