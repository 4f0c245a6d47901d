//! Deployments, whose pods the cluster's own controllers make and replace, and the kubelet that they need.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{NODE, RealCluster};

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
                    "spec": {
                        "nodeName": NODE,
                        "containers": [{"name": name, "image": "example.invalid/none"}],
                    },
                },
            },
        });
        self.create::<Deployment>(&deployment).await;
    }

    /// Begins to replace every pod of a Deployment, as `kubectl rollout restart` does.
    pub async fn restart(&self, name: &str) {
        let template = json!({"metadata": {"annotations": {"restarted": "now"}}});
        self.change(name, json!({"spec": {"template": template}})).await;
    }

    async fn change(&self, name: &str, change: Value) {
        let patch = Patch::Merge(change);
        let patched = self.api::<Deployment>().patch(name, &PatchParams::default(), &patch).await;
        patched.unwrap_or_else(|error| panic!("changing {name}: {error}"));
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
