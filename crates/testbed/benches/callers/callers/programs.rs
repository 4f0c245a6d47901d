//! Clients by language, whose sources are beside: each gets the stories as arguments and prints one line for each call.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::UnboundedSender;

use super::{Running, find, logged};
use crate::network::{CORE_DNS, DNS, resolv_conf, scratch};
use crate::record::Call;
use crate::server::PORT;
use crate::stage::Stage;
use crate::times::Times;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/callers/programs");

#[derive(Clone, Copy)]
pub enum Program {
    /// Python's urllib behind CoreDNS.
    ResolveEach,
    Grpc,
    Go,
    Java,
    Discover,
}

impl Program {
    pub fn missing(self) -> Option<String> {
        match self {
            Self::ResolveEach if !core_dns().is_file() => {
                Some("tests/control_plane/build.sh --node".to_owned())
            }
            Self::ResolveEach => find("python3").is_none().then(|| "Python 3".to_owned()),
            Self::Grpc => missing_module("grpc", "pip install grpcio"),
            Self::Discover => missing_module("boto3", "pip install boto3"),
            Self::Go => find("go").is_none().then(|| "Go".to_owned()),
            Self::Java => {
                find("javac").is_none().then(|| "apt-get install default-jdk-headless".to_owned())
            }
        }
    }

    pub async fn start(
        self,
        caller: &'static str,
        stages: &[Stage],
        times: Times,
        calls: &UnboundedSender<Call>,
    ) -> Result<Running, String> {
        let mut running = Running::default();
        let log = format!("{}.log", caller.to_lowercase());
        let mut command = match self {
            Self::ResolveEach => {
                running.processes.push(start_core_dns()?);
                let script = format!(
                    "mount --bind {} /etc/resolv.conf && exec \"$@\"",
                    resolv_conf(CORE_DNS)?.display()
                );
                let mut command = logged("unshare", &log);
                command.args(["--mount", "sh", "-c", &script, "sh", "python3"]);
                command.arg(format!("{SOURCES}/resolve_each.py"));
                command
            }
            Self::Grpc => {
                let mut command = logged(python().ok_or("no Python with grpcio")?, &log);
                command.arg(format!("{SOURCES}/grpc_round_robin.py"));
                let between = times.seconds(30).as_millis().to_string();
                command.env("BETWEEN_RESOLUTIONS_MS", between).env("GRPC_DNS_RESOLVER", "ares");
                command
            }
            Self::Go => logged(build_go().await?, &log),
            Self::Java => {
                let mut command = logged("java", &log);
                command.arg(format!("-Dsun.net.inetaddr.ttl={}", times.ttl(30)));
                command.arg(format!("-Dsun.net.inetaddr.negative.ttl={}", times.ttl(10)));
                command.args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp"]);
                command.arg(build_java().await?).arg("Caller");
                command
            }
            Self::Discover => {
                let mut command = logged(python().ok_or("no Python with boto3")?, &log);
                command.arg(format!("{SOURCES}/discover_instances.py"));
                command.env("CACHE_SECONDS", times.seconds(5).as_secs_f64().to_string());
                command
            }
        };
        for stage in stages {
            command.arg(format!("{}:{PORT}", stage.host()));
            if matches!(self, Self::Discover) {
                let key = stage.sandbox().access_key();
                command.args([
                    &stage.sandbox().endpoint_url(),
                    &key.id,
                    &key.secret,
                    &key.session_token,
                ]);
            }
        }
        command.stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| format!("{caller}: {error}"))?;
        let output = process.stdout.take().expect("its output is a pipe");
        let calls = calls.clone();
        running.tasks.spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let Some(call) = read_call(caller, &line) else {
                    eprintln!("{caller}: {line}");
                    continue;
                };
                if calls.send(call).is_err() {
                    return;
                }
            }
        });
        running.processes.push(process);
        Ok(running)
    }
}

/// `host, milliseconds since 1970 of the begin and of the end, address or reason`, divided by tabs.
fn read_call(caller: &'static str, line: &str) -> Option<Call> {
    let mut parts = line.split('\t');
    let host = parts.next()?.split(':').next()?;
    let story = host.split_once('.')?.1.to_owned();
    let mut time = || -> Option<SystemTime> {
        Some(UNIX_EPOCH + Duration::from_millis(parts.next()?.parse().ok()?))
    };
    let began = time()?;
    let ended = time()?;
    let outcome = parts.next()?;
    let outcome = outcome.parse().map_err(|_| outcome.to_owned());
    Some(Call { caller, story, began, ended, outcome })
}

/// The Python in which the callers' packages are: that of CALLERS_PYTHON, or of the system.
pub fn python() -> Option<PathBuf> {
    std::env::var_os("CALLERS_PYTHON").map(PathBuf::from).or_else(|| find("python3"))
}

fn missing_module(module: &str, install: &str) -> Option<String> {
    let python = python()?;
    let import = std::process::Command::new(python)
        .args(["-c", &format!("import {module}")])
        .stderr(Stdio::null())
        .status();
    (!import.is_ok_and(|status| status.success())).then(|| install.to_owned())
}

fn core_dns() -> PathBuf {
    let folder = std::env::var_os("CLOUD_MAP_SYNC_CONTROL_PLANE").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| Path::new(testbed::ROOT).join("target/control-plane"));
    folder.join("coredns")
}

/// As on EKS: what is not of the cluster goes to the resolver of the VPC, and answers are cached by their TTL, for 30 s
/// at most.
fn start_core_dns() -> Result<Child, String> {
    let file = scratch("Corefile");
    let text = format!(
        ".:53 {{\n  bind {CORE_DNS}\n  errors\n  forward . {DNS}\n  cache 30\n  loop\n  reload\n  loadbalance\n}}\n"
    );
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut command = logged(core_dns(), "coredns.log");
    command.args(["-conf".as_ref(), file.as_os_str()]).stdout(Stdio::null());
    command.spawn().map_err(|error| format!("CoreDNS: {error}"))
}

async fn build_go() -> Result<PathBuf, String> {
    let program = scratch("caller-go");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg("caller.go").current_dir(SOURCES);
    build.env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local").env("GOWORK", "off");
    run(build, "go build").await?;
    Ok(program)
}

async fn build_java() -> Result<PathBuf, String> {
    let classes = scratch("classes");
    let mut build = Command::new("javac");
    build.arg("-d").arg(&classes).arg(format!("{SOURCES}/Caller.java"));
    run(build, "javac").await?;
    Ok(classes)
}

async fn run(mut command: Command, name: &str) -> Result<(), String> {
    let output = command.output().await.map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)))
}
