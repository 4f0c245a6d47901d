//! The life of a release on a real API server, which lets only restricted pods into the namespace.

use std::path::Path;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::refusals::good;
use super::tools::{BASE, CHART, NAMESPACE, Tools};
use crate::real_cluster::RealCluster;
use crate::world::World;

/// Not the chart's name, so that the objects have both.
const RELEASE: &str = "blue";

#[tokio::test]
async fn a_release_is_installed_changed_and_removed_on_a_real_cluster() {
    let Some(tools) = Tools::build().await else { return };
    let world = World::start().await;
    let Some(cluster) = RealCluster::start(&world, true).await else { return };
    let control_plane = &cluster.control_plane;
    control_plane.create_from(format!("{BASE}/namespace.yaml")).await;
    let kubeconfig = control_plane.write_admin_kubeconfig();
    let helm =
        async |command: &[&str], values: &Value| run(&tools, &kubeconfig, command, values).await;

    let mut values = good();
    helm(&["install", RELEASE, CHART, "--values", "-"], &values).await;
    let pods: Api<Pod> = Api::namespaced(control_plane.admin(), NAMESPACE);
    let are_let_in =
        async || pods.list(&ListParams::default()).await.is_ok_and(|it| it.items.len() == 2);
    control_plane.wait_until("for the pods to be let in", are_let_in).await;
    assert_eq!(objects(&cluster).await, [1, 1, 1, 1, 1, 1]);

    // One pod alone could never be evicted.
    values["replicas"] = json!(1);
    values["networkPolicy"] = json!({"enabled": false});
    helm(&["upgrade", RELEASE, CHART, "--values", "-"], &values).await;
    assert_eq!(objects(&cluster).await, [1, 1, 1, 1, 0, 0]);

    helm(&["uninstall", RELEASE], &json!({})).await;
    assert_eq!(objects(&cluster).await, [0; 6]);
}

async fn run(tools: &Tools, kubeconfig: &Path, command: &[&str], values: &Value) {
    let kubeconfig = kubeconfig.to_str().expect("text");
    let common = ["--namespace", NAMESPACE, "--kubeconfig", kubeconfig];
    let done = tools.helm(&[command, &common].concat(), values).await;
    done.unwrap_or_else(|why| panic!("helm {command:?}: {why}"));
}

/// The number of each kind of object that the release has in the cluster.
async fn objects(cluster: &RealCluster) -> [usize; 6] {
    let client = || cluster.control_plane.admin();
    [
        count::<Deployment>(Api::namespaced(client(), NAMESPACE)).await,
        count::<ServiceAccount>(Api::namespaced(client(), NAMESPACE)).await,
        count::<ClusterRole>(Api::all(client())).await,
        count::<ClusterRoleBinding>(Api::all(client())).await,
        count::<PodDisruptionBudget>(Api::namespaced(client(), NAMESPACE)).await,
        count::<NetworkPolicy>(Api::namespaced(client(), NAMESPACE)).await,
    ]
}

async fn count<K>(api: Api<K>) -> usize
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let of_release = ListParams::default().labels("app.kubernetes.io/instance=blue");
    api.list(&of_release).await.expect("a list").items.len()
}
