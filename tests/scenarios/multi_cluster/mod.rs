//! Services across clusters: `blue` and `green` are members of one clusterset, served by one function.

mod accounts;
mod bad_registry;
mod calls;
mod conditions;
mod denied;
mod departures;
mod doctor;
mod explain;
mod exports;
mod growth;
mod guard;
mod identities;
mod importers;
mod in_the_way;
mod lost;
mod many;
mod messages;
mod moving;
mod names_of_aws;
mod obstacles;
mod one_source;
mod refused;
mod rollback;
mod story;
mod under_way;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use cloud_map_sync::actions::doctor::Checkup;
use cloud_map_sync::actions::explain::Explanation;
use cloud_map_sync::function::Function;
use cloud_map_sync::model::{Line, STALE};
use cloud_map_sync::report::{MultiClusterReport, Report};
use serde_json::{Value, json};

pub use crate::fleet::give_pods as pods;
use crate::fleet::{Fleet, OWNER, pod_name};
use crate::run::{report, sync, sync_of, synced};
use testbed::aws_controller::endpoint;
use testbed::clock::StandInClock;
use testbed::function::invoke;
use testbed::kubernetes::{ClusterIp, Export, KubernetesServer, Pod, RequestLine};

/// The clusterset of the members.
pub const CLUSTERSET: &str = "shop-set";

/// The ClusterProperty with the id of a cluster.
pub const CLUSTER_ID: &str = "cluster.clusterset.k8s.io";

/// When an export was created of which the age means nothing.
pub const CREATED: &str = "2026-01-01T00:00:00Z";

/// When an export was created that is younger than those.
const LATER: &str = "2026-02-01T00:00:00Z";

/// The derived Service of `shop/web`, and where Services and slices of `shop` are.
const DERIVED: &str = "derived-isrlchlhrq";
const SERVICES: &str = "/api/v1/namespaces/shop/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices";

/// Of all namespaces a function sees that of the records alone.
pub const RECORDS_ALONE: [(&str, &str); 2] =
    [("CLOUD_MAP_NAMESPACES", "clusterset.shop-set"), ("CREATE_NAMESPACES", "false")];

/// The record of `shop/web`.
const RECORD: &str = "export-7cb0d844a658ca77f191";

/// The labels by which a slice belongs to its controller, and to its import.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub const IMPORT: &str = "multicluster.kubernetes.io/service-name";

/// Two members of one clusterset.
struct Members {
    fleet: Fleet,
    blue: KubernetesServer,
    green: KubernetesServer,
    clock: StandInClock,
    function: Function,
}

impl Members {
    /// Both serve the API and have the namespace `shop`; nothing is exported.
    async fn start() -> Self {
        let fleet = Fleet::start().await;
        let blue = fleet.cluster.clone();
        let green = fleet.green().await;
        join(&blue, "blue", &["shop"]);
        join(&green, "green", &["shop"]);
        let clock = StandInClock::new();
        let function = serving(&fleet, &clock, "blue,green", &[]).await;
        Self { fleet, blue, green, clock, function }
    }

    /// blue exports `web` with pods at these addresses.
    async fn with_web(addresses: &[&str]) -> Self {
        let members = Self::start().await;
        exported(&members.blue, web(), addresses);
        members
    }

    /// blue exports `web`, which is in Cloud Map and imported.
    async fn in_step(addresses: &[&str]) -> Self {
        let members = Self::with_web(addresses).await;
        members.converge().await;
        members
    }

    /// Another function with the same clock, for these clusters and with these settings besides.
    async fn serving(&self, clusters: &str, settings: &[(&str, &str)]) -> Function {
        serving(&self.fleet, &self.clock, clusters, settings).await
    }

    /// AWS's controller registers a Service of `shop` for its cluster `amber`, or other endpoints for it.
    fn amber(&self, name: &str, addresses: &[&str]) {
        let cloud_map = &self.fleet.cloud_map;
        let service = self.place(name);
        let wanted: BTreeSet<String> = addresses.iter().map(|address| amber_id(address)).collect();
        for gone in cloud_map.instances(&service).into_keys().filter(|it| !wanted.contains(it)) {
            cloud_map.withdraw(&service, &gone);
        }
        for address in addresses {
            self.of_amber(name, address);
        }
        let arns = ["blue", "green"].map(|cluster| self.fleet.sandbox.cluster_arn(cluster));
        cloud_map.watch_over(OWNER, &arns);
    }

    fn clusters(&self) -> [&KubernetesServer; 2] {
        [&self.blue, &self.green]
    }

    /// Both import a name with these endpoints.
    fn assert_imported(&self, name: &str, endpoints: &str, why: &str) {
        let imports = self.clusters().map(|cluster| imported(cluster, name));
        assert_eq!(imports, [endpoints; 2], "{why}");
    }

