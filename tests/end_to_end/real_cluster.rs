//! The cluster `blue` on a real control plane, known to the sandbox's EKS and to the function's role,
//! and the verbs with which a test plays its users and kubelets. `wait_for_ready` ends when the API
//! server shows what the endpoint-slice controller made of that.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io::Write;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use kube::Resource;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, Credentials, Options};
use crate::is_ci;
use crate::sandbox::eks::Facts;
use crate::world::{World, blue};

/// The Kubernetes namespace of all objects.
pub const NAMESPACE: &str = "shop";
/// The node of all pods, and its zone.
const NODE: &str = "ip-10-0-0-10.eu-central-1.compute.internal";
pub const ZONE: &str = "eu-central-1b";

/// The running cluster.
pub struct RealCluster {
    pub control_plane: ControlPlane,
}

impl RealCluster {
    /// Starts the control plane with the namespace `shop`; the function's role may do nothing there
    /// yet. None where there is no control plane to be had, which a test then says and passes.
    ///
    /// # Panics
    /// There is none to be had, in CI.
    pub async fn start(world: &World, controllers: bool) -> Option<Self> {
        let identity = blue();
        let key = world.sandbox.access_key();
        let options = Options {
            controllers,
            cluster_name: identity.name.clone(),
            region: identity.region.clone(),
            credentials: Credentials {
                access_key_id: key.id.clone(),
                secret_access_key: key.secret.clone(),
                session_token: Some(key.session_token.clone()),
            },
        };
        let control_plane = match ControlPlane::start(options).await {
            Ok(control_plane) => control_plane,
            Err(unavailable) => {
                assert!(!is_ci(), "with CI=true nothing is skipped: {unavailable}");
                // Not eprintln, which the test harness keeps to itself where a test passes.
                let _ = writeln!(std::io::stderr(), "skipped: {unavailable}");
                return None;
            }
        };
        let cluster = Self { control_plane };
        world.sandbox.aws().eks.register_other(&identity.arn(), cluster.facts(identity.name).await);
        cluster
            .create_in::<Namespace>(&cluster.all(), &json!({"metadata": {"name": NAMESPACE}}))
            .await;
        Some(cluster)
    }

    async fn facts(&self, name: String) -> Facts {
        let version = self.control_plane.admin().apiserver_version().await.expect("a version");
        Facts {
            name,
            version: format!("{}.{}", version.major, version.minor),
            endpoint: self.control_plane.endpoint(),
            certificate_authority: self.control_plane.certificate_authority(),
        }
    }

