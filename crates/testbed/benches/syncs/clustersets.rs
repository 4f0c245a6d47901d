//! Services across clusters: members of one clusterset, which export the same Services, with the release binary as in
//! all other worlds. A sync from nothing, with the time until every import has its endpoints; syncs in step; and from
//! the change of a pod in one cluster to the slices of all others.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::function::{Binary, Function};
use crate::runs::{full_sync, message};
use crate::table::{Events, Imports, Table};
use crate::world::sandbox_of;
use testbed::Sandbox;
use testbed::cloud_map::{Behaviour, CloudMap, Quotas};
use testbed::kubernetes::{ClusterIp, Export, KubernetesServer, Pod};

/// How many pods change, one message after the other.
const EVENTS: usize = 40;
/// After this time a first sync has been cut short.
const LONGEST: Duration = Duration::from_mins(20);
const NAMESPACES: [&str; 4] = ["one", "two", "three", "four"];

/// One world.
pub struct World {
    pub name: &'static str,
    pub clusters: usize,
    /// Of each of them.
    pub exports: usize,
    quotas: bool,
    /// Whether full syncs are measured, or single changes.
    is_about_syncs: bool,
}

/// Endpoints of each export in each cluster.
const PODS: usize = 10;

/// The worlds that the aims are about.
pub const UNDER_QUOTAS: &str =
    "3 clusters x the same 100 exports x 10, an account's quotas, the whole of them";
pub const FREE: &str = "3 clusters x the same 100 exports x 10, no quotas";
pub const TWO: &str = "2 clusters x the same 20 exports x 10, no quotas";
pub const EIGHT: &str = "8 clusters x the same 20 exports x 10, no quotas";

/// All worlds.
pub const WORLDS: &[World] = &[
    World { name: UNDER_QUOTAS, clusters: 3, exports: 100, quotas: true, is_about_syncs: true },
    World { name: FREE, clusters: 3, exports: 100, quotas: false, is_about_syncs: true },
    World { name: TWO, clusters: 2, exports: 20, quotas: false, is_about_syncs: false },
    World { name: EIGHT, clusters: 8, exports: 20, quotas: false, is_about_syncs: false },
];

/// The worlds that show how the cost grows.
pub const GROWING: &[World] = &[
    growing(4, "4 clusters x the same 100 exports x 10, no quotas"),
    growing(8, "8 clusters x the same 100 exports x 10, no quotas"),
    growing(16, "16 clusters x the same 100 exports x 10, no quotas"),
];

const fn growing(clusters: usize, name: &'static str) -> World {
    World { name, clusters, exports: 100, quotas: false, is_about_syncs: true }
}

/// A world that has begun.
struct Begun {
    sandbox: Sandbox,
    clusters: Vec<KubernetesServer>,
    cloud_map: CloudMap,
}

impl World {
    /// Measures all runs in it.
    pub async fn run(&self, binary: &Binary) -> Table {
        let begun = self.seed().await;
        let share = if self.quotas { "1" } else { "1000" };
        let settings =
            [("MULTI_CLUSTER", "on"), ("CREATE_NAMESPACES", "true"), ("QUOTA_SHARE", share)];
        let mut function = binary.start(&begun.sandbox, &settings).await;
        let first = full_sync(self.quotas, "first sync", &mut function, &begun.cloud_map);
        let (first, ready) = tokio::join!(first, self.imports_ready(&begun.clusters));
        let name = self.name.to_owned();
        let warm = full_sync(self.quotas, "in step, warm", &mut function, &begun.cloud_map).await;
        if !self.is_about_syncs {
            let events = Some(self.events(&mut function, &begun).await);
            return Table { name, events, ..Table::default() };
        }
        let mut cold = binary.start(&begun.sandbox, &settings).await;
        begun.clusters.iter().for_each(KubernetesServer::forget_requests);
        let in_step = full_sync(self.quotas, "in step, cold", &mut cold, &begun.cloud_map).await;
        let requests = begun.clusters.iter().map(|it| it.requests().len()).max();
        let all = begun.clusters.iter().flat_map(KubernetesServer::requests);
        let writes = all.filter(|request| request.method != "GET").count();
        let imports = Imports { ready, requests: requests.unwrap_or_default(), writes };
        let rows = vec![first, warm, in_step];
        Table { name, rows, imports: Some(imports), ..Table::default() }
    }

