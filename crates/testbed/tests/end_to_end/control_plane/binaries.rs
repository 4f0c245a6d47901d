//! The programs of the control plane: built from `tests/control_plane` where Go is there, etcd and
//! kube-apiserver taken from `KUBEBUILDER_ASSETS` where that is set (the envtest convention).
//!
//! The cluster's DNS: CoreDNS with the Corefile of `deploy/coredns`, and with what a ServiceAccount may read by
//! CoreDNS' own role and by that of `deploy/coredns`. Only what ties the Corefile to a pod is replaced.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tokio::sync::Mutex;

use super::{ControlPlane, programs};

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

    /// A program that was built here.
    pub(super) fn program(&self, name: &str) -> Command {
        Command::new(self.built.join(name))
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

    /// The kubelet's program by another name.
    pub(super) fn nslookup(&self) -> Command {
        let mut command = self.program("kubelet");
        command.arg0("nslookup");
        command
    }

    fn kubernetes(&self, program: &str) -> Command {
        let mut command = self.program("kubernetes");
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

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/coredns");
/// The role of every CoreDNS, and its ServiceAccount.
const ROLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/control_plane/coredns/role.yaml");
const KUBECONFIG: &str = "coredns.kubeconfig";
const PORT: u16 = 5353;

/// A running CoreDNS.
#[derive(Clone, Copy, Debug)]
pub struct Nameserver(SocketAddr);

impl Nameserver {
    /// Address and port.
    pub(super) fn address(self) -> String {
        self.0.to_string()
    }
}

impl ControlPlane {
    /// Starts CoreDNS and waits until it answers.
    pub async fn start_dns(&self) -> Nameserver {
        self.binaries.build_those_of_a_node().await;
        self.create_from(ROLE).await;
        self.create_from(format!("{DEPLOY}/rbac.yaml")).await;
        let token = self.service_account_token("kube-system", "coredns").await;
        self.write_kubeconfig(KUBECONFIG, &self.endpoint, &token);
        let address = own_address();
        let corefile = programs::write(self.processes.folder(), "Corefile", &corefile(address));
        let mut command = self.binaries.program("coredns");
        command.arg("-conf").arg(corefile);
        self.processes.spawn("coredns", &command);
        let nameserver = Nameserver((address, PORT).into());
        let answers = async || {
            !self.look_up(nameserver, "A", "kubernetes.default.svc.cluster.local").is_empty()
        };
        self.processes.wait_until("for CoreDNS to answer", answers).await;
        nameserver
    }

    /// Asks for the records of a name over the wire. Addresses, or port and target; sorted, and none where there is no
    /// such name.
    pub fn look_up(&self, nameserver: Nameserver, kind: &str, name: &str) -> Vec<String> {
        let mut command = self.binaries.nslookup();
        command.args(["-type", kind, name]).env("NAMESERVER", nameserver.address());
        let output = command.output().expect("nslookup runs");
        let answer = String::from_utf8(output.stdout).expect("text");
        let (_, answer) = answer.split_once("\n\n").expect("what the server is, then its answer");
        let values = answer.lines().filter_map(|line| {
            let service = || line.split_once("service = ")?.1.splitn(3, ' ').last();
            line.strip_prefix("Address: ").or_else(service)
        });
        let mut values: Vec<String> = values.map(str::to_owned).collect();
        values.sort();
        values
    }
}

/// Of loopback, so that no two servers want the same ports.
fn own_address() -> Ipv4Addr {
    let [_, a, b, c, ..] = RandomState::new().hash_one(std::process::id()).to_be_bytes();
    Ipv4Addr::new(127, a, b, c.clamp(1, 254))
}

/// The Corefile in the manifest, on other ports of an address of its own. It forwards nothing: what the machine's own
/// resolver says is no part of a test.
fn corefile(address: Ipv4Addr) -> String {
    let path = format!("{DEPLOY}/self-managed.yaml");
    let manifest = std::fs::read_to_string(&path).expect("the manifest");
    let (_, corefile) = manifest.split_once("  Corefile: |\n").expect("a Corefile");
    let mut corefile = corefile.to_owned();
    for (line, replacement) in [
        (".:53 {", format!(".:{PORT} {{\n bind {address}")),
        ("health {", format!("health {address}:8080 {{")),
        ("ready", format!("ready {address}:8181")),
        (
            "multicluster clusterset.local",
            format!("multicluster clusterset.local\n kubeconfig {KUBECONFIG}"),
        ),
        ("prometheus :9153", format!("prometheus {address}:9153")),
        ("forward . /etc/resolv.conf", String::new()),
        ("loop", String::new()),
    ] {
        let whole = format!(" {line}\n");
        assert_eq!(corefile.matches(&whole).count(), 1, "{path} has a line {line:?}");
        corefile = corefile.replace(&whole, &format!(" {replacement}\n"));
    }
    corefile
}
