//! Services across clusters (docs/multi-cluster.md): `blue` and `green` are served, and `amber` is a cluster of AWS's
//! controller that is known by its instances alone, until it moves over (`moving`) and back. After each step a further
//! run writes nothing, and at the end what is not ours is as it was.

mod moving;

use std::collections::BTreeMap;
use std::process::ExitCode;

use cloud_map_sync::function::Function;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use crate::sandbox::aws_controller::AwsController;
use crate::sandbox::cloud_map::{Fault, FaultKind};
use crate::sandbox::function::{event, invoke};
use crate::sandbox::kubernetes::{ClusterIp, Export, KubernetesServer, Pod};
use crate::story::show;

pub const CLUSTERSET: &str = "shop-set";
/// The settings of the function.
pub const SETTINGS: [(&str, &str); 2] = [("MULTI_CLUSTER", "on"), ("CREATE_NAMESPACES", "true")];

/// The attributes of instances, by id.
type Instances = BTreeMap<String, BTreeMap<String, String>>;

struct Clusterset {
    sandbox: Sandbox,
    function: Function,
    blue: KubernetesServer,
    green: KubernetesServer,
    amber: KubernetesServer,
    aws: AwsController,
    /// What AWS's controller registered for amber.
    registered: Instances,
    /// The objects in amber that nobody but a person made.
    by_hand: Vec<Value>,
    step: usize,
}

