//! The callers: third-party programs in their usual configuration, which the page lists. `proxies` has the programs that
//! forward calls, `programs` the clients by language. Each caller calls the name of every story ten times a second and
//! reports each call.

mod programs;
mod proxies;

use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::{Child, Command};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use crate::record::Call;
use crate::stage::Stage;
use crate::times::Times;

/// One kind of caller.
#[derive(Clone, Copy)]
pub struct Caller {
    pub name: &'static str,
    /// How it is configured, for the page, in the times of the real world.
    pub configuration: &'static str,
    /// Whether it leaves an address soon after the name no longer has it.
    pub follows_the_name: bool,
    /// Whether the short form has it.
    pub is_in_short_form: bool,
    start: Start,
}

#[derive(Clone, Copy)]
enum Start {
    Proxy(proxies::Proxy),
    Program(programs::Program),
}

/// All of them, in the order of the page.
pub const CALLERS: &[Caller] = &[
    Caller {
        name: "Envoy",
        configuration: "`STRICT_DNS`, `respect_dns_ttl`, `dns_refresh_rate: 5s`, round robin, no retries",
        follows_the_name: true,
        is_in_short_form: true,
        start: Start::Proxy(proxies::Proxy::Envoy(proxies::Checks::Off)),
    },
    Caller {
        name: "Envoy, checks",
        configuration: "the same with HTTP health checks every 5 s, two failures and one success; it calls an address \
                        that left the name until a check fails",
        follows_the_name: false,
        is_in_short_form: false,
        start: Start::Proxy(proxies::Proxy::Envoy(proxies::Checks::On)),
    },
    Caller {
        name: "Envoy, removal",
        configuration: "the same with `ignore_health_on_host_removal: true`",
        follows_the_name: true,
        is_in_short_form: false,
        start: Start::Proxy(proxies::Proxy::Envoy(proxies::Checks::EndWithTheName)),
    },
    Caller {
        name: "HAProxy",
        configuration: "`server-template web 10`, `check inter 2s`, `resolvers` with `hold valid 10s`, `hold obsolete 0s`, \
                        `timeout resolve 1s` (its defaults)",
        follows_the_name: true,
        is_in_short_form: true,
        start: Start::Proxy(proxies::Proxy::Haproxy),
    },
    Caller {
        name: "CoreDNS",
        configuration: "EKS's Corefile (`cache 30`, `forward`) before Python's urllib, which resolves for each call",
        follows_the_name: true,
        is_in_short_form: true,
        start: Start::Program(programs::Program::ResolveEach),
    },
    Caller {
        name: "gRPC",
        configuration: "grpcio, `dns:///`, `round_robin`, `GRPC_DNS_RESOLVER=ares`; it resolves after a lost connection, \
                        at most every 30 s",
        follows_the_name: true,
        is_in_short_form: false,
        start: Start::Program(programs::Program::Grpc),
    },
    Caller {
        name: "Go",
        configuration: "net/http with keep-alive; it resolves for each new connection",
        follows_the_name: true,
        is_in_short_form: true,
        start: Start::Program(programs::Program::Go),
    },
    Caller {
        name: "Java",
        configuration: "HttpClient with keep-alive; the JVM caches an address for 30 s",
        follows_the_name: true,
        is_in_short_form: false,
        start: Start::Program(programs::Program::Java),
    },
    Caller {
        name: "DiscoverInstances",
        configuration: "boto3, a cache of 5 s, a new connection for each call",
        follows_the_name: true,
        is_in_short_form: true,
        start: Start::Program(programs::Program::Discover),
    },
    Caller {
        name: "nginx",
        configuration: "`proxy_pass` to an `upstream` with the name, which it resolves once, at its start",
        follows_the_name: false,
        is_in_short_form: false,
        start: Start::Proxy(proxies::Proxy::Nginx),
    },
];

/// A caller that runs; it ends when this is dropped, with the tasks that pass its calls on.
#[derive(Default)]
pub struct Running {
    processes: Vec<Child>,
    tasks: JoinSet<()>,
}

impl Caller {
    /// The command that installs the caller; `None` if it is installed.
    pub fn missing(&self) -> Option<String> {
        match self.start {
            Start::Proxy(proxy) => proxy.missing(),
            Start::Program(program) => program.missing(),
        }
    }

    /// Calls the names of all stories from now on.
    pub async fn start(
        &self,
        stages: &[Stage],
        times: Times,
        calls: &UnboundedSender<Call>,
    ) -> Result<Running, String> {
        match self.start {
            Start::Proxy(proxy) => proxy.start(self.name, stages, times, calls),
            Start::Program(program) => program.start(self.name, stages, times, calls).await,
        }
    }
}

/// Finds a program in `PATH` or in /usr/sbin, which the path of a user may lack.
fn find(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&folders).chain(["/usr/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// A command whose output goes to a file of the target folder, for whoever looks for a fault.
fn logged(program: impl AsRef<std::ffi::OsStr>, log: &str) -> Command {
    let log = std::fs::File::create(crate::network::scratch(log)).expect("a file for the log");
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stderr(log).kill_on_drop(true);
    command
}
