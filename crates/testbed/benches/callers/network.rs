//! The network of the stage: a network namespace in which every address of 10.0.0.0/8 is this machine, so that tasks
//! and pods have their real addresses, and port 53 is free. The benchmark starts itself again in it, with a mount
//! namespace beside, in which /etc/resolv.conf names the stage's DNS. Only `unshare`, `mount` and `ip` are used.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The DNS of the stage, as the resolver of a VPC with the network 10.0.0.0/16.
pub const DNS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// CoreDNS, as the DNS of a cluster.
pub const CORE_DNS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 10);

/// Set in the process that runs in the namespace.
const INSIDE: &str = "CALLERS_STAGE";

/// Whether this process has the network of the stage.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs this program again in namespaces of its own, with the same arguments.
pub fn run_inside() -> Result<ExitCode, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let resolv_conf = resolv_conf(DNS)?;
    let script = format!(
        "ip link set lo up && ip route add local 10.0.0.0/8 dev lo && ip link add void type veth && \
         ip link set void up && mount --bind {} /etc/resolv.conf && exec \"$@\"",
        resolv_conf.display()
    );
    let mut command = in_new_namespaces();
    command.args(["sh", "-c", &script, "sh"]).arg(this).args(std::env::args_os().skip(1));
    let status = command.env(INSIDE, "1").status();
    let status = status.map_err(|error| format!("unshare (package util-linux): {error}"))?;
    Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)))
}

/// Whether namespaces can be had here, and what is missing if they cannot.
pub fn check() -> Result<(), String> {
    let script = "ip link set lo up && ip link add void type veth";
    let output = in_new_namespaces().args(["sh", "-c", script]).output();
    let output = output.map_err(|error| format!("unshare (package util-linux): {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("no network namespace (unshare, and ip of the package iproute2): {why}"))
}

/// `unshare`, which without root has a user namespace beside.
fn in_new_namespaces() -> Command {
    let mut command = Command::new("unshare");
    command.arg("--net").arg("--mount");
    if !is_root() {
        command.arg("--user").arg("--map-root-user");
    }
    command
}

/// A file for /etc/resolv.conf that names one server.
pub fn resolv_conf(server: Ipv4Addr) -> Result<PathBuf, String> {
    let path = scratch(&format!("resolv.conf-{server}"));
    std::fs::write(&path, format!("nameserver {server}\n"))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// A file of this benchmark in the target folder.
pub fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(testbed::ROOT).join("target/callers");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    folder.join(name)
}

/// From now on every packet to an address is lost, and nothing says so.
pub fn lose(address: Ipv4Addr) {
    let route = format!("{address}/32");
    let lost = Command::new("ip")
        .args(["route", "add", &route, "dev", "void", "table", "local"])
        .status()
        .is_ok_and(|status| status.success());
    assert!(lost, "the route to {address} is taken away");
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.starts_with(b"0"))
}
