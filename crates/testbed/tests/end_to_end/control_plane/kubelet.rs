//! The kubelet without containers of `tests/control_plane/kubelet`, on a node of its own.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;

use super::certificates::{AUTHORITY_CERTIFICATE, KUBELET_CERTIFICATE, KUBELET_KEY};
use super::dns::Nameserver;
use super::{ControlPlane, programs};

const NODE: &str = "without-containers";

impl ControlPlane {
    /// Starts a kubelet that takes every pod to its node, and waits until the node is there. Pods get addresses of
    /// these ranges, and reach those of the clusters in `network`.
    ///
    /// # Panics
    /// It does not come up.
    pub async fn start_kubelet(&self, nameserver: Nameserver, ranges: &str, network: &[&Self]) {
        self.binaries.build_those_of_a_node().await;
        let folder = self.processes.folder();
        let kubeconfigs = network.iter().map(|cluster| cluster.write_admin_kubeconfig());
        let network = std::env::join_paths(kubeconfigs).expect("folders without a separator");
        let mut command = self.binaries.kubelet();
        command
            .args(["--node", NODE, "--pod-ranges", ranges, "--nameserver", &nameserver.address()])
            .arg("--kubeconfig")
            .arg(self.write_admin_kubeconfig())
            .arg("--pod-network")
            .arg(network)
            .arg(programs::flag("tls-cert-file", folder, KUBELET_CERTIFICATE))
            .arg(programs::flag("tls-private-key-file", folder, KUBELET_KEY))
            .arg(programs::flag("client-ca-file", folder, AUTHORITY_CERTIFICATE));
        self.processes.spawn("kubelet", &command);
        let nodes: Api<Node> = Api::all(self.admin());
        let registered = async || {
            let node = nodes.get_opt(NODE).await.ok().flatten();
            node.is_some_and(|it| it.status.is_some_and(|it| it.conditions.is_some()))
        };
        self.processes.wait_until("for the node", registered).await;
    }

    /// Writes down how to reach the API server as administrator.
    pub fn write_admin_kubeconfig(&self) -> PathBuf {
        let admin = programs::admin_kubeconfig(&self.endpoint, &self.certificate_authority);
        programs::write_admin_kubeconfig(self.processes.folder(), &admin)
    }
}
