//! The cluster's DNS: CoreDNS with the Corefile of `deploy/coredns`, and with what a ServiceAccount may read by
//! CoreDNS' own role and by that of `deploy/coredns`. Only what ties the Corefile to a pod is replaced.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr};

use super::{ControlPlane, programs};

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/coredns");
/// The role of every CoreDNS, and its ServiceAccount.
const ROLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/control_plane/coredns/role.yaml");
const COREFILE: &str = "Corefile";
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
    ///
    /// # Panics
    /// It does not come up.
    pub async fn start_dns(&self) -> Nameserver {
        self.binaries.build_those_of_a_node().await;
        self.create_from(ROLE).await;
        self.create_from(format!("{DEPLOY}/rbac.yaml")).await;
        let token = self.service_account_token("kube-system", "coredns").await;
        let kubeconfig =
            programs::user_kubeconfig(&self.endpoint, &self.certificate_authority, &token);
        let folder = self.processes.folder();
        programs::write(folder, KUBECONFIG, &kubeconfig.to_string());
        let address = own_address();
        programs::write(folder, COREFILE, &corefile(address));
        let mut command = self.binaries.coredns();
        command.arg("-conf").arg(folder.join(COREFILE));
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
    ///
    /// # Panics
    /// The resolver does not run.
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
