//! What a user does to Services, with what Events tell that user, and what a kubelet says of its pods, also of those
//! that the cluster's own controllers make for Deployments; and what the endpoint-slice controller says of it, once it
//! has said what a test waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{NAMESPACE, NODE, RealCluster};

/// No kubelet is there to pull it.
const IMAGE: &str = "example.invalid/none";

impl RealCluster {
    /// Adds a ready pod of an app on the node.
    pub async fn pod(&self, app: &str, name: &str, addresses: &[&str]) {
        self.starting_pod(app, name, addresses).await;
        self.readiness(name, true).await;
    }

    /// The same with a container that listens on a named port.
    pub async fn pod_with_port(&self, app: &str, name: &str, address: &str, port: (&str, u16)) {
        let ports = json!([{"name": port.0, "containerPort": port.1}]);
        let container = json!({"name": app, "image": IMAGE, "ports": ports});
        self.running_pod(app, name, &[address], &json!({"containers": [container]})).await;
        self.readiness(name, true).await;
    }

    /// The same of a StatefulSet, whose pods have names of their own in DNS.
    pub async fn stateful_pod(&self, app: &str, name: &str, addresses: &[&str]) {
        let names = json!({"hostname": name, "subdomain": app});
        self.running_pod(app, name, addresses, &names).await;
        self.readiness(name, true).await;
    }

    /// Adds a pod of an app on the node that runs and has never been ready.
    pub async fn starting_pod(&self, app: &str, name: &str, addresses: &[&str]) {
        self.running_pod(app, name, addresses, &json!({})).await;
    }

