//! A member of a clusterset: what its administrator installs, what its users export, and what an API server shows of
//! that. Objects are JSON here, as the Multi-Cluster Services API has no types in this project.

use http::{Method, Request};
use kube::core::Status;
use serde_json::{Value, json};

use super::{NAMESPACE, RealCluster};
use crate::control_plane::manifest::{EXPORT, IMPORT};
use crate::control_plane::{GROUP, Options};
use crate::world::World;
use testbed::kubernetes::ClusterIdentity;

/// The ServiceExports of the namespace.
pub const EXPORTS: &str = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceexports";
/// The ServiceImports of the namespace.
pub const IMPORTS: &str = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceimports";
/// The Services of the namespace.
pub const SERVICES: &str = "/api/v1/namespaces/shop/services";
/// The EndpointSlices of the namespace.
pub const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices";
/// Where the objects of exports and imports are, across namespaces; of Services and EndpointSlices only ours.
pub const MEMBER_KINDS: [&str; 4] = [
    "/apis/multicluster.x-k8s.io/v1beta1/serviceexports",
    "/apis/multicluster.x-k8s.io/v1beta1/serviceimports",
    "/api/v1/services?labelSelector=cloud-map-sync%2Fowner",
    "/apis/discovery.k8s.io/v1/endpointslices?labelSelector=cloud-map-sync%2Fowner",
];
const PROPERTIES: &str = "/apis/about.k8s.io/v1alpha1/clusterproperties";

/// What somebody wants of an API server: method, path and body.
pub type Wish = (Method, String, Value);

impl RealCluster {
    /// Starts a control plane with the Multi-Cluster Services API, as `start` does; without controllers also without
    /// IPv6.
    pub async fn start_member(
        world: &World,
        identity: ClusterIdentity,
        controllers: bool,
    ) -> Option<Self> {
        let multi_cluster = true;
        let is_single_stack = !controllers;
        let key = world.sandbox.access_key().clone();
        let options = Options { controllers, multi_cluster, is_single_stack, identity, key };
        Self::start_with(world, options).await
    }

    /// Starts a control plane with the Multi-Cluster Services API and addresses of both families, without controllers.
    pub async fn start_quiet_member(world: &World, identity: ClusterIdentity) -> Option<Self> {
        let controllers = false;
        let multi_cluster = true;
        let is_single_stack = false;
        let key = world.sandbox.access_key().clone();
        let options = Options { controllers, multi_cluster, is_single_stack, identity, key };
        Self::start_with(world, options).await
    }