    /// The calls and requests so far do not count any more.
    fn forget(&self) {
        self.fleet.cloud_map.forget_calls();
        self.clusters().into_iter().for_each(KubernetesServer::forget_requests);
    }

    /// Nothing was written since then, to Cloud Map or to a cluster.
    fn assert_nothing_written(&self, why: &str) {
        assert_eq!(self.clusters().map(writes).concat(), [""; 0], "{why}");
        assert_eq!(self.fleet.cloud_map.writes(), 0, "{why}");
    }

    /// A full sync in which nothing fails; the next one writes nothing, to Cloud Map or to a cluster.
    async fn converge(&self) -> Report {
        let report = synced(&self.function).await;
        self.assert_settled().await;
        report
    }

    async fn assert_settled(&self) {
        self.forget();
        let report = sync(&self.function).await;
        self.assert_nothing_written(&in_full(&report));
    }

    /// Registers an endpoint of a Service of `shop` for `amber`, as AWS's controller does. Returns the Cloud Map service.
    fn of_amber(&self, service: &str, address: &str) -> String {
        let found = self.place(service);
        let attributes = amber_attributes(address);
        self.fleet.cloud_map.instance(&found, &amber_id(address), &attributes);
        found
    }

    /// The Cloud Map service of a name in `shop`; it is created if it does not exist.
    fn place(&self, name: &str) -> String {
        self.fleet.cloud_map.ensure_service("shop", name)
    }

    /// The answer to a question, which writes nothing anywhere.
    async fn ask(&self, function: &Function, question: &Value) -> Value {
        self.fleet.cloud_map.adjust(|it| it.discovery_on_any_host = true);
        self.forget();
        let answer = invoke(function, question).await.response.expect("an answer");
        self.assert_nothing_written(&answer.to_string());
        answer
    }

    /// A message about one Service of `shop`.
    async fn sync_service(&self, cluster: &str, service: &str) -> Report {
        report(&self.function, &sync_of(cluster, service)).await
    }
}

async fn serving(
    fleet: &Fleet,
    clock: &StandInClock,
    clusters: &str,
    settings: &[(&str, &str)],
) -> Function {
    let own = [("CLUSTERS", clusters), ("MULTI_CLUSTER", "on"), ("CREATE_NAMESPACES", "true")];
    // Of two values of a setting the first counts.
    fleet.function_with(&[settings, &own[..]].concat()).await.with_clock(clock.clock())
}

/// The id of an endpoint as AWS's controller writes it.
pub fn amber_id(address: &str) -> String {
    format!("tcp-{}-8080", address.replace('.', "_"))
}

/// The attributes of an endpoint as AWS's controller writes them.
pub fn amber_attributes(address: &str) -> [(&'static str, &str); 14] {
    endpoint("amber", CLUSTERSET, address)
}

/// The part of a cluster in its clusterset.
fn part<'a>(report: &'a Report, cluster: &str) -> &'a MultiClusterReport {
    let found = report.clusters.iter().find(|it| it.cluster.ends_with(cluster));
    found.and_then(|it| it.multi_cluster.as_ref()).expect("a report")
}

/// What a cluster holds back of its clusterset: the names of Services, reasons and sentences.
fn held_back<'a>(report: &'a Report, cluster: &str) -> Vec<(&'a str, &'a str, &'a str)> {
    let named = |line: &'a Line| (service_of(line), &*line.code, &*line.text);
    part(report, cluster).held_back().map(named).collect()
}

/// The reasons of what keeps a cluster out of its clusterset.
fn obstacles<'a>(report: &'a Report, cluster: &str) -> Vec<&'a str> {
    obstacle_lines(report, cluster).into_iter().map(|line| &*line.code).collect()
}

fn obstacle_lines<'a>(report: &'a Report, cluster: &str) -> Vec<&'a Line> {
    part(report, cluster).lines.iter().filter(|line| line.is_obstacle()).collect()
}

/// The lines about members that were not heard of for long.
fn stale_lines<'a>(report: &'a Report, cluster: &str) -> Vec<&'a str> {
    let lines = part(report, cluster).lines.iter().filter(|line| line.code == STALE);
    lines.map(|line| line.text.as_str()).collect()
}

fn service_of(line: &Line) -> &str {
    line.service.as_ref().map_or("", |service| service.name.as_str())
}

/// A Service of `shop` of type ClusterIP: port 80 leads to 8080.
pub fn service(name: &str) -> ClusterIp {
    ClusterIp::new("shop", name).port_of("TCP", "http", 80, 8080)
}

pub fn web() -> ClusterIp {
    service("web")
}

