//! The world of one story: a Cloud Map with one DNS namespace and the name `web` in it, ECS tasks, clusters with pods,
//! and the function's binary in two execution environments, one for its schedule and one for messages. What happens to
//! tasks (`ecs`) and pods (`kubernetes`) is recorded with its time, so that calls can be compared with it; `function` runs
//! the binary.

mod ecs;
mod function;
mod kubernetes;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use testbed::Sandbox;
use testbed::cloud_map::{Behaviour, CloudMap, NamespaceKind, Quotas, RecordType, ServiceKind};
use tokio::process::Child;
use tokio::sync::mpsc;

use crate::dns::Dns;
use crate::server::Server;
use crate::times::Times;

pub use kubernetes::Recipe;

/// The Kubernetes namespace and the Service of every story.
pub const NAMESPACE: &str = "shop";
pub const SERVICE: &str = "web";

/// The stage of one story; clones share it.
#[derive(Clone)]
pub struct Stage(Arc<Inner>);

struct Inner {
    times: Times,
    sandbox: Sandbox,
    cloud_map: CloudMap,
    /// The Cloud Map namespace.
    domain: String,
    service: String,
    /// The third part of every address here.
    network: u8,
    last_host: AtomicU8,
    function_is_away: AtomicBool,
    changes: Option<mpsc::UnboundedSender<(String, String)>>,
    world: Mutex<World>,
}

#[derive(Default)]
struct World {
    tasks: BTreeMap<Ipv4Addr, Server>,
    pods: Vec<RunningPod>,
    lives: Vec<Life>,
    /// Services whose selector finds no pod.
    blind: Vec<String>,
    processes: Vec<Child>,
}

struct RunningPod {
    cluster: String,
    service: String,
    address: Ipv4Addr,
    is_ready: bool,
    is_terminating: bool,
    server: Option<Server>,
}

/// When a task or pod could be called.
#[derive(Clone, Copy)]
pub struct Life {
    pub address: Ipv4Addr,
    pub ready: SystemTime,
    /// When it was told to end, or ended.
    pub ended: Option<SystemTime>,
}

/// The configuration of a stage.
#[derive(Clone, Copy)]
pub struct Setting {
    pub name: &'static str,
    pub clusters: &'static [&'static str],
    pub has_forwarder: bool,
    /// Of the records of the name, in seconds of the real world.
    pub ttl: u32,
}

impl Stage {
    /// Sets the stage, without tasks and pods, and starts the function.
    pub async fn set(setting: Setting, network: u8, times: Times, binary: &Path) -> Self {
        let mut sandbox = Sandbox::start().await;
        for cluster in setting.clusters {
            sandbox = sandbox.cluster(cluster).await;
        }
        let cloud_map = sandbox.cloud_map();
        cloud_map.behave(Behaviour {
            latency: Duration::from_millis(5),
            operation_delay: times.seconds(Times::OPERATION),
            discover_lag: times.seconds(Times::DISCOVERY),
            quotas: Some(Quotas::of_an_account()),
            discovery_on_any_host: true,
            ..Behaviour::default()
        });
        let domain = format!("{}.test", setting.name);
        let namespace = cloud_map.namespace(&domain, NamespaceKind::DnsPrivate);
        let records = vec![(RecordType::A, i64::from(setting.ttl))];
        let kind = ServiceKind::Dns { records, custom_health: false };
        let service = cloud_map.service(&namespace, SERVICE, kind);
        let arns: Vec<String> =
            setting.clusters.iter().map(|name| sandbox.cluster_arn(name)).collect();
        cloud_map.watch_over("cloud-map-sync", &arns);
        let (changes, changed) = mpsc::unbounded_channel();
        let stage = Self(Arc::new(Inner {
            times,
            sandbox,
            cloud_map,
            domain,
            service,
            network,
            last_host: AtomicU8::new(0),
            function_is_away: AtomicBool::new(false),
            changes: setting.has_forwarder.then_some(changes),
            world: Mutex::default(),
        }));
        stage.run_schedule(binary).await;
        if setting.has_forwarder {
            stage.run_forwarder(binary, changed).await;
        }
        stage
    }

    pub fn host(&self) -> String {
        format!("{SERVICE}.{}", self.0.domain)
    }

    pub fn sandbox(&self) -> &Sandbox {
        &self.0.sandbox
    }

    pub fn cloud_map(&self) -> &CloudMap {
        &self.0.cloud_map
    }

    pub fn domain(&self) -> &str {
        &self.0.domain
    }

    /// Lets the DNS answer for the name.
    pub fn resolve_by(&self, dns: &Dns) {
        dns.add(&self.host(), self.0.cloud_map.clone(), &self.0.service);
    }

    /// Waits so many seconds of the real world.
    pub async fn wait(&self, seconds: u32) {
        tokio::time::sleep(self.0.times.seconds(seconds)).await;
    }

    /// Waits until Cloud Map has so many instances of the name.
    pub async fn registered(&self, count: usize) {
        for _ in 0..3000 {
            if self.0.cloud_map.instances(&self.0.service).len() == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let instances = self.0.cloud_map.instances(&self.0.service);
        panic!(
            "{}: {count} instances are not registered after a minute: {instances:?}",
            self.0.domain
        );
    }

    /// The tasks and pods that ever were, with their times.
    pub fn lives(&self) -> Vec<Life> {
        self.world().lives.clone()
    }

    /// Ends the function and every server.
    pub fn strike(&self) {
        let mut world = self.world();
        world.processes.clear();
        for (_, server) in std::mem::take(&mut world.tasks) {
            server.kill();
        }
        for pod in std::mem::take(&mut world.pods) {
            if let Some(server) = pod.server {
                server.kill();
            }
        }
    }

    fn record_end(&self, address: Ipv4Addr) {
        let now = SystemTime::now();
        for life in self.world().lives.iter_mut().filter(|life| life.address == address) {
            life.ended = Some(now);
        }
    }

    fn new_address(&self, kind: u8) -> Ipv4Addr {
        let host = self.0.last_host.fetch_add(1, Ordering::Relaxed) + 1;
        Ipv4Addr::new(10, kind, self.0.network, host)
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.world.lock().expect("no poisoned lock")
    }
}