    async fn seed(&self) -> Begun {
        let (sandbox, cloud_map, clusters) = sandbox_of(self.clusters).await;
        for (index, cluster) in clusters.iter().enumerate() {
            cluster.serve_multi_cluster();
            cluster.cluster_property("cluster.clusterset.k8s.io", &format!("c{index}"));
            cluster.cluster_property("clusterset.k8s.io", "bench");
            for name in NAMESPACES {
                cluster.namespace(name);
            }
            for export in 0..self.exports {
                let (namespace, name) = place(export);
                let service = ClusterIp::new(namespace, &name);
                cluster.service(service.port_of("TCP", "http", 80, 8080));
                cluster.pods(namespace, &name, &pods(index, export, 0));
                let export = Export::new(namespace, &name).created("2026-01-01T00:00:00Z");
                cluster.put(export.into());
            }
        }
        cloud_map.behave(Behaviour {
            latency: Duration::from_millis(20),
            operation_delay: Duration::from_millis(if self.quotas { 2000 } else { 20 }),
            quotas: self.quotas.then(Quotas::of_an_account),
            // AWS raises this one: larger clustersets have it raised.
            instances_per_namespace: 100_000,
            ..Behaviour::default()
        });
        Begun { sandbox, clusters, cloud_map }
    }

    /// The time until every import is Ready and has the endpoints of all clusters.
    async fn imports_ready(&self, clusters: &[KubernetesServer]) -> Duration {
        let start = Instant::now();
        let endpoints = self.exports * self.clusters * PODS;
        let is_ready = |cluster: &KubernetesServer| {
            let all = |kind: &str| NAMESPACES.map(|it| cluster.objects(kind, it)).concat();
            let imports = all("serviceimports");
            let ready = imports.iter().filter(|it| is_true(&it["status"]["conditions"][0]));
            ready.count() == self.exports && imported(&all("endpointslices")).count() == endpoints
        };
        while !clusters.iter().all(is_ready) {
            assert!(start.elapsed() < LONGEST, "imports of {} are not ready", self.name);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        start.elapsed()
    }

    /// From the change of a pod in the first cluster, of one export after the other, to the slices of all others.
    async fn events(&self, function: &mut Function, begun: &Begun) -> Events {
        let Begun { clusters, cloud_map, .. } = begun;
        let what = "One pod changed, to the slices of all other clusters";
        let mut events = Events { what, ..Events::default() };
        for event in 0..EVENTS {
            cloud_map.forget_calls();
            let export = event % self.exports;
            let new = event / self.exports + 1;
            let (namespace, name) = place(export);
            let pods = pods(0, export, new);
            let address = address(0, export, PODS + new - 1);
            clusters[0].pods(namespace, &name, &pods);
            let message = message("c0", namespace, &name);
            let start = Instant::now();
            let arrived = async {
                let has = |cluster: &KubernetesServer| {
                    imported(&cluster.objects("endpointslices", namespace))
                        .any(|it| *it == *address)
                };
                while !clusters[1..].iter().all(has) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                start.elapsed()
            };
            let (outcome, took) = tokio::join!(function.invoke(message), arrived);
            assert_eq!(outcome.expect("an answer")["batchItemFailures"], json!([]));
            events.add(took, cloud_map);
        }
        events
    }
}

/// Namespace and name of an export.
fn place(export: usize) -> (&'static str, String) {
    (NAMESPACES[export % NAMESPACES.len()], format!("web-{export}"))
}

/// The pods of an export, the last so many of them new.
fn pods(cluster: usize, export: usize, new: usize) -> Vec<Pod> {
    let pods = new..PODS + new;
    pods.map(|pod| Pod::new(&format!("web-{export}-{pod}"), &address(cluster, export, pod)))
        .collect()
}

fn address(cluster: usize, export: usize, pod: usize) -> String {
    format!("10.{cluster}.{export}.{pod}")
}

fn is_true(condition: &Value) -> bool {
    condition["type"] == "Ready" && condition["status"] == "True"
}

/// The addresses in the slices of imports.
fn imported(slices: &[Value]) -> impl Iterator<Item = &Value> {
    let label = "multicluster.kubernetes.io/service-name";
    let of_imports = slices.iter().filter(move |it| !it["metadata"]["labels"][label].is_null());
    let endpoints = of_imports.flat_map(|it| it["endpoints"].as_array().into_iter().flatten());
    endpoints.map(|endpoint| &endpoint["addresses"][0])
}