    /// `spec` adds to the pod's.
    async fn running_pod(&self, app: &str, name: &str, addresses: &[&str], spec: &Value) {
        let mut pod = json!({
            "metadata": {"name": name, "labels": {"app": app}},
            "spec": {"nodeName": NODE, "containers": [{"name": app, "image": IMAGE}]},
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            pod["spec"][field] = value.clone();
        }
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

    /// Begins to delete a pod: it terminates until its kubelet says that it is gone, and there is none.
    pub async fn end_pod(&self, name: &str) {
        let deleted = self.api::<Pod>().delete(name, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|error| panic!("deleting {name}: {error}"));
    }
}

impl RealCluster {
    /// Waits until the slices of a Service name exactly these addresses as ready.
    pub async fn wait_for_ready(&self, service: &str, addresses: &[&str]) {
        let wanted: BTreeSet<String> = addresses.iter().map(|&text| text.to_owned()).collect();
        let what = format!("for {wanted:?} to be the ready addresses of {service}");
        let shown = async || self.ready_addresses(service).await == wanted;
        self.control_plane.wait_until(&what, shown).await;
    }

    /// Waits until the slices of a Service say exactly this of its endpoints.
    pub async fn wait_for_endpoints(&self, service: &str, conditions: &[(&str, &str)]) {
        let wanted = conditions.iter().map(|(address, it)| ((*address).into(), (*it).into()));
        let wanted: BTreeMap<String, String> = wanted.collect();
        let what = format!("for {wanted:?} to be the endpoints of {service}");
        let shown = async || self.conditions(service).await == wanted;
        self.control_plane.wait_until(&what, shown).await;
    }

    /// The addresses that the slices of a Service name as ready.
    pub async fn ready_addresses(&self, service: &str) -> BTreeSet<String> {
        let ready = self.endpoints(service).await.into_iter().filter(|endpoint| {
            endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
        });
        ready.flat_map(|endpoint| endpoint.addresses).collect()
    }

    async fn conditions(&self, service: &str) -> BTreeMap<String, String> {
        let endpoints = self.endpoints(service).await.into_iter();
        endpoints
            .map(|endpoint| {
                let it = endpoint.conditions.expect("the controller tells them");
                let words =
                    [(it.ready, "ready"), (it.serving, "serving"), (it.terminating, "terminating")];
                let words = words.into_iter().filter(|(holds, _)| *holds == Some(true));
                let words: Vec<&str> = words.map(|(_, word)| word).collect();
                (endpoint.addresses[0].clone(), words.join(" "))
            })
            .collect()
    }

    async fn endpoints(&self, service: &str) -> Vec<Endpoint> {
        let of_service = format!("kubernetes.io/service-name={service}");
        let of_service = ListParams::default().labels(&of_service);
        let slices = self.api::<EndpointSlice>().list(&of_service).await;
        let slices = slices.expect("an administrator may list EndpointSlices");
        slices.items.into_iter().flat_map(|slice| slice.endpoints).collect()
    }
}

/// What makes a Service headless, with addresses of one family.
pub fn headless() -> Value {
    json!({"clusterIP": "None"})
}

/// The annotations that claim a name.
pub fn claim(namespace: &str, hostname: &str) -> Value {
    json!({"cloudmap.controller/hostname": hostname, "cloudmap.controller/namespace": namespace})
}

impl RealCluster {
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
}

/// How often the kubelet looks.
const INTERVAL: Duration = Duration::from_millis(20);

/// How often any kubelet has looked.
static LOOKS: AtomicU32 = AtomicU32::new(0);

/// Gives every pod of a Deployment an address and says that it is ready, and lets every pod go that is
/// deleted, until it is dropped.
pub struct Kubelet(JoinHandle<()>);

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RealCluster {
    /// Starts the kubelet of the node.
    pub fn kubelet(&self) -> Kubelet {
        let pods: Api<Pod> = self.api();
        Kubelet(tokio::spawn(async move {
            loop {
                let look = LOOKS.fetch_add(1, Ordering::Relaxed);
                // What fails, as a pod that is gone already does, is seen again at the next look.
                let found = pods.list(&ListParams::default()).await;
                for (index, pod) in found.into_iter().flatten().enumerate() {
                    tend(&pods, &pod, &address(look, index)).await;
                }
                tokio::time::sleep(INTERVAL).await;
            }
        }))
    }

    /// Adds a Deployment, which selects the pods that its Service of the same name does.
    pub async fn deployment(&self, name: &str, replicas: usize) {
        let labels = json!({"app": name});
        let deployment = json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"nodeName": NODE, "containers": [{"name": name, "image": IMAGE}]},
                },
            },
        });
        self.create::<Deployment>(&deployment).await;
    }

    /// Begins to replace every pod of a Deployment, as `kubectl rollout restart` does.
    pub async fn restart(&self, name: &str) {
        let template = json!({"metadata": {"annotations": {"restarted": "now"}}});
        let patch = Patch::Merge(json!({"spec": {"template": template}}));
        let patched = self.api::<Deployment>().patch(name, &PatchParams::default(), &patch).await;
        patched.unwrap_or_else(|error| panic!("restarting {name}: {error}"));
    }

    /// Whether a Deployment has as many pods as it wants, all of its newest template, and the slices of
    /// its Service name all of them and no other.
    pub async fn is_rolled_out(&self, name: &str) -> bool {
        let deployment = self.api::<Deployment>().get(name).await.expect("the Deployment");
        let generation = deployment.metadata.generation;
        let wanted = deployment.spec.and_then(|spec| spec.replicas);
        let Some(status) = deployment.status else { return false };
        let count = |count: Option<i32>| Some(count.unwrap_or_default()) == wanted;
        let of_app = ListParams::default().labels(&format!("app={name}"));
        let pods = self.api::<Pod>().list(&of_app).await.expect("pods");
        let addresses = pods.iter().filter_map(|pod| pod.status.as_ref()?.pod_ip.clone());
        status.observed_generation >= generation
            && count(status.replicas)
            && count(status.updated_replicas)
            && count(status.available_replicas)
            && self.ready_addresses(name).await == addresses.collect::<BTreeSet<_>>()
    }

    /// Waits until all of these are rolled out.
    pub async fn wait_for_rollout(&self, names: &[&str]) {
        for name in names {
            let rolled_out = async || self.is_rolled_out(name).await;
            self.control_plane.wait_until(&format!("for {name} to roll out"), rolled_out).await;
        }
    }
}

/// No two pods have one address, since no look sees one pod twice, whichever kubelet's it is.
fn address(look: u32, index: usize) -> String {
    format!("10.{}.{}.{index}", 64 + look / 256 % 128, look % 256)
}

async fn tend(pods: &Api<Pod>, pod: &Pod, address: &str) {
    let name = pod.name_any();
    let has_address = pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some());
    if pod.metadata.deletion_timestamp.is_some() {
        let _ = pods.delete(&name, &DeleteParams::default().grace_period(0)).await;
    } else if !has_address && !pod.owner_references().is_empty() {
        let status = json!({
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        });
        let patch = Patch::Merge(json!({"status": status}));
        let _ = pods.patch_status(&name, &PatchParams::default(), &patch).await;
    }
}
