//! The audit log of a real kube-apiserver, subscribed to as CloudWatch Logs does it: nothing runs in the
//! cluster, and a write on a Service or its slices leads to a sync of that Service alone.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::real_cluster::RealCluster;
use crate::world::World;

#[tokio::test]
async fn audit_log_of_a_real_cluster_leads_to_the_services_it_tells_of() {
    let world = World::start().await;
    let Some(cluster) = RealCluster::start(&world, true).await else { return };
    cluster.apply_rbac().await;
    let mut lambda = world.lambda(&[]).await;
    let claim = |name: &str| json!({"cloudmap.controller/hostname": name, "cloudmap.controller/namespace": "prod"});
    let headless = json!({"clusterIP": "None"});
    cluster.node().await;
    cluster.service("cart", &claim("cart"), &headless).await;
    cluster.service("search", &claim("search"), &headless).await;
    for (app, pod, address) in [("cart", "cart-a", "10.0.2.1"), ("search", "search-a", "10.0.3.1")]
    {
        cluster.pod(app, pod, &[address]).await;
        cluster.wait_for_ready(app, &[address]).await;
    }

    // Everything from the beginning: reads, other kinds, the namespace of the new slices.
    let mut seen = 0;
    let batch = new_lines(&cluster, &mut seen);
    assert!(batch.len() > 20, "{} lines", batch.len());
    let answer = lambda.invoke(subscription(&batch)).await.expect("served");
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(world.addresses("prod", "cart"), ["10.0.2.1"]);
    assert_eq!(world.addresses("prod", "search"), ["10.0.3.1"]);

    // One pod more behind each, and only what the log says of one arrives.
    for (app, pod, old, new) in
        [("search", "search-b", "10.0.3.1", "10.0.3.2"), ("cart", "cart-b", "10.0.2.1", "10.0.2.2")]
    {
        cluster.pod(app, pod, &[new]).await;
        cluster.wait_for_ready(app, &[old, new]).await;
    }
    let mut of_cart = new_lines(&cluster, &mut seen);
    of_cart.retain(|line| !line.contains("search"));
    lambda.invoke(subscription(&of_cart)).await.expect("served");
    assert_eq!(world.addresses("prod", "cart"), ["10.0.2.1", "10.0.2.2"]);
    assert_eq!(world.addresses("prod", "search"), ["10.0.3.1"], "its log did not arrive");

    cluster.delete_service("search").await;
    lambda.invoke(subscription(&new_lines(&cluster, &mut seen))).await.expect("served");
    assert!(world.addresses("prod", "search").is_empty());
    world.assert_that_the_ecs_task_is_unchanged();
}

/// What kube-apiserver has recorded since the last time.
fn new_lines(cluster: &RealCluster, seen: &mut usize) -> Vec<String> {
    let lines = cluster.control_plane.audit_log();
    let new = lines[*seen..].to_vec();
    *seen = lines.len();
    new
}

/// The payload with which CloudWatch Logs invokes a function for lines of a log group of EKS.
fn subscription(lines: &[String]) -> Value {
    let events = lines.iter().enumerate().map(|(index, line)| {
        json!({"id": format!("{index:056}"), "timestamp": 1_795_252_502_000_u64, "message": line})
    });
    let batch = json!({
        "messageType": "DATA_MESSAGE",
        "owner": "111122223333",
        "logGroup": "/aws/eks/blue/cluster",
        "logStream": "kube-apiserver-audit-3c1d5e1f0a2b4c6d8e9f",
        "subscriptionFilters": ["cloud-map-sync"],
        "logEvents": events.collect::<Vec<_>>(),
    });
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(batch.to_string().as_bytes()).expect("memory");
    let packed = packed.finish().expect("memory");
    json!({"awslogs": {"data": STANDARD.encode(packed)}})
}
