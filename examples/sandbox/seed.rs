//! The initial state of the sandbox command: two clusters whose Services migrate from ECS, and a registry with the
//! instances of ECS tasks and of other clients.

use cloud_map_sync::function::Function;

use testbed::Sandbox;
use testbed::cloud_map::{NamespaceKind, RecordType, ServiceKind};
use testbed::kubernetes::{Headless, KubernetesServer, Pod};

/// The seeded clusters `blue` and `green`, and a registry that records every change of a foreign instance.
pub async fn world() -> Sandbox {
    let sandbox = Sandbox::start().await.cluster("blue").await.cluster("green").await;
    registry(&sandbox);
    blue(&sandbox.kubernetes("blue"));
    green(&sandbox.kubernetes("green"));
    let arns = ["blue", "green"].map(|name| sandbox.cluster_arn(name));
    sandbox.cloud_map().watch_over("cloud-map-sync", &arns);
    sandbox
}

/// The same sandbox with its function, for `--serve`.
pub async fn served() -> (Sandbox, Function) {
    let sandbox = world().await;
    let function = sandbox.function(&[]).await;
    (sandbox, function)
}

/// `web` runs on ECS with two tasks, `cart` with one; `legacy` and `mail` were registered by hand.
fn registry(sandbox: &Sandbox) {
    let cloud_map = sandbox.cloud_map();
    let dns = cloud_map.namespace("shop.local", NamespaceKind::DnsPrivate);
    cloud_map.namespace("shop-api", NamespaceKind::Http);
    let records = || ServiceKind::Dns { records: vec![(RecordType::A, 60)], custom_health: true };
    let tasks = [
        ("web", "5f3c1e0b7a9d4c2e8b6f0a1d2c3e4f50", "10.0.90.11"),
        ("web", "8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d", "10.0.91.12"),
        ("cart", "c0ffee00c0ffee00c0ffee00c0ffee00", "10.0.90.21"),
    ];
    for (service, task_id, address) in tasks {
        let id = cloud_map.find_service("shop.local", service);
        let id = id.unwrap_or_else(|| cloud_map.service(&dns, service, records()));
        cloud_map.instance(&id, task_id, &task(service, address));
    }
    let five_minutes = vec![(RecordType::A, 300)];
    let by_hand = ServiceKind::Dns { records: five_minutes, custom_health: false };
    let legacy = cloud_map.service(&dns, "legacy", by_hand);
    cloud_map.instance(&legacy, "mainframe", &[("AWS_INSTANCE_IPV4", "10.9.9.9")]);
    let mail = cloud_map.service(&dns, "mail", records());
    let by_hand = [("AWS_INSTANCE_IPV4", "10.0.1.31"), ("team", "post")];
    cloud_map.instance(&mail, "mailbox", &by_hand);
}

fn blue(cluster: &KubernetesServer) {
    cluster.service(claim("web", "web"));
    let pods = [pod("web-7c9d8b6f5d-abcde", 11), pod("web-7c9d8b6f5d-fghij", 12)];
    cluster.pods("shop", "web", &pods);
    cluster.service(claim("cart", "cart"));
    cluster.pods("shop", "cart", &[pod("cart-5b8f7c6d9-klmno", 21)]);
    cluster.service(claim("search", "search").annotate("cloudmap.controller/ttl", "a minute"));
    cluster.service(Headless::new("shop", "internal").port("http", 8080));
}

fn green(cluster: &KubernetesServer) {
    cluster.service(claim("web", "web"));
    cluster.pods("shop", "web", &[pod("web-66d5c7b9f4-pqrst", 51)]);
    cluster.service(
        Headless::new("shop", "checkout")
            .port_to("http", 80, 8080)
            .claim("checkout", "shop-api")
            .annotate("cloudmap.controller/port", "http"),
    );
    cluster.pods("shop", "checkout", &[pod("checkout-849f6d7c5-uvwxy", 61)]);
}

/// A headless Service with the port `http` that claims `hostname` in `shop.local`. Its pods have the attributes of the
/// ECS tasks of that name, since clients may filter by them.
pub fn claim(service: &str, hostname: &str) -> Headless {
    let task_attributes = format!(
        "ECS_CLUSTER_NAME=shop,ECS_SERVICE_NAME={hostname},ECS_TASK_DEFINITION_FAMILY={hostname}"
    );
    let service = Headless::new("shop", service).port("http", 8080).claim(hostname, "shop.local");
    service.annotate("cloudmap.controller/attributes", &task_attributes)
}

/// A ready pod at 10.0.1.x.
pub fn pod(name: &str, last: u8) -> Pod {
    Pod::new(name, &format!("10.0.1.{last}"))
}

/// The attributes of a task, as ECS registers it for a service of its cluster `shop`.
pub fn task<'a>(service: &'a str, address: &'a str) -> [(&'static str, &'a str); 7] {
    [
        ("AWS_INSTANCE_IPV4", address),
        ("AWS_INIT_HEALTH_STATUS", "HEALTHY"),
        ("AVAILABILITY_ZONE", "eu-central-1a"),
        ("REGION", "eu-central-1"),
        ("ECS_CLUSTER_NAME", "shop"),
        ("ECS_SERVICE_NAME", service),
        ("ECS_TASK_DEFINITION_FAMILY", service),
    ]
}
