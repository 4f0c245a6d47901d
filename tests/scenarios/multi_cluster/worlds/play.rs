//! Plays a story: changes, deletions, runs, and a look at the imports every few milliseconds, side by side. Time stands
//! still except for waiting, so the same story always takes the same course.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cloud_map_sync::function::Function;
use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use super::outcome;
use super::story::{Plot, SERVICES, State, Story};
use crate::fleet::Fleet;
use crate::multi_cluster::{Members, amber_attributes, in_full, pods};
use crate::overlapping::trouble::{PROCESSES, take_runs};
use crate::run::sync;
use testbed::cloud_map::{Behaviour, NamespaceKind, ServiceKind};
use testbed::kubernetes::{ClusterIp, Export, Headless, KubernetesServer};

/// The time between two looks at the imports.
const GLANCE: Duration = Duration::from_millis(25);
/// The process of the function for `green`, if each cluster has its own.
const GREEN: usize = 1;
/// After this time nothing is under way any more.
const REST: Duration = Duration::from_mins(2);

/// Plays a story on a runtime of its own.
pub fn play(story: &Story) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(tell(story));
}

/// The world of a story, and the processes of the function.
pub struct Stage {
    pub fleet: Fleet,
    pub blue: KubernetesServer,
    pub green: KubernetesServer,
    processes: Vec<Function>,
    /// The Cloud Map service `web` in the namespace `shop`.
    web: String,
}

async fn tell(story: &Story) {
    let stage = Stage::set(story).await;
    if story.is_converged {
        for process in stage.all_clusters(story.is_apart, 0) {
            let report = sync(process).await;
            assert!(report.ok, "before any trouble: {}", in_full(&report));
        }
    }
    let kept = outcome::kept(story);
    outcome::assert_kept(&stage, &kept);
    story.trouble.begin(&stage.fleet.cloud_map, |cluster| stage.cluster(cluster));
    let start = Instant::now();
    let troubles = async {
        tokio::join!(
            stage.changes(story, start),
            take_runs(&story.runs, &stage.processes, &SERVICES, start)
        );
    };
    tokio::select! {
        () = troubles => {}
        () = async { loop { outcome::assert_kept(&stage, &kept); sleep(GLANCE).await } } => {}
    }
    stage.calm().await;
    outcome::assert_kept(&stage, &kept);
    outcome::assert_rest(&stage, story, &kept).await;
    let violations = stage.fleet.cloud_map.take_violations();
    assert_eq!(violations, [""; 0], "something foreign was touched");
}

impl Stage {
    async fn set(story: &Story) -> Self {
        let Members { fleet, blue, green, .. } = Members::start().await;
        let namespace = fleet.cloud_map.namespace("shop", NamespaceKind::Http);
        let web = fleet.cloud_map.service(&namespace, "web", ServiceKind::Http);
        let stage = Self { fleet, blue, green, processes: Vec::new(), web };
        for (number, plot) in story.services.iter().enumerate() {
            stage.put(number, plot, &plot.states[0].1);
        }
        stage.put_amber(&[], &story.amber[0].1);
        let sandbox = stage.fleet.sandbox.clone();
        let functions = (0..PROCESSES).map(|number| {
            let apart = if number == GREEN { "green" } else { "blue" };
            let settings = [
                ("CLUSTERS", if story.is_apart { apart } else { "blue,green" }),
                ("MULTI_CLUSTER", "on"),
                ("CREATE_NAMESPACES", "true"),
                ("GUARD_MINIMUM", "1000"),
            ];
            let sandbox = &sandbox;
            async move { sandbox.function(&settings).await }
        });
        Self { processes: join_all(functions).await, ..stage }
    }

    pub fn processes(&self) -> &[Function] {
        &self.processes
    }

    /// The processes whose full syncs, one after the other, reach the wanted state. The first of two functions sees the
    /// exports of the other only in its second sync.
    pub fn all_clusters(&self, is_apart: bool, last: usize) -> Vec<&Function> {
        let order = if is_apart { vec![0, GREEN, 0] } else { vec![last] };
        order.into_iter().map(|number| &self.processes[number]).collect()
    }

    pub fn cluster(&self, name: &str) -> &KubernetesServer {
        if name == "blue" { &self.blue } else { &self.green }
    }

    /// Makes a Service and its export what they are from now on.
    fn put(&self, number: usize, plot: &Plot, state: &State) {
        let (cluster, name) = SERVICES[number];
        let server = self.cluster(cluster);
        match &state.pods {
            Some(ready) => {
                server.service(service(name, plot, state));
                let addresses: Vec<String> =
                    ready.iter().map(|pod| outcome::address(cluster, *pod)).collect();
                pods(server, name, &addresses.iter().map(String::as_str).collect::<Vec<_>>());
            }
            None => _ = server.delete_service("shop", name),
        }
        if !state.is_exported {
            server.unexport("shop", name);
        } else if server.service_export("shop", name).is_none() {
            server.put(Export::new("shop", name).created(&outcome::created(plot)).into());
        }
    }

    /// Makes the endpoints of `web` in `amber` what they are from now on, as AWS's controller does.
    fn put_amber(&self, before: &[u8], now: &[u8]) {
        for pod in now.iter().filter(|pod| !before.contains(pod)) {
            let address = outcome::address("amber", *pod);
            let mut attributes: BTreeMap<_, _> = amber_attributes(&address).into();
            attributes.insert("SERVICE_EXPORT_CREATION_TIMESTAMP", outcome::AMBER_CREATED);
            let attributes: Vec<_> = attributes.into_iter().collect();
            self.fleet.cloud_map.instance(&self.web, &format!("amber-{pod}"), &attributes);
        }
        for pod in before.iter().filter(|pod| !now.contains(pod)) {
            self.fleet.cloud_map.withdraw(&self.web, &format!("amber-{pod}"));
        }
    }

    async fn changes(&self, story: &Story, start: Instant) {
        let at = |time: u64| sleep_until(start + Duration::from_millis(time));
        let services = story.services.iter().enumerate().map(|(number, plot)| async move {
            for (time, state) in &plot.states[1..] {
                at(*time).await;
                self.put(number, plot, state);
            }
        });
        let amber = async {
            for pair in story.amber.windows(2) {
                at(pair[1].0).await;
                self.put_amber(&pair[0].1, &pair[1].1);
            }
        };
        let deletions = story.deletions.iter().map(|(time, cluster, name)| async move {
            at(*time).await;
            self.cluster(cluster).delete("serviceimports", "shop", name);
        });
        tokio::join!(join_all(services), amber, join_all(deletions));
    }

    /// All trouble ends, and what is under way comes to its end.
    async fn calm(&self) {
        sleep(REST).await;
        self.fleet.cloud_map.heal();
        self.fleet.cloud_map.behave(Behaviour::default());
        for cluster in [&self.blue, &self.green] {
            cluster.clear_faults();
        }
    }
}

fn service(name: &str, plot: &Plot, state: &State) -> Value {
    let numbers: BTreeSet<u16> = outcome::ports(state);
    let port = |number: u16| ("TCP", if number == 80 { "http" } else { "more" }, number);
    if plot.is_headless {
        let ports = numbers.into_iter().map(port);
        let service = ports.fold(Headless::new("shop", name), |it, (protocol, name, number)| {
            it.port_of(protocol, name, number, 8000 + number)
        });
        service.into()
    } else {
        let ports = numbers.into_iter().map(port);
        let service = ports.fold(ClusterIp::new("shop", name), |it, (protocol, name, number)| {
            it.port_of(protocol, name, number, 8000 + number)
        });
        service.into()
    }
}