/// Makes a cluster a member that serves the API, with these namespaces.
pub fn join(cluster: &KubernetesServer, id: &str, namespaces: &[&str]) {
    cluster.serve_multi_cluster();
    cluster.cluster_property(CLUSTER_ID, id);
    cluster.cluster_property("clusterset.k8s.io", CLUSTERSET);
    for namespace in namespaces {
        cluster.namespace(namespace);
    }
}

/// Puts a Service with pods at these addresses into a cluster, and exports it.
pub fn exported(cluster: &KubernetesServer, service: ClusterIp, addresses: &[&str]) {
    exported_at(cluster, service, addresses, CREATED);
}

/// The same with an export of this age.
pub fn exported_at(
    cluster: &KubernetesServer,
    service: ClusterIp,
    addresses: &[&str],
    created: &str,
) {
    let object = cluster.service(service);
    let [namespace, name] = ["namespace", "name"]
        .map(|key| object["metadata"][key].as_str().expect("it has both").to_owned());
    let pods = addresses.iter().map(|address| Pod::new(&pod_name(&name, address), address));
    cluster.pods(&namespace, &name, &pods.collect::<Vec<_>>());
    cluster.put(Export::new(&namespace, &name).created(created).into());
}

/// An answer in words.
trait Said: Display {
    /// Each of these begins a line of it, with its indentation or without.
    fn assert_says(&self, beginnings: &[&str]) {
        let said = self.to_string();
        for expected in beginnings {
            let begins =
                |line: &str| [line, line.trim_start()].iter().any(|it| it.starts_with(expected));
            assert!(said.lines().any(begins), "{expected}\n{said}");
        }
    }
}

impl Said for Checkup {}
impl Said for Explanation {}

fn in_full(report: &Report) -> String {
    serde_json::to_string_pretty(report).expect("JSON")
}

/// A ServiceImport of another client in `shop`.
pub fn foreign_import(name: &str) -> Value {
    json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"type": "Headless", "ports": []},
    })
}

/// A slice of somebody in `shop`.
pub fn foreign_slice(name: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"namespace": "shop", "name": name},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.9.9.9"]}], "ports": [],
    })
}

/// The requests that change something, other than Events and reviews. A dry run stores nothing.
pub fn writes(cluster: &KubernetesServer) -> Vec<String> {
    let is_write = |request: &RequestLine| {
        let is_review = request.path.contains("selfsubjectaccessreviews");
        let is_asked = is_review || request.query.contains("dryRun=All");
        request.method != "GET" && !is_asked && !request.path.contains("/events")
    };
    let requests = cluster.requests().into_iter().filter(is_write);
    requests.map(|it| format!("{} {} {}", it.method, it.path, it.status)).collect()
}

/// The endpoints in the imports of a name: `blue 10.0.0.1:8080 10.0.0.2:8080, green 10.1.0.1:8080`.
pub fn imported(cluster: &KubernetesServer, name: &str) -> String {
    let of_source = |(source, endpoints): (String, BTreeSet<String>)| {
        [source].into_iter().chain(endpoints).collect::<Vec<_>>().join(" ")
    };
    let all = imported_from(cluster, name).into_iter().map(of_source);
    all.collect::<Vec<_>>().join(", ")
}

/// The same by source cluster.
pub fn imported_from(cluster: &KubernetesServer, name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for slice in slices(cluster, name) {
        let source = &slice["metadata"]["labels"]["multicluster.kubernetes.io/source-cluster"];
        let source = source.as_str().expect("a source").to_owned();
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            let address = endpoint["addresses"][0].as_str().expect("an address");
            for port in slice["ports"].as_array().into_iter().flatten() {
                let port = format!("{address}:{}", port["port"]);
                all.entry(source.clone()).or_default().insert(port);
            }
        }
    }
    all
}

/// The slices of an import.
pub fn slices(cluster: &KubernetesServer, name: &str) -> Vec<Value> {
    let all = cluster.objects("endpointslices", "shop").into_iter();
    all.filter(|slice| slice["metadata"]["labels"][IMPORT] == name).collect()
}

/// A condition of the ServiceExport: status and reason.
pub fn condition(cluster: &KubernetesServer, name: &str, kind: &str) -> String {
    let found = found_condition(cluster, name, kind);
    found.map_or("none".to_owned(), |it| {
        let text = |key: &str| it[key].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("status"), text("reason"))
    })
}

/// The message of a condition of the ServiceExport.
fn message_of(cluster: &KubernetesServer, name: &str, kind: &str) -> String {
    let found = found_condition(cluster, name, kind).expect("the condition");
    found["message"].as_str().unwrap_or_default().to_owned()
}

fn found_condition(cluster: &KubernetesServer, name: &str, kind: &str) -> Option<Value> {
    let export = cluster.service_export("shop", name).expect("the export");
    let conditions = export["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|it| it["type"] == kind)
}