/// Tells the story; fails where the world is not as docs/multi-cluster.md says.
pub async fn tell() -> ExitCode {
    let sandbox = Sandbox::start().await.cluster("blue").await.cluster("green").await;
    let sandbox = sandbox.cluster("amber").await;
    let settings: Vec<_> = SETTINGS.into_iter().chain([("CLUSTERS", "blue,green")]).collect();
    let function = sandbox.function(&settings).await;
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
    let (registered, by_hand) = (Instances::new(), Vec::new());
    let mut story =
        Clusterset { sandbox, function, blue, green, amber, aws, registered, by_hand, step: 0 };
    story.start_amber();
    story.one_export().await;
    story.two_exports().await;
    story.ends().await;
    story.moves_over().await;
    story.moves_back().await;
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
    /// amber exports a Service `cart`, which AWS's controller registers, and has a Service that nobody exports.
    fn start_amber(&mut self) {
        for name in ["cart", "mail"] {
            self.amber.service(ClusterIp::new("shop", name).port_of("TCP", "http", 80, 8080));
        }
        self.amber.pods("shop", "cart", &[Pod::new("cart-1", "10.2.0.1")]);
        self.amber.put(Export::new("shop", "cart").created("2026-01-01T00:00:00Z").into());
        self.aws.run();
        let cloud_map = self.sandbox.cloud_map();
        let arns = ["blue", "green", "amber"].map(|name| self.sandbox.cluster_arn(name));
        cloud_map.watch_over("cloud-map-sync", &arns.each_ref().map(String::as_str));
        (self.registered, self.by_hand) = (self.cart(), self.not_ours());
    }

    /// The instances of `cart`.
    fn cart(&self) -> Instances {
        let cloud_map = self.sandbox.cloud_map();
        cloud_map.instances(&cloud_map.find_service("shop", "cart").expect("amber's"))
    }

    /// The objects in amber that are neither ours nor of AWS's controller.
    fn not_ours(&self) -> Vec<Value> {
        let names = ["cart", "mail"].map(|name| self.amber.service_object("shop", name));
        let export = self.amber.service_export("shop", "cart").map(|mut export| {
            // The function writes conditions, and a person took the finalizer off.
            export["status"] = Value::Null;
            export["metadata"] =
                json!({"name": "cart", "finalizers": export["metadata"]["finalizers"]});
            export
        });
        names.into_iter().flatten().chain(export).collect()
    }

    async fn one_export(&mut self) {
        self.happens("blue exports web; amber, which AWS's controller serves, exports cart. What would a sync do?");
        self.blue.service(ClusterIp::new("shop", "web").port_of("TCP", "http", 80, 8080));
        pods(&self.blue, &["10.0.0.1", "10.0.0.2"]);
        self.blue.put(Export::new("shop", "web").created("2026-01-01T00:00:00Z").into());
        show(&invoke(&self.function, &json!({ "action": "plan" })).await);
        println!();
        self.happens("The sync: web and cart are imports in blue and green, each with an IP of its own cluster.");
        self.sync().await;
        for cluster in [&self.blue, &self.green] {
            let import = cluster.service_import("shop", "web").expect("an import of web");
            println!("   {} web {}", cluster.identity().name, import["spec"]["ips"]);
        }
        self.expect("amber's endpoint is in green", addresses(&self.green, "cart") == ["10.2.0.1"]);

        self.happens(
            "One pod of blue is replaced: a message about web, and green's slice follows.",
        );
        pods(&self.blue, &["10.0.0.2", "10.0.0.3"]);
        let payload =
            json!({"action": "sync", "cluster": "blue", "namespace": "shop", "service": "web"});
        show(&invoke(&self.function, &payload).await);
        let both = addresses(&self.green, "web") == ["10.0.0.2", "10.0.0.3"];
        self.expect("green has the new pod", both);
        self.settled().await;
    }

    async fn two_exports(&mut self) {
        self.happens(
            "green exports web, too, with another port: each port leads to its own cluster.",
        );
        self.green.service(ClusterIp::new("shop", "web").port_of("TCP", "admin", 81, 8081));
        pods(&self.green, &["10.1.0.1"]);
        self.green.put(Export::new("shop", "web").created("2026-02-01T00:00:00Z").into());
        self.sync().await;
        for cluster in [&self.blue, &self.green] {
            let export = cluster.service_export("shop", "web").expect("an export");
            let conditions = export["status"]["conditions"].as_array().cloned();
            let conflict = conditions.into_iter().flatten().find(|it| it["type"] == "Conflict");
            let conflict = conflict.expect("a condition");
            println!("   {} Conflict {}", cluster.identity().name, conflict["reason"]);
            self.expect("both exports say so", conflict["reason"] == "PortConflict");
        }
    }

    async fn ends(&mut self) {
        self.happens("web is scaled to zero in both: the imports and their IPs stay.");
        let before = self.ip();
        pods(&self.blue, &[]);
        pods(&self.green, &[]);
        self.sync().await;
        self.expect("the IP stays", self.ip() == before);

        self.happens("Cloud Map is away for a run: nothing changes in any cluster.");
        let imports = self.green.objects("serviceimports", "shop");
        for operation in ["ListNamespaces", "ListServices", "ListInstances"] {
            let denied = Fault::on(operation, FaultKind::AccessDenied);
            self.sandbox.cloud_map().inject(denied.always());
        }
        let answer = invoke(&self.function, &event("schedule-eventbridge-scheduler")).await;
        self.sandbox.cloud_map().heal();
        self.expect("the run says so", answer.response.is_err());
        self.expect("imports stay", self.green.objects("serviceimports", "shop") == imports);
        println!("   the imports stay\n");

        self.happens("Both exports end.");
        self.blue.unexport("shop", "web");
        self.green.unexport("shop", "web");
        self.sync().await;
        self.expect("the import is gone", self.green.service_import("shop", "web").is_none());
    }

    fn ip(&self) -> Option<serde_json::Value> {
        Some(self.green.service_import("shop", "web")?["spec"]["ips"].clone())
    }

    /// A full sync, and one more that writes nothing.
    async fn sync(&mut self) {
        let answer = invoke(&self.function, &event("direct-sync")).await;
        show(&answer);
        self.expect("the sync is complete", answer.report.is_some_and(|report| report.ok));
        self.settled().await;
    }

    async fn settled(&mut self) {
        self.sandbox.cloud_map().forget_calls();
        let all = [self.blue.clone(), self.green.clone(), self.amber.clone()];
        all.iter().for_each(KubernetesServer::forget_requests);
        invoke(&self.function, &event("direct-sync")).await;
        let is_write = |cluster: &KubernetesServer| {
            let mut requests = cluster.requests().into_iter();
            requests.any(|request| request.method != "GET" && !request.path.contains("/events"))
        };
        let writes = self.sandbox.cloud_map().writes();
        self.expect("the next sync writes nothing", writes == 0);
        self.expect("nor to a cluster", !all.iter().any(is_write));
        println!("   the next sync writes nothing\n");
    }

    fn end(&self) -> ExitCode {
        self.expect(
            "amber's instance is byte for byte what it was",
            self.cart() == self.registered,
        );
        self.expect("and so is what is not ours in amber", self.not_ours() == self.by_hand);
        let violations = self.sandbox.cloud_map().violations();
        self.expect("no call even tried to change it", violations.is_empty());
        let count = self.registered.len() + self.by_hand.len();
        println!("What is not ours is byte for byte as it was: {count}");
        ExitCode::SUCCESS
    }

    fn happens(&mut self, what: &str) {
        self.step += 1;
        println!("{}. {what}", self.step);
    }

    fn expect(&self, what: &str, holds: bool) {
        assert!(holds, "step {}: expected that {what}", self.step);
    }
}

fn pods(cluster: &KubernetesServer, addresses: &[&str]) {
    let pod = |address: &&str| Pod::new(&format!("web-{}", address.replace('.', "-")), address);
    cluster.pods("shop", "web", &addresses.iter().map(pod).collect::<Vec<_>>());
}

/// The addresses in the slices of an import, sorted.
fn addresses(cluster: &KubernetesServer, name: &str) -> Vec<String> {
    let label = "multicluster.kubernetes.io/service-name";
    let slices = cluster.objects("endpointslices", "shop").into_iter();
    let slices = slices.filter(|slice| slice["metadata"]["labels"][label] == name);
    let endpoints =
        slices.flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
    let addresses = endpoints.filter_map(|it| Some(it["addresses"][0].as_str()?.to_owned()));
    let mut addresses: Vec<String> = addresses.collect();
    addresses.sort();
    addresses
}
