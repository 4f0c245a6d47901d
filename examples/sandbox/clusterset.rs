//! The clusterset that `--multi-cluster --serve` serves, for docs/multi-cluster.md: `blue` and `green` export `web`
//! with different ports, `amber` is a cluster of AWS's controller, and a pod of `blue` has come since the last sync.

use std::time::Duration;

use cloud_map_sync::function::Function;

use crate::multi_cluster::{CLUSTERSET, SETTINGS, join};
use testbed::Sandbox;
use testbed::aws_controller::endpoint;
use testbed::clock::StandInClock;
use testbed::cloud_map::ServiceKind;
use testbed::function::{event, invoke};
use testbed::kubernetes::{ClusterIp, Export, KubernetesServer, Pod};

/// The sandbox and its function, whose clock stays at six minutes after a sync.
pub async fn served() -> (Sandbox, Function) {
    let sandbox = Sandbox::start().await.cluster("blue").await.cluster("green").await;
    let blue = sandbox.kubernetes("blue");
    let green = sandbox.kubernetes("green");
    join(&blue, "blue");
    join(&green, "green");
    let web = || ClusterIp::new("shop", "web");
    export(&blue, web().port_of("TCP", "http", 80, 8080), "2026-01-01T09:00:00Z");
    export(&green, web().port_of("TCP", "admin", 81, 8081), "2026-02-01T09:00:00Z");
    blue.pods("shop", "web", &[Pod::new("web-7c9d8b6f5d-abcde", "10.0.1.11")]);
    green.pods("shop", "web", &[Pod::new("web-5b8f7c6d9-fghij", "10.1.1.11")]);
    let clock = StandInClock::new();
    let function = sandbox.function(&SETTINGS).await.with_clock(clock.clock());
    sync(&function).await;
    // After the first sync, so that the IPs of the imports are always the same.
    register_amber(&sandbox);
    sync(&function).await;
    clock.advance(Duration::from_mins(6));
    let pods = [
        Pod::new("web-7c9d8b6f5d-abcde", "10.0.1.11"),
        Pod::new("web-7c9d8b6f5d-klmno", "10.0.1.12"),
        Pod::new("web-7c9d8b6f5d-pqrst", "10.0.1.13").not_ready(),
    ];
    blue.pods("shop", "web", &pods);
    (sandbox, function)
}

async fn sync(function: &Function) {
    let answer = invoke(function, &event("direct-sync")).await;
    assert!(answer.report.is_some_and(|report| report.ok), "a sync before");
}

fn export(cluster: &KubernetesServer, service: ClusterIp, created: &str) {
    cluster.service(service);
    cluster.put(Export::new("shop", "web").created(created).into());
}

/// A Service `cart` of `amber`, as AWS's controller registers it.
fn register_amber(sandbox: &Sandbox) {
    let cloud_map = sandbox.cloud_map();
    let namespace = cloud_map.find_namespace("shop").expect("a sync has made it");
    let service = cloud_map.service(&namespace, "cart", ServiceKind::Http);
    let attributes = endpoint("amber", CLUSTERSET, "10.2.0.1");
    cloud_map.instance(&service, "tcp-10_2_0_1-8080", &attributes);
    let arns = ["blue", "green"].map(|name| sandbox.cluster_arn(name));
    cloud_map.watch_over("cloud-map-sync", &arns);
}
