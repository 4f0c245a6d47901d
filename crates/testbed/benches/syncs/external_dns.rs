//! ExternalDNS in the same worlds, against the same stand-ins: the binary that `EXTERNAL_DNS_BINARY` names, with its
//! provider aws-sd and its source service, one loop (`--once`) after the other.
//!
//! The SDK for Go asks the host `data-<endpoint>` for discovery. So that this name leads somewhere, the endpoint has the
//! name that AWS gives it, and the stand-in is the proxy through which that is reached; loopback goes round a proxy.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::Command;

use crate::function::Used;
use crate::table::{Row, Table};
use crate::world::{Tenant, World};
use testbed::cloud_map::CloudMap;
use testbed::{REGION, Sandbox, kubeconfig};

/// How often its memory is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Its last lines; it prints all its flags at every start.
const LOG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/external-dns.log");

/// The binary.
pub struct ExternalDns {
    path: PathBuf,
    /// As it prints it.
    pub version: String,
}

impl ExternalDns {
    /// The one that the environment names, if any.
    pub fn from_environment() -> Result<Option<Self>, String> {
        std::env::var_os("EXTERNAL_DNS_BINARY").map(Self::at).transpose()
    }

    fn at(path: OsString) -> Result<Self, String> {
        let printed = std::process::Command::new(&path).arg("--version").output();
        let printed = printed.map_err(|error| format!("{}: {error}", path.display()))?;
        // Kingpin prints it on the other stream.
        let printed = [printed.stdout, printed.stderr].concat();
        let version = String::from_utf8_lossy(&printed).trim().to_owned();
        Ok(Self { path: path.into(), version })
    }

    /// What its table of a world is called.
    pub fn table_name(&self, world: &str) -> String {
        format!("{world}, ExternalDNS {}", self.version)
    }

    /// Measures its first loop and the next in a world.
    pub async fn run(&self, world: &World) -> Table {
        let (sandbox, cluster, cloud_map) = world.seed(Tenant::ExternalDns).await;
        let kubeconfig = Path::new(env!("CARGO_TARGET_TMPDIR")).join("external-dns-kubeconfig");
        kubeconfig::write(&kubeconfig, &[cluster]).expect("Cargo makes this folder");
        let first = self.once("first sync", &sandbox, &cloud_map, &kubeconfig).await;
        let next = self.once("in step, cold", &sandbox, &cloud_map, &kubeconfig).await;
        std::fs::remove_file(&kubeconfig).expect("it was just written");
        let name = self.table_name(world.name);
        let rows = vec![first, next];
        Table { name, rows, ..Table::default() }
    }

    async fn once(
        &self,
        name: &'static str,
        sandbox: &Sandbox,
        cloud_map: &CloudMap,
        kubeconfig: &Path,
    ) -> Row {
        cloud_map.forget_calls();
        let start = Instant::now();
        let mut command = self.command(sandbox, kubeconfig);
        let mut process = command.spawn().expect("it printed its version just now");
        let mut used = Used::default();
        let status = loop {
            tokio::select! {
                status = process.wait() => break status.expect("a child of this process"),
                () = tokio::time::sleep(LOOK) => used = Used::by(process.id()).unwrap_or(used),
            }
        };
        let took = start.elapsed();
        assert!(status.success(), "ExternalDNS ended with {status}: see {LOG}");
        let calls = cloud_map.counts();
        let throttled = cloud_map.throttled();
        Row { name, took, calls, throttled, forced: None, used }
    }

    fn command(&self, sandbox: &Sandbox, kubeconfig: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command
            .args(["--provider=aws-sd", "--registry=aws-sd", "--txt-owner-id=bench"])
            .args(["--source=service", "--service-type-filter=ClusterIP", "--policy=sync"])
            .args(["--once", "--log-level=warning", "--metrics-address=127.0.0.1:0"])
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .env_clear()
            .envs(sandbox.environment())
            .env("AWS_ENDPOINT_URL", format!("http://servicediscovery.{REGION}.amazonaws.com"))
            .env("HTTP_PROXY", sandbox.endpoint_url())
            .stdin(Stdio::null())
            .stderr(File::create(LOG).expect("Cargo makes this folder"))
            .kill_on_drop(true);
        command
    }
}
