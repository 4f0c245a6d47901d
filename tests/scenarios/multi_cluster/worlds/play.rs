//! Plays a story: changes, moves, runs, and a look at the imports every few milliseconds, side by side. Time stands
//! still except for waiting, so the same story always takes the same course.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::time::Deadline;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::oracle;
use super::story::{Plot, Run, SERVICES, State, Story};
use super::trouble::PROCESSES;
use crate::faults::play::on_a_runtime;
use crate::fleet::Fleet;
use crate::multi_cluster::{Members, amber_attributes, in_full, pods};
use crate::queue::{batch, message};
use crate::run::sync;
use testbed::cloud_map::{Behaviour, NamespaceKind, ServiceKind};
use testbed::kubernetes::{ClusterIp, Export, Headless, KubernetesServer};

/// The time between two looks at the imports.
const GLANCE: Duration = Duration::from_millis(25);
/// The process of the function for `green`, if each cluster has its own.
const GREEN: usize = 1;
/// After this time nothing is under way any more, and each process asks anew which APIs a cluster serves.
const REST: Duration = Duration::from_mins(6);

/// Plays a story on a runtime of its own.
pub fn play(story: &Story) {
    on_a_runtime(run(story));
}

/// The world of a story, and the processes of the function.
pub struct Stage {
    pub fleet: Fleet,
    pub blue: KubernetesServer,
    pub green: KubernetesServer,
    processes: Vec<Function>,
    /// Whether the last process has the settings of the others.
    are_alike: bool,
    /// The Cloud Map service `web` in the namespace `shop`.
    web: String,
    /// How Cloud Map behaves at the moment.
    behaviour: RefCell<Behaviour>,
}

async fn run(story: &Story) {
    let stage = Stage::set(story).await;
    if story.is_converged {
        for process in stage.all_clusters(story.is_apart, 0) {
            let report = sync(process).await;
            assert!(report.ok, "before any trouble: {}", in_full(&report));
        }
    }
    let kept = oracle::kept(&stage, story);
    oracle::assert_kept(&stage, &kept);
    story.trouble.begin(&stage.fleet.cloud_map, |cluster| stage.cluster(cluster));
    *stage.behaviour.borrow_mut() = story.trouble.behaviour();
    let start = Instant::now();
    let troubles = async {
        tokio::join!(stage.changes(story, start), stage.runs(&story.runs, start));
    };
    tokio::select! {
        () = troubles => {}
        () = async { loop { oracle::assert_kept(&stage, &kept); sleep(GLANCE).await } } => {}
    }
    stage.calm().await;
    oracle::assert_kept(&stage, &kept);
    oracle::assert_rest(&stage, story, &kept).await;
    let violations = stage.fleet.cloud_map.take_violations();
    assert_eq!(violations, [""; 0], "something foreign was touched");
}

