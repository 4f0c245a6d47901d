//! Child processes in a temporary folder that both end with the test, however it ends: dropped,
//! by a panic, or with the whole test process killed. What the children say goes to files in the
//! folder; the ends of those are printed when something fails.
//!
//! The kubelet without containers of `tests/control_plane/kubelet`, on a node of its own.

use std::fs;
use std::fs::{DirBuilder, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;

use super::binaries::Nameserver;
use super::certificates::{AUTHORITY_CERTIFICATE, KUBELET_CERTIFICATE, KUBELET_KEY};
use super::{ControlPlane, programs};

/// Generous, for two cores that also build; whoever is ready is not waited for.
const DEADLINE: Duration = Duration::from_mins(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const TAIL_LINES: usize = 15;

/// Runs its arguments until they end or its own standard input does. That is a pipe which the test
/// process holds, so the kernel closes it even for a process that had no time to clean up. Then
/// each leash removes the folder, and the one whose program ended last finds no other one writing to it.
const LEASH: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- &
program=$!
{ read -r _ <&3; kill -9 "$program"; } &
watcher=$!
wait "$program"
status=$?
kill "$watcher" 2>/dev/null
[ "$status" -ne 137 ] || rm -rf "$PWD"
exit "$status"
"#;

/// The running children and their folder.
pub(super) struct Processes {
    folder: PathBuf,
    running: Mutex<Vec<Process>>,
}

struct Process {
    name: &'static str,
    log: PathBuf,
    leash: Child,
}

impl Processes {
    /// Makes the folder, for this user only: it will hold keys and tokens.
    pub(super) fn new() -> Self {
        let number = RandomState::new().hash_one(std::process::id());
        let folder = std::env::temp_dir().join(format!("cloud-map-sync-{number:016x}"));
        DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .unwrap_or_else(|error| panic!("making {}: {error}", folder.display()));
        Self { folder, running: Mutex::default() }
    }

    /// Where the children run and keep their files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a program; what it says goes to `<name>.log`.
    pub(super) fn spawn(&self, name: &'static str, program: &Command) {
        let process = self.start(name, program);
        self.running().push(process);
    }

    /// Ends a program in the middle of whatever it does, and starts it again.
    pub(super) async fn restart(&self, name: &'static str, program: &Command) {
        self.stop(name);
        let ended = async || self.first_ended() == Some(name);
        self.wait_for(&format!("for {name} to end"), ended).await;
        let process = self.start(name, program);
        let mut running = self.running();
        running.retain(|process| process.name != name);
        running.push(process);
    }

    /// By two signals, of which Kubernetes' programs take the second for impatience: they end without
    /// waiting for anybody. Not by the leash, which takes the folder along.
    fn stop(&self, name: &str) {
        let running = self.running();
        let process =
            running.iter().find(|process| process.name == name).expect("a running program");
        let leash = process.leash.id().to_string();
        for signal in ["-TERM", "-INT"] {
            let sent = Command::new("pkill").args([signal, "-o", "-P", &leash]).status();
            assert!(sent.expect("pkill runs").success(), "{name} is its leash's first child");
        }
    }

    fn start(&self, name: &'static str, program: &Command) -> Process {
        let log = self.folder.join(format!("{name}.log"));
        let output = OpenOptions::new().append(true).create(true).open(&log);
        let output = output.expect("a log for each process");
        let errors = output.try_clone().expect("the same log for errors");
        let leash = Command::new("sh")
            .args(["-c", LEASH, name])
            .arg(program.get_program())
            .args(program.get_args())
            .envs(program.get_envs().filter_map(|(key, value)| Some((key, value?))))
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("starting {name}: {error}"));
        Process { name, log, leash }
    }

    /// Polls the condition until it holds; fails if a process ends first, or after [`DEADLINE`].
    pub(super) async fn wait_until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let holds = async || {
            let held = holds().await;
            let ended = self.first_ended().filter(|_| !held);
            assert_eq!(ended, None, "a process ended while the test waited {what}");
            held
        };
        self.wait_for(what, holds).await;
    }

    async fn wait_for(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !holds().await {
            assert!(Instant::now() < deadline, "the test waited too long {what}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn first_ended(&self) -> Option<&'static str> {
        self.running().iter_mut().find_map(|process| match process.leash.try_wait() {
            Ok(None) => None,
            Ok(Some(_)) | Err(_) => Some(process.name),
        })
    }

    fn running(&self) -> MutexGuard<'_, Vec<Process>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for Process { name, log, .. } in self.running().iter() {
                eprintln!("--- the end of what {name} said:\n{}", tail(log));
            }
        }
        for process in self.running().iter_mut().rev() {
            // Waiting closes the child's standard input first, which is what ends it.
            let _ = process.leash.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

const NODE: &str = "without-containers";

impl ControlPlane {
    /// Starts a kubelet that takes every pod to its node, and waits until the node is there. Pods get addresses of
    /// these ranges, and reach those of the clusters in `network`.
    pub async fn start_kubelet(&self, nameserver: Nameserver, ranges: &str, network: &[&Self]) {
        self.binaries.build_those_of_a_node().await;
        let folder = self.processes.folder();
        let kubeconfigs = network.iter().map(|cluster| cluster.write_admin_kubeconfig());
        let network = std::env::join_paths(kubeconfigs).expect("folders without a separator");
        let mut command = self.binaries.program("kubelet");
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
        self.write_kubeconfig("admin.kubeconfig", &self.endpoint, programs::ADMIN_TOKEN)
    }
}
