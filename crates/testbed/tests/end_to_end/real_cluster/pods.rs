//! What a kubelet says of its pods.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{NODE, RealCluster};

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
