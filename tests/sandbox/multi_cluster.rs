//! Services across clusters (docs/multi-cluster.md): `blue` and `green` are served, and `amber` is a cluster of AWS's
//! controller that is known by its instances alone. After each step a further run writes nothing, and at the end what is
//! not ours is as it was.

use std::collections::BTreeMap;
use std::process::ExitCode;

use cloud_map_sync::function::Function;
use serde_json::json;

use crate::sandbox::Sandbox;
use crate::sandbox::cloud_map::{Fault, FaultKind, NamespaceKind, ServiceKind};
use crate::sandbox::function::{event, invoke};
use crate::sandbox::kubernetes::{ClusterIp, Export, KubernetesServer, Pod};
use crate::story::show;

const CLUSTERSET: &str = "shop-set";
/// The settings of the function.
pub const SETTINGS: [(&str, &str); 2] = [("MULTI_CLUSTER", "on"), ("CREATE_NAMESPACES", "true")];

struct Clusterset {
    sandbox: Sandbox,
    function: Function,
    blue: KubernetesServer,
    green: KubernetesServer,
    amber: BTreeMap<String, BTreeMap<String, String>>,
    step: usize,
}

/// Tells the story; fails where the world is not as docs/multi-cluster.md says.
pub async fn tell() -> ExitCode {
    let sandbox = Sandbox::start().await.cluster("blue").await.cluster("green").await;
    let function = sandbox.function(&SETTINGS).await;
    let (blue, green) = (sandbox.kubernetes("blue"), sandbox.kubernetes("green"));
    join(&blue, "blue");
    join(&green, "green");
    let amber = register_amber(&sandbox);
    let mut story = Clusterset { sandbox, function, blue, green, amber, step: 0 };
    story.one_export().await;
    story.two_exports().await;
    story.ends().await;
    story.end()
}

/// Makes a cluster a member.
pub fn join(cluster: &KubernetesServer, id: &str) {
    cluster.serve_multi_cluster();
    cluster.cluster_property("cluster.clusterset.k8s.io", id);
    cluster.cluster_property("clusterset.k8s.io", CLUSTERSET);
    cluster.namespace("shop");
}

/// A Service `cart` of `amber`, as AWS's controller registers it.
pub fn register_amber(sandbox: &Sandbox) -> BTreeMap<String, BTreeMap<String, String>> {
    let cloud_map = sandbox.cloud_map();
    let namespace = cloud_map.namespace("shop", NamespaceKind::Http);
    let service = cloud_map.service(&namespace, "cart", ServiceKind::Http);
    let attributes = [
        ("AWS_INSTANCE_IPV4", "10.2.0.1"),
        ("AWS_INSTANCE_PORT", "8080"),
        ("CLUSTER_ID", "amber"),
        ("CLUSTERSET_ID", CLUSTERSET),
        ("ENDPOINT_PORT_NAME", "http"),
        ("ENDPOINT_PROTOCOL", "TCP"),
        ("K8S_CONTROLLER", "aws-cloud-map-mcs-controller-for-k8s 0.3.1"),
        ("READY", "true"),
        ("SERVICE_EXPORT_CREATION_TIMESTAMP", "1767225600000"),
        ("SERVICE_PORT", "80"),
        ("SERVICE_PORT_NAME", "http"),
        ("SERVICE_PROTOCOL", "TCP"),
        ("SERVICE_TARGET_PORT", "8080"),
        ("SERVICE_TYPE", "ClusterSetIP"),
    ];
    cloud_map.instance(&service, "tcp-10_2_0_1-8080", &attributes);
    let arns = [sandbox.cluster_arn("blue"), sandbox.cluster_arn("green")];
    cloud_map.watch_over("cloud-map-sync", &arns.each_ref().map(String::as_str));
    cloud_map.instances(&service)
}

impl Clusterset {
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
        self.blue.forget_requests();
        self.green.forget_requests();
        invoke(&self.function, &event("direct-sync")).await;
        let is_write = |cluster: &KubernetesServer| {
            let mut requests = cluster.requests().into_iter();
            requests.any(|request| request.method != "GET" && !request.path.contains("/events"))
        };
        let writes = self.sandbox.cloud_map().writes();
        self.expect("the next sync writes nothing", writes == 0);
        self.expect("nor to a cluster", !is_write(&self.blue) && !is_write(&self.green));
        println!("   the next sync writes nothing\n");
    }

    fn end(&self) -> ExitCode {
        let service = self.sandbox.cloud_map().find_service("shop", "cart").expect("amber's");
        let now = self.sandbox.cloud_map().instances(&service);
        self.expect("amber's instance is byte for byte what it was", now == self.amber);
        let violations = self.sandbox.cloud_map().violations();
        self.expect("no call even tried to change it", violations.is_empty());
        println!("What is not ours is byte for byte as it was: {}", self.amber.len());
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