impl Stage {
    async fn set(story: &Story) -> Self {
        let Members { fleet, blue, green, .. } = Members::start().await;
        let namespace = fleet.cloud_map.namespace("shop", NamespaceKind::Http);
        let web = fleet.cloud_map.service(&namespace, "web", ServiceKind::Http);
        let (processes, behaviour) = Default::default();
        let are_alike = story.other_settings.is_empty();
        let stage = Self { fleet, blue, green, processes, are_alike, web, behaviour };
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
            let other = if number + 1 == PROCESSES { story.other_settings } else { &[] };
            // The first of two settings of one name counts.
            let settings: Vec<_> = other.iter().chain(&settings).copied().collect();
            let sandbox = &sandbox;
            async move { sandbox.function(&settings).await }
        });
        Self { processes: join_all(functions).await, ..stage }
    }

    /// The processes whose settings agree. Another one may state other conditions of the exports.
    pub fn processes(&self) -> &[Function] {
        let agreeing = if self.are_alike { PROCESSES } else { PROCESSES - 1 };
        &self.processes[..agreeing]
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
                    ready.iter().map(|pod| oracle::address(cluster, *pod)).collect();
                pods(server, name, &addresses.iter().map(String::as_str).collect::<Vec<_>>());
            }
            None => _ = server.delete_service("shop", name),
        }
        if !state.is_exported {
            server.unexport("shop", name);
        } else if server.service_export("shop", name).is_none() {
            server.put(Export::new("shop", name).created(&oracle::created(plot)).into());
        }
    }

    /// Makes the endpoints of `web` in `amber` what they are from now on, as AWS's controller does.
    fn put_amber(&self, before: &[u8], now: &[u8]) {
        for pod in now.iter().filter(|pod| !before.contains(pod)) {
            let address = oracle::address("amber", *pod);
            let mut attributes: BTreeMap<_, _> = amber_attributes(&address).into();
            attributes.insert("SERVICE_EXPORT_CREATION_TIMESTAMP", oracle::AMBER_CREATED);
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
        let moves = story.moves.iter().map(|(time, it)| async move {
            at(*time).await;
            it.make(self);
        });
        tokio::join!(join_all(services), amber, join_all(moves));
    }

    /// All trouble ends, and what is under way comes to its end.
    async fn calm(&self) {
        for cluster in ["blue", "green"] {
            self.serve_apis(cluster);
        }
        self.uncount("");
        sleep(REST).await;
        self.fleet.cloud_map.heal();
        self.fleet.cloud_map.behave(Behaviour::default());
        for cluster in [&self.blue, &self.green] {
            cluster.clear_faults();
        }
    }

    /// Serves the definitions of exports and imports in a cluster.
    pub fn serve_apis(&self, cluster: &str) {
        self.cluster(cluster).serve_multi_cluster_versions(&["v1beta1", "v1alpha1"]);
    }

    /// The lists of Cloud Map count no instance in the services of this namespace; an empty name: they count all.
    pub fn uncount(&self, namespace: &'static str) {
        let mut behaviour = self.behaviour.borrow_mut();
        behaviour.uncounted = namespace;
        self.fleet.cloud_map.behave(behaviour.clone());
    }

    /// Takes all runs, those of one process one after the other.
    async fn runs(&self, runs: &[Run], start: Instant) {
        let of_process = |number: usize| async move {
            let mut runs: Vec<&Run> = runs.iter().filter(|it| it.process == number).collect();
            runs.sort_by_key(|run| run.start);
            for run in runs {
                sleep_until(start + Duration::from_millis(run.start)).await;
                let deadline = Deadline::after(Duration::from_millis(run.timeout));
                let end = Duration::from_millis(run.killed.unwrap_or(run.timeout));
                let payload = payload(&run.batch);
                drop(timeout(end, self.processes[number].invoke(&payload, deadline)).await);
            }
        };
        join_all((0..PROCESSES).map(of_process)).await;
    }
}

/// A full sync, or one batch of messages.
fn payload(bodies: &[(usize, bool)]) -> Value {
    if bodies.is_empty() {
        return json!({ "action": "sync" });
    }
    let bodies = bodies.iter().map(|(number, is_import)| {
        let (cluster, name) = SERVICES[*number];
        let mut body = json!({ "cluster": cluster, "namespace": "shop", "service": name });
        if *is_import {
            body["import"] = true.into();
        }
        body
    });
    let records = bodies.enumerate().map(|(id, body)| message(&id.to_string(), &body));
    batch(&records.collect::<Vec<_>>())
}

fn service(name: &str, plot: &Plot, state: &State) -> Value {
    let ports = oracle::ports(plot, state).into_iter();
    if plot.is_headless {
        let service = Headless::new("shop", name);
        ports.fold(service, |it, (name, port)| it.port_of("TCP", name, port, 8000 + port)).into()
    } else {
        let service = ClusterIp::new("shop", name).spec("sessionAffinity", oracle::affinity(plot));
        ports.fold(service, |it, (name, port)| it.port_of("TCP", name, port, 8000 + port)).into()
    }
}
