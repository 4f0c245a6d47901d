//! The small world that most scenarios start from: cluster `blue`, an HTTP namespace `prod` and a DNS
//! namespace `prod.local`, and Services in the Kubernetes namespace `shop`. Verbs for what happens.

use std::collections::BTreeMap;

use cloud_map_sync::handler::Function;
use cloud_map_sync::report::Report;
use serde_json::{Value, json};

use crate::sandbox::cloud_map::{CloudMap, NamespaceKind, RecordType, ServiceKind};
use crate::sandbox::function::invoke;
use crate::sandbox::kubernetes::{Headless, KubernetesServer, Pod};
use crate::sandbox::{REGION, Sandbox};

/// The default `OWNER_ID`.
pub const OWNER: &str = "cloud-map-sync";

/// A world with one cluster and two Cloud Map namespaces.
pub struct Fleet {
    pub sandbox: Sandbox,
    pub cluster: KubernetesServer,
    pub cloud_map: CloudMap,
    pub http: String,
    pub dns: String,
}

impl Fleet {
    /// Cluster `blue`, HTTP namespace `prod`, DNS namespace `prod.local`; nothing in them.
    pub async fn start() -> Self {
        let sandbox = Sandbox::start().await.cluster("blue").await;
        let cloud_map = sandbox.cloud_map();
        cloud_map.watch_over(OWNER, &[&sandbox.cluster_arn("blue")]);
        Self {
            cluster: sandbox.kubernetes("blue"),
            http: cloud_map.namespace("prod", NamespaceKind::Http),
            dns: cloud_map.namespace("prod.local", NamespaceKind::DnsPrivate),
            cloud_map,
            sandbox,
        }
    }

    /// The function with the sandbox's settings.
    pub async fn function(&self) -> Function {
        self.sandbox.function(&[]).await
    }

    /// Adds or replaces a Service in `shop`.
    pub fn service(&self, service: Headless) {
        self.cluster.service(service);
    }

    /// Gives a Service of `shop` these ready pods.
    pub fn pods(&self, service: &str, addresses: &[&str]) {
        let pods = addresses.iter().enumerate();
        let pods: Vec<Pod> =
            pods.map(|(index, address)| Pod::new(&format!("{service}-{index}"), address)).collect();
        self.cluster.pods("shop", service, &pods);
    }

    /// The instances of a Cloud Map service by id; none where it does not exist.
    pub fn instances(&self, namespace: &str, service: &str) -> BTreeMap<String, Attributes> {
        let found = self.cloud_map.find_service(namespace, service);
        found.map(|id| self.cloud_map.instances(&id)).unwrap_or_default()
    }

    /// The IPv4 addresses in a Cloud Map service, sorted.
    pub fn addresses(&self, namespace: &str, service: &str) -> Vec<String> {
        let instances = self.instances(namespace, service);
        let addresses =
            instances.values().filter_map(|attributes| attributes.get("AWS_INSTANCE_IPV4"));
        let mut addresses: Vec<String> = addresses.cloned().collect();
        addresses.sort();
        addresses
    }

    /// An A service in `prod.local` in which ECS runs a task, as ECS registers it.
    pub fn ecs_service(&self, name: &str, address: &str) -> String {
        let records = vec![(RecordType::A, 60)];
        let kind = ServiceKind::Dns { records, custom_health: true };
        let service = self.cloud_map.service(&self.dns, name, kind);
        self.ecs_task(&service, "0123456789abcdef0123456789abcdef", address);
        service
    }

    /// An ECS task in a service.
    pub fn ecs_task(&self, service: &str, id: &str, address: &str) {
        let attributes = [
            ("AWS_INSTANCE_IPV4", address),
            ("AWS_INIT_HEALTH_STATUS", "HEALTHY"),
            ("AVAILABILITY_ZONE", "eu-central-1a"),
            ("REGION", REGION),
            ("ECS_CLUSTER_NAME", "legacy"),
            ("ECS_SERVICE_NAME", "web"),
            ("ECS_TASK_DEFINITION_FAMILY", "web"),
        ];
        self.cloud_map.instance(service, id, &attributes);
    }
}

/// The attributes of an instance.
pub type Attributes = BTreeMap<String, String>;

/// A headless Service `shop/<name>` with port `http` 8080 that claims `hostname` in `namespace`.
pub fn annotated(name: &str, namespace: &str, hostname: &str) -> Headless {
    Headless::new("shop", name)
        .port("http", 8080)
        .annotate("cloudmap.controller/hostname", hostname)
        .annotate("cloudmap.controller/namespace", namespace)
}

/// Runs one full sync on demand.
pub async fn sync(function: &Function) -> Report {
    report(function, &json!({ "action": "sync" })).await
}

/// Plans on demand.
pub async fn plan(function: &Function) -> Report {
    report(function, &json!({ "action": "plan" })).await
}

/// Syncs one Service of `shop` on demand.
pub async fn sync_service(function: &Function, service: &str) -> Report {
    let payload = json!({
        "action": "sync", "cluster": "blue", "namespace": "shop", "service": service,
    });
    report(function, &payload).await
}

async fn report(function: &Function, payload: &Value) -> Report {
    let answer = invoke(function, payload).await;
    answer.response.expect("a direct invocation answers with its report");
    answer.report.expect("a report")
}

/// The stable names of all that is held back, sorted.
pub fn held_back(report: &Report) -> Vec<&'static str> {
    let clusters = report.clusters.iter();
    let mut reasons: Vec<&'static str> = clusters
        .flat_map(|cluster| {
            let placed = cluster.services.iter().flat_map(|service| &service.held_back);
            placed.chain(&cluster.held_back).map(|line| line.reason)
        })
        .collect();
    reasons.sort_unstable();
    reasons
}
