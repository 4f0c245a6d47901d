//! The Multi-Cluster Services API of a cluster (KEP-1645): what of it is served, and the verbs of tests for it. A new
//! cluster has none of it.

use serde_json::{Map, Value, json};

use super::KubernetesServer;
use super::admission::Policy;
use super::resource::{
    CLUSTER_PROPERTIES, NAMESPACES, Resource, SERVICE_EXPORTS, SERVICE_IMPORTS, SERVICES,
};
use super::rules::{self, EXPORT_ROLE, IMPORT_ROLE};

/// What a cluster serves of the API, and how.
#[derive(Debug, Default)]
pub struct MultiCluster {
    /// Whether the CustomResourceDefinition of cluster properties is there.
    pub properties: bool,
    /// The versions of exports and imports that are served; none without their definitions.
    pub versions: Vec<&'static str>,
    /// The resource of the two of which the definition is not there.
    pub missing: Option<&'static str>,
    /// Whether ServiceImports have `status.endpointSliceObjects`.
    pub declares_slice_objects: bool,
    /// The admission policy, if there is one.
    pub admission: Option<Policy>,
}

impl MultiCluster {
    /// Whether a custom resource is served in a version.
    pub fn serves(&self, resource: &Resource, version: &str) -> bool {
        if *resource == CLUSTER_PROPERTIES {
            self.properties
        } else {
            self.versions.contains(&version) && self.missing != Some(resource.plural)
        }
    }
}

impl KubernetesServer {
    /// Installs the newest definitions, both ClusterRoles and the admission policy.
    pub fn serve_multi_cluster(&self) {
        self.world().multi_cluster.properties = true;
        self.serve_multi_cluster_versions(SERVICE_IMPORTS.versions);
        self.declare_slice_objects(true);
        self.enforce_admission(Some(Policy::default()));
        self.bind_multi_cluster_roles(&[EXPORT_ROLE, IMPORT_ROLE]);
    }

    /// Serves exports and imports in these versions alone: none as if their definitions were not there.
    pub fn serve_multi_cluster_versions(&self, versions: &[&'static str]) {
        self.world().multi_cluster.versions = versions.to_vec();
    }

    /// Serves exports and imports without the definition of one of them.
    pub fn serve_multi_cluster_without(&self, plural: Option<&'static str>) {
        self.world().multi_cluster.missing = plural;
    }

    /// Whether the definition of ServiceImports declares `status.endpointSliceObjects`.
    pub fn declare_slice_objects(&self, declared: bool) {
        self.world().multi_cluster.declares_slice_objects = declared;
    }

    /// Binds these ClusterRoles, and no others, to the function's group besides its own.
    pub fn bind_multi_cluster_roles(&self, roles: &[&str]) {
        self.world().access.rules = roles.iter().flat_map(|role| rules::of_role(role)).collect();
    }

    /// Judges the writes of all but the administrator by this policy, or by none.
    pub fn enforce_admission(&self, policy: Option<Policy>) {
        self.world().multi_cluster.admission = policy;
    }

    /// Sets the families of the cluster's service ranges, the default one first.
    pub fn set_families(&self, families: &[&'static str]) {
        self.world().addresses.families = families.to_vec();
    }

    /// Another Service has a cluster IP, or the ranges no longer have it.
    pub fn take_cluster_ip(&self, ip: &str) {
        self.world().addresses.taken.push(ip.to_owned());
    }

    /// Creates a namespace; nothing happens if there is one.
    pub fn namespace(&self, name: &str) -> Value {
        let mut world = self.world();
        world.store.ensure_namespace(name);
        let found = world.store.get(&NAMESPACES, "", name);
        (*found.expect("made above")).clone()
    }

    /// Marks a namespace as being deleted, while its content is still there.
    pub fn terminate_namespace(&self, name: &str) {
        let mut namespace = self.namespace(name);
        namespace["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z".into();
        namespace["status"]["phase"] = "Terminating".into();
        self.put(namespace);
    }

    /// Sets a property of the cluster, such as `cluster.clusterset.k8s.io`.
    pub fn cluster_property(&self, name: &str, value: &str) -> Value {
        self.put(json!({
            "apiVersion": CLUSTER_PROPERTIES.api_version(), "kind": CLUSTER_PROPERTIES.kind,
            "metadata": {"name": name}, "spec": {"value": value},
        }))
    }

    /// Exports a Service, now.
    pub fn export(&self, namespace: &str, name: &str) -> Value {
        self.put(Export::new(namespace, name).into())
    }

    /// Ends an export; false where there was none.
    pub fn unexport(&self, namespace: &str, name: &str) -> bool {
        self.world().delete(&SERVICE_EXPORTS, namespace, name)
    }

    /// The ServiceExport of a Service.
    pub fn service_export(&self, namespace: &str, name: &str) -> Option<Value> {
        self.object(&SERVICE_EXPORTS, namespace, name)
    }

    /// The ServiceImport of a service.
    pub fn service_import(&self, namespace: &str, name: &str) -> Option<Value> {
        self.object(&SERVICE_IMPORTS, namespace, name)
    }

    /// One Service.
    pub fn service_object(&self, namespace: &str, name: &str) -> Option<Value> {
        self.object(&SERVICES, namespace, name)
    }

    fn object(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Value> {
        self.world().store.get(resource, namespace, name).map(|object| (*object).clone())
    }
}

/// The builder of ServiceExports for tests.
#[derive(Clone, Debug)]
pub struct Export(Value);

impl Export {
    /// An export without labels and annotations, made when it is put.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(json!({
            "apiVersion": SERVICE_EXPORTS.api_version(), "kind": SERVICE_EXPORTS.kind,
            "metadata": {"namespace": namespace, "name": name},
        }))
    }

    /// Sets the creation time (`2026-01-02T03:04:05Z`), which the precedence of exports is by.
    #[must_use]
    pub fn created(mut self, time: &str) -> Self {
        self.0["metadata"]["creationTimestamp"] = time.into();
        self
    }

    /// Sets the exported labels.
    #[must_use]
    pub fn labels(self, labels: &[(&str, &str)]) -> Self {
        self.texts("exportedLabels", labels)
    }

    /// Sets the exported annotations.
    #[must_use]
    pub fn annotations(self, annotations: &[(&str, &str)]) -> Self {
        self.texts("exportedAnnotations", annotations)
    }

    /// Adds a finalizer, as AWS's controller does.
    #[must_use]
    pub fn finalizer(mut self, finalizer: &str) -> Self {
        self.0["metadata"]["finalizers"] = json!([finalizer]);
        self
    }

    /// Marks it as being deleted.
    #[must_use]
    pub fn deleting(mut self) -> Self {
        self.0["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z".into();
        self
    }

    fn texts(mut self, key: &str, texts: &[(&str, &str)]) -> Self {
        let texts = texts.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value)));
        self.0["spec"][key] = texts.collect::<Map<_, _>>().into();
        self
    }
}

impl From<Export> for Value {
    fn from(export: Export) -> Value {
        export.0
    }
}