    /// Says who the cluster is, and lets the function's role do what the project's files for services across
    /// clusters say, under their admission policy.
    pub async fn join(&self, cluster_id: &str, clusterset: &str) {
        for (name, value) in
            [("cluster.clusterset.k8s.io", cluster_id), ("clusterset.k8s.io", clusterset)]
        {
            let property = json!({
                "apiVersion": "about.k8s.io/v1alpha1", "kind": "ClusterProperty",
                "metadata": {"name": name}, "spec": {"value": value},
            });
            self.create_object(PROPERTIES, property).await;
        }
        self.apply_rbac().await;
        let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
        let rbac = format!("{deploy}/rbac-multi-cluster.yaml");
        self.control_plane.apply_rbac(rbac, &[EXPORT, IMPORT]).await;
        self.control_plane.create_from(format!("{deploy}/admission-multi-cluster.yaml")).await;
        let probe = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "probe"}, "spec": {"ports": [{"port": 80}]},
        });
        let in_force = async || {
            let wish = (Method::POST, SERVICES.to_owned(), probe.clone());
            self.refusal(wish).await.is_some()
        };
        self.control_plane.wait_until("for the admission policy", in_force).await;
    }

    /// Exports the Service of this name; `spec` is the export's.
    pub async fn export(&self, name: &str, spec: &Value) {
        let export = json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport",
            "metadata": {"name": name}, "spec": spec,
        });
        self.create_object(EXPORTS, export).await;
    }

    /// Ends an export.
    pub async fn end_export(&self, name: &str) {
        self.delete_object(EXPORTS, name).await;
    }

    /// Changes an object as its owner does; `path` is the one of its kind.
    pub async fn change_object(&self, path: &str, name: &str, change: Value) {
        self.demand((Method::PATCH, format!("{path}/{name}"), change)).await;
    }

    /// Deletes an object; `path` is the one of its kind.
    pub async fn delete_object(&self, path: &str, name: &str) {
        self.demand((Method::DELETE, format!("{path}/{name}"), Value::Null)).await;
    }

    /// Creates an object; `path` is the one of its kind.
    pub async fn create_object(&self, path: &str, object: Value) {
        self.demand((Method::POST, path.to_owned(), object)).await;
    }

    /// The objects that a path leads to.
    pub async fn objects(&self, path: &str) -> Vec<Value> {
        let list = self.demand((Method::GET, path.to_owned(), Value::Null)).await;
        list["items"].as_array().expect("a list").clone()
    }

    /// The names of all objects that a path leads to.
    pub async fn names_across_namespaces(&self, path: &str) -> Vec<String> {
        let objects = self.objects(path).await.into_iter();
        objects.map(|it| it["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Waits until no namespace begins like this.
    pub async fn wait_until_namespaces_are_gone(&self, beginning: &str) {
        let gone = async || {
            let names = self.names_across_namespaces("/api/v1/namespaces").await;
            !names.iter().any(|name| name.starts_with(beginning))
        };
        self.control_plane.wait_until("for the namespaces to be gone", gone).await;
    }

    /// An object, if there is one of this name.
    pub async fn object(&self, path: &str, name: &str) -> Option<Value> {
        let mut objects = self.objects(path).await.into_iter();
        objects.find(|object| object["metadata"]["name"] == name)
    }

    /// A condition of an export: status and reason.
    pub async fn condition(&self, export: &str, kind: &str) -> String {
        let export = self.object(EXPORTS, export).await.expect("the export");
        let conditions = export["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|it| it["type"] == kind);
        found.map_or("none".to_owned(), |it| {
            let text = |key: &str| it[key].as_str().unwrap_or_default().to_owned();
            format!("{} {}", text("status"), text("reason"))
        })
    }

    /// The version of every object of the namespace that exports and imports consist of.
    pub async fn versions(&self) -> Vec<String> {
        let mut versions = Vec::new();
        for path in [EXPORTS, IMPORTS, SERVICES, SLICES] {
            for object in self.objects(path).await {
                let metadata = &object["metadata"];
                versions.push(format!(
                    "{path}/{} {}",
                    metadata["name"].as_str().unwrap_or_default(),
                    metadata["resourceVersion"].as_str().unwrap_or_default()
                ));
            }
        }
        versions
    }

    /// What the function has asked the API server to write so far, with the answers: verb, kind, name, status.
    pub fn written(&self) -> Vec<String> {
        let lines = self.control_plane.audit_log();
        lines.iter().filter_map(|line| written(&serde_json::from_str(line).ok()?)).collect()
    }

    /// What the API server says to a wish of the function's role, which is not carried out; `None` if it is granted.
    pub async fn refusal(&self, wish: Wish) -> Option<Box<Status>> {
        self.answer_to(as_function(dry_run(wish))).await
    }

    /// What the API server says to a wish of an administrator, which is not carried out; `None` if it is granted.
    pub async fn verdict(&self, wish: Wish) -> Option<String> {
        self.answer_to(dry_run(wish)).await.map(|status| status.message)
    }

    async fn answer_to(&self, request: Request<Vec<u8>>) -> Option<Box<Status>> {
        match self.control_plane.admin().request::<Value>(request).await {
            Ok(_) => None,
            Err(kube::Error::Api(status)) => Some(status),
            Err(error) => panic!("asking the API server: {error}"),
        }
    }

    /// What an administrator demands.
    async fn demand(&self, wish: Wish) -> Value {
        let described = format!("{wish:?}");
        let answer = self.control_plane.admin().request::<Value>(request(wish)).await;
        answer.unwrap_or_else(|error| panic!("{described}: {error}"))
    }
}

fn dry_run((method, path, body): Wish) -> Request<Vec<u8>> {
    request((method, format!("{path}?dryRun=All"), body))
}

fn request((method, path, body): Wish) -> Request<Vec<u8>> {
    let kind = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    request_of(method.as_str(), &path, kind, &body)
}

/// A request of an administrator; null is no body.
pub fn request_of(method: &str, path: &str, kind: &str, body: &Value) -> Request<Vec<u8>> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path);
    request.header(http::header::CONTENT_TYPE, kind).body(body).expect("a valid request")
}

/// The same of the function's role.
pub fn as_function(mut request: Request<Vec<u8>>) -> Request<Vec<u8>> {
    for header in ["Impersonate-User", "Impersonate-Group"] {
        request.headers_mut().insert(header, GROUP.parse().expect("a header"));
    }
    request
}

fn written(event: &Value) -> Option<String> {
    let groups = event["user"]["groups"].as_array()?;
    let verb = event["verb"].as_str()?;
    let object = &event["objectRef"];
    let resource = object["resource"].as_str()?;
    let is_read = ["get", "list", "watch"].contains(&verb);
    let is_aside = ["selfsubjectaccessreviews", "events"].contains(&resource);
    if !groups.contains(&json!(GROUP)) || is_read || is_aside || object["namespace"] != NAMESPACE {
        return None;
    }
    let name = object["name"].as_str().unwrap_or_default();
    let part = object["subresource"].as_str().map(|it| format!("/{it}")).unwrap_or_default();
    Some(format!("{verb} {resource}{part} {name} {}", event["responseStatus"]["code"]))
}
