//! The shop that `--shop --serve` serves, for the pictures of `kubectl cloudmap report`: a dozen names during their
//! move from ECS to three clusters of a clusterset, some of them in conflict, with changes since the last sync.

use cloud_map_sync::function::Function;

use crate::multi_cluster::{SETTINGS, join};
use crate::seed::{self, claim};
use testbed::Sandbox;
use testbed::cloud_map::{NamespaceKind, RecordType, ServiceKind};
use testbed::function::{event, invoke};
use testbed::kubernetes::{ClusterIp, Export, KubernetesServer, Pod};

/// The names that have ECS tasks, each with the number of tasks.
const TASKS: [(&str, u8); 6] =
    [("cart", 3), ("checkout", 4), ("invoices", 2), ("payments", 3), ("reviews", 1), ("web", 2)];
/// The number of pods in each cluster, by name.
const BLUE: [(&str, u8); 5] =
    [("cart", 1), ("orders", 3), ("prices", 2), ("search", 2), ("web", 4)];
const GREEN: [(&str, u8); 4] = [("catalog", 2), ("orders", 2), ("reviews", 3), ("web", 3)];
const AMBER: [(&str, u8); 2] = [("catalog", 2), ("search", 1)];

/// The sandbox and its function.
pub async fn served() -> (Sandbox, Function) {
    let sandbox = Sandbox::start().await.cluster("blue").await.cluster("green").await;
    let sandbox = sandbox.cluster("amber").await;
    let clusters = ["blue", "green", "amber"].map(|name| sandbox.kubernetes(name));
    let [blue, green, amber] = &clusters;
    register_others(&sandbox);
    for ((cluster, names), network) in clusters.iter().zip([&BLUE[..], &GREEN, &AMBER]).zip(1..) {
        for (name, pods) in names {
            run(cluster, name, *pods, network);
        }
    }
    for cluster in &clusters {
        join(cluster, &cluster.identity().name);
    }
    export(green);
    let function = sandbox.function(&SETTINGS).await;
    let answer = invoke(&function, &event("direct-sync")).await;
    assert!(answer.report.is_some_and(|report| report.ok), "a sync before");
    // Changes for the next sync.
    run(blue, "cart", 3, 1);
    run(blue, "checkout", 2, 1);
    run(blue, "prices", 0, 1);
    run(green, "catalog", 3, 2);
    green.service(claim("invoices", "invoices").annotate("cloudmap.controller/ttl", "a minute"));
    run(amber, "search", 2, 3);
    amber.service(claim("search-next", "search"));
    amber.pods("shop", "search-next", &[Pod::new("search-next-7c9d8b6f5d-1", "10.3.1.99")]);
    export(amber);
    (sandbox, function)
}

/// Runs a number of pods behind a Service that claims its name in `shop.local`.
fn run(cluster: &KubernetesServer, name: &str, pods: u8, network: u8) {
    let pods = (1..=pods).map(|number| {
        let last = name.len() * 10 + usize::from(number);
        Pod::new(&format!("{name}-7c9d8b6f5d-{number}"), &format!("10.{network}.1.{last}"))
    });
    cluster.service(claim(name, name));
    cluster.pods("shop", name, &pods.collect::<Vec<_>>());
}

/// Registers the ECS tasks, an address of a person, and a name without instances.
fn register_others(sandbox: &Sandbox) {
    let cloud_map = sandbox.cloud_map();
    let dns = cloud_map.namespace("shop.local", NamespaceKind::DnsPrivate);
    let records = || ServiceKind::Dns { records: vec![(RecordType::A, 60)], custom_health: true };
    for ((name, tasks), network) in TASKS.into_iter().zip(1_u8..) {
        let id = cloud_map.service(&dns, name, records());
        for task in 1..=tasks {
            let address = format!("10.0.9{network}.{task}");
            let task_id = format!("5f3c1e0b7a9d4c2e8b6f0a1d2c3e{network:02}{task:02}");
            cloud_map.instance(&id, &task_id, &seed::task(name, &address));
        }
    }
    let mail = cloud_map.service(&dns, "mail", records());
    cloud_map.instance(&mail, "mailbox", &[("AWS_INSTANCE_IPV4", "10.9.9.9")]);
    cloud_map.service(&dns, "newsletter", records());
}

fn export(cluster: &KubernetesServer) {
    cluster.service(ClusterIp::new("shop", "stock").port_of("TCP", "http", 80, 8080));
    cluster.put(Export::new("shop", "stock").created("2026-01-01T09:00:00Z").into());
    cluster.pods("shop", "stock", &[Pod::new("stock-7c9d8b6f5d-1", "10.2.1.81")]);
}
