//! Services across clusters (docs/multi-cluster.md): the function serves `blue` and `green`, and `amber` is a cluster
//! of AWS's controller that the function knows only by its instances. Names are exported (`exports`), a batch of
//! `messages` arrives, Cloud Map is unavailable and green is lost (`lost`). After each step a further run writes
//! nothing (`runs`), and everything that is not ours is unchanged (`foreign`).

mod exports;
mod foreign;
mod lost;
mod messages;
mod runs;

use std::process::ExitCode;

use cloud_map_sync::function::Function;
use serde_json::Value;

use self::foreign::Foreign;
use testbed::Sandbox;
use testbed::aws_controller::AwsController;
use testbed::clock::StandInClock;
use testbed::kubernetes::{KubernetesServer, Pod};

pub const CLUSTERSET: &str = "shop-set";
/// The settings of the function.
pub const SETTINGS: [(&str, &str); 2] = [("MULTI_CLUSTER", "on"), ("CREATE_NAMESPACES", "true")];

struct Clusterset {
    sandbox: Sandbox,
    clock: StandInClock,
    function: Function,
    blue: KubernetesServer,
    green: KubernetesServer,
    amber: KubernetesServer,
    aws: AwsController,
    /// The instances and objects of people, ECS and other tools before the first run.
    by_others: Foreign,
    step: usize,
}

/// Plays the story. Panics if a state differs from docs/multi-cluster.md.
pub async fn run() -> ExitCode {
    let mut story = Clusterset::start().await;
    story.one_export().await;
    story.two_exports().await;
    story.one_batch_about_two_clusters().await;
    story.scaled_to_zero().await;
    story.cloud_map_is_away().await;
    story.green_is_lost().await;
    story.green_is_purged().await;
    story.last_export_ends().await;
    story.end()
}

/// Makes a cluster a member.
pub fn join(cluster: &KubernetesServer, id: &str) {
    cluster.serve_multi_cluster();
    cluster.cluster_property("cluster.clusterset.k8s.io", id);
    cluster.cluster_property("clusterset.k8s.io", CLUSTERSET);
    cluster.namespace("shop");
}

impl Clusterset {
    async fn start() -> Self {
        let sandbox = Sandbox::start().await.cluster("blue").await.cluster("green").await;
        let sandbox = sandbox.cluster("amber").await;
        let [blue, green, amber] = ["blue", "green", "amber"].map(|name| sandbox.kubernetes(name));
        for cluster in [&blue, &green, &amber] {
            join(cluster, &cluster.identity().name);
        }
        let aws = AwsController {
            kubernetes: amber.clone(),
            cloud_map: sandbox.cloud_map(),
            cluster: "amber".to_owned(),
            clusterset: CLUSTERSET.to_owned(),
        };
        let clock = StandInClock::new();
        let function = sandbox.function(&[]).await;
        let by_others = Foreign::new();
        let mut story =
            Self { sandbox, clock, function, blue, green, amber, aws, by_others, step: 0 };
        story.function = story.serving("blue,green").await;
        story.put_foreign();
        let arns = ["blue", "green", "amber"].map(|name| story.sandbox.cluster_arn(name));
        story.sandbox.cloud_map().watch_over("cloud-map-sync", &arns);
        story.by_others = story.foreign();
        story
    }

    /// A function that serves these clusters.
    async fn serving(&self, clusters: &str) -> Function {
        let settings: Vec<_> = SETTINGS.into_iter().chain([("CLUSTERS", clusters)]).collect();
        self.sandbox.function(&settings).await.with_clock(self.clock.clock())
    }

    fn end(&self) -> ExitCode {
        let now = self.foreign();
        println!("What is not ours, byte for byte as it was:");
        for (what, before) in &self.by_others {
            self.expect(&format!("{what} is as it was"), now.get(what) == Some(before));
            println!("   {what}");
        }
        ExitCode::SUCCESS
    }

    fn begin_step(&mut self, what: &str) {
        self.step += 1;
        println!("{}. {what}", self.step);
    }

    fn expect(&self, what: &str, holds: bool) {
        assert!(holds, "step {}: expected that {what}", self.step);
    }
}

/// Prints the imports of a cluster: their IPs, exporters and ready endpoints.
fn show_imports(cluster: &KubernetesServer) {
    let all = cluster.objects("serviceimports", "shop").into_iter();
    for import in all.filter(foreign::is_ours) {
        let name = import["metadata"]["name"].as_str().unwrap_or_default();
        let listed = import["status"]["clusters"].as_array().into_iter().flatten();
        let exporters: Vec<&str> = listed.filter_map(|it| it["cluster"].as_str()).collect();
        let ips = &import["spec"]["ips"];
        let exporters = exporters.join(", ");
        let mut endpoints = addresses(cluster, name);
        if endpoints.is_empty() {
            endpoints.push("no endpoint".to_owned());
        }
        let endpoints = endpoints.join(" ");
        println!("   {} {name} {ips} from {exporters}: {endpoints}", cluster.identity().name);
    }
}

/// Gives `web` of a cluster these ready pods.
fn pods(cluster: &KubernetesServer, addresses: &[&str]) {
    let pods: Vec<Pod> = addresses.iter().map(|address| pod(address)).collect();
    cluster.pods("shop", "web", &pods);
}

/// A ready pod of `web`.
fn pod(address: &str) -> Pod {
    Pod::new(&format!("web-{}", address.replace('.', "-")), address)
}

/// The addresses in the slices of an import, sorted.
fn addresses(cluster: &KubernetesServer, name: &str) -> Vec<String> {
    let label = "multicluster.kubernetes.io/service-name";
    let slices = cluster.objects("endpointslices", "shop").into_iter();
    let slices = slices.filter(|slice| slice["metadata"]["labels"][label] == name);
    let endpoints = slices.flat_map(|it| it["endpoints"].as_array().cloned().unwrap_or_default());
    let addresses = endpoints.filter_map(|it| Some(it["addresses"][0].as_str()?.to_owned()));
    let mut addresses: Vec<String> = addresses.collect();
    addresses.sort();
    addresses
}

/// The endpoints of `web` in blue and green.
const BOTH: [&str; 3] = ["10.0.0.1", "10.0.0.2", "10.1.0.1"];

/// The IPs of the import `web`.
fn ips(cluster: &KubernetesServer) -> Option<Value> {
    Some(cluster.service_import("shop", "web")?["spec"]["ips"].clone())
}
