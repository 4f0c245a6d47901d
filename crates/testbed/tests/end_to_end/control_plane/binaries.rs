//! The programs of the control plane: built from `tests/control_plane` where Go is there, etcd and
//! kube-apiserver taken from `KUBEBUILDER_ASSETS` where that is set (the envtest convention).

use std::fmt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tokio::sync::Mutex;

/// build.sh ends so where Go is missing or too old.
const NO_GO: i32 = 3;

/// There is no real control plane on this machine: a test that needs one is skipped, or fails in CI.
#[derive(Debug)]
pub struct Unavailable;

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(
            "no real control plane: building one needs Go 1.25 or newer \
             (tests/control_plane/build.sh), also where KUBEBUILDER_ASSETS gives etcd and \
             kube-apiserver",
        )
    }
}

impl std::error::Error for Unavailable {}

/// Where the programs are.
pub(super) struct Binaries {
    built: PathBuf,
    assets: Option<PathBuf>,
}

impl Binaries {
    /// Builds what is missing or out of date; what the build says goes to the terminal.
    pub(super) async fn find_or_build(controllers: bool) -> Result<Self, Unavailable> {
        build(controllers.then_some("--controllers")).await?;
        let root = Path::new(testbed::ROOT);
        Ok(Self {
            built: folder_in("CLOUD_MAP_SYNC_CONTROL_PLANE")
                .unwrap_or_else(|| root.join("target/control-plane")),
            assets: folder_in("KUBEBUILDER_ASSETS"),
        })
    }

    /// Builds the programs of a node, too.
    pub(super) async fn build_those_of_a_node(&self) {
        build(Some("--node")).await.expect("what built the others builds these");
    }

    /// The `CustomResourceDefinitions` of the Multi-Cluster Services API and of `ClusterProperty`.
    pub(super) fn multi_cluster_crds(&self) -> [PathBuf; 3] {
        let copied = self.built.join("multi_cluster");
        let fixtures = Path::new(testbed::ROOT).join("tests/control_plane");
        [
            copied.join("multicluster.x-k8s.io_serviceexports.yaml"),
            copied.join("multicluster.x-k8s.io_serviceimports.yaml"),
            fixtures.join("cluster_property.yaml"),
        ]
    }

    pub(super) fn etcd(&self) -> Command {
        Command::new(self.assets.as_ref().unwrap_or(&self.built).join("etcd"))
    }

    pub(super) fn token_verifier(&self) -> Command {
        Command::new(self.built.join("token-verifier"))
    }

    pub(super) fn kube_apiserver(&self) -> Command {
        match &self.assets {
            Some(assets) => Command::new(assets.join("kube-apiserver")),
            None => self.kubernetes("kube-apiserver"),
        }
    }

    pub(super) fn kube_controller_manager(&self) -> Command {
        self.kubernetes("kube-controller-manager")
    }

    pub(super) fn coredns(&self) -> Command {
        Command::new(self.built.join("coredns"))
    }

    pub(super) fn kubelet(&self) -> Command {
        Command::new(self.built.join("kubelet"))
    }

    /// The kubelet's program by another name.
    pub(super) fn nslookup(&self) -> Command {
        let mut command = self.kubelet();
        command.arg0("nslookup");
        command
    }

    fn kubernetes(&self, program: &str) -> Command {
        let mut command = Command::new(self.built.join("kubernetes"));
        command.arg(program);
        command
    }
}

async fn build(option: Option<&str>) -> Result<(), Unavailable> {
    // Tests of one process start at once, and two first builds would take twice as long.
    static ONE_BUILD: Mutex<()> = Mutex::const_new(());
    let _guard = ONE_BUILD.lock().await;

    let script = Path::new(testbed::ROOT).join("tests/control_plane/build.sh");
    let mut build = tokio::process::Command::new(script);
    let status = build.args(option).status().await.expect("bash runs build.sh");
    if status.code() == Some(NO_GO) {
        return Err(Unavailable);
    }
    assert!(status.success(), "tests/control_plane/build.sh failed: {status}");
    Ok(())
}

/// Absolute, because the programs do not run where the test does.
fn folder_in(variable: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(variable).filter(|value| !value.is_empty())?;
    Some(std::path::absolute(folder).expect("a current folder"))
}