    /// Lets the function's role do what the project's RBAC file says.
    pub async fn apply_rbac(&self) {
        self.control_plane
            .apply_rbac(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/rbac.yaml"))
            .await;
    }

    /// Adds the node.
    pub async fn node(&self) {
        let labels = json!({"topology.kubernetes.io/zone": ZONE});
        let node = json!({"metadata": {"name": NODE, "labels": labels}});
        self.create_in::<Node>(&self.all(), &node).await;
    }

    /// Adds a Service that selects the pods of its name, with port `http` 8080 and these annotations;
    /// `spec` adds to it.
    pub async fn service(&self, name: &str, annotations: &Value, spec: &Value) {
        let mut service = json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 8080}]},
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            service["spec"][field] = value.clone();
        }
        self.create::<Service>(&service).await;
    }

    /// Sets annotations of a Service; null takes one away.
    pub async fn annotate(&self, service: &str, annotations: &Value) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let patched = self.api::<Service>().patch(service, &PatchParams::default(), &patch).await;
        patched.unwrap_or_else(|error| panic!("annotating {service}: {error}"));
    }

    /// Deletes a Service.
    pub async fn delete_service(&self, name: &str) {
        self.delete::<Service>(name).await;
    }

    /// The Events about a Service, as its owner sees them: reason and note.
    pub async fn events(&self, service: &str) -> Vec<(String, String)> {
        let api: Api<Event> = Api::namespaced(self.control_plane.admin(), NAMESPACE);
        let events = api.list(&ListParams::default()).await.expect("Events");
        let about = events.into_iter().filter(|event| {
            let regarding = event.regarding.as_ref();
            regarding.is_some_and(|regarding| regarding.name.as_deref() == Some(service))
        });
        about
            .map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default()))
            .collect()
    }

    /// Adds an `EndpointSlice` for a Service, as a controller would where none runs.
    pub async fn slice(&self, service: &str, addresses: &[&str]) {
        let slice = json!({
            "metadata": {
                "name": format!("{service}-abcde"),
                "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": addresses, "conditions": {"ready": true}}],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        });
        self.create::<EndpointSlice>(&slice).await;
    }

    /// Adds a ready pod of an app on the node.
    pub async fn pod(&self, app: &str, name: &str, addresses: &[&str]) {
        self.starting_pod(app, name, addresses).await;
        self.readiness(name, true).await;
    }

    /// Adds a pod of an app on the node that runs and has never been ready.
    pub async fn starting_pod(&self, app: &str, name: &str, addresses: &[&str]) {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": app}},
            "spec": {
                "nodeName": NODE,
                "containers": [{"name": app, "image": "example.invalid/none"}],
            },
        });
        self.create::<Pod>(&pod).await;
        let ips: Vec<Value> = addresses.iter().map(|address| json!({"ip": address})).collect();
        let status = json!({"phase": "Running", "podIP": addresses[0], "podIPs": ips});
        self.report_status(name, status).await;
    }

    /// Sets what the readiness probe of a pod says.
    pub async fn readiness(&self, name: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        let conditions = json!([{"type": "Ready", "status": status}]);
        self.report_status(name, json!({"conditions": conditions})).await;
    }

    async fn report_status(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        let patched = self.api::<Pod>().patch_status(name, &PatchParams::default(), &patch).await;
        patched.unwrap_or_else(|error| panic!("the status of pod {name}: {error}"));
    }

    /// Deletes a pod; no kubelet is there to be waited for.
    pub async fn delete_pod(&self, name: &str) {
        self.delete::<Pod>(name).await;
    }

    /// Waits until the slices of a Service name exactly these addresses as ready.
    pub async fn wait_for_ready(&self, service: &str, addresses: &[&str]) {
        let wanted: BTreeSet<String> = addresses.iter().map(|&text| text.to_owned()).collect();
        let what = format!("for {wanted:?} to be the ready addresses of {service}");
        let shown = async || self.ready_addresses(service).await == wanted;
        self.control_plane.wait_until(&what, shown).await;
    }

    async fn ready_addresses(&self, service: &str) -> BTreeSet<String> {
        let of_service = format!("kubernetes.io/service-name={service}");
        let of_service = ListParams::default().labels(&of_service);
        let slices = self.api::<EndpointSlice>().list(&of_service).await;
        let slices = slices.expect("an administrator may list EndpointSlices");
        let endpoints = slices.items.into_iter().flat_map(|slice| slice.endpoints);
        let ready = endpoints.filter(|endpoint| {
            endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
        });
        ready.flat_map(|endpoint| endpoint.addresses).collect()
    }

    async fn create<K>(&self, object: &Value)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + Debug + DeserializeOwned + Serialize,
    {
        self.create_in(&self.api::<K>(), object).await;
    }

    async fn create_in<K>(&self, api: &Api<K>, object: &Value)
    where
        K: Clone + Debug + DeserializeOwned + Serialize,
    {
        let typed = serde_json::from_value(object.clone()).expect("an object of its kind");
        let created = api.create(&PostParams::default(), &typed).await;
        created.unwrap_or_else(|error| panic!("creating {object}: {error}"));
    }

    async fn delete<K>(&self, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + Debug + DeserializeOwned,
    {
        let at_once = DeleteParams::default().grace_period(0);
        let deleted = self.api::<K>().delete(name, &at_once).await;
        deleted.unwrap_or_else(|error| panic!("deleting {name}: {error}"));
    }

    /// The objects of a kind in `shop`, for an administrator.
    pub fn api<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>>(&self) -> Api<K> {
        Api::namespaced(self.control_plane.admin(), NAMESPACE)
    }

    fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.control_plane.admin())
    }
}
