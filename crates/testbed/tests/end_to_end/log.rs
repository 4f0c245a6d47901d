//! What the function says while it works: JSON lines of which an operator finds those of one change,
//! and at no level of Lambda's logging controls anything to sign or to log in with.
//!
//! The audit log of a real kube-apiserver, subscribed to as CloudWatch Logs does it: nothing runs in the
//! cluster, and a write on a Service or its slices leads to a sync of that Service alone.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::cold_start::stand_in;
use crate::lambda::Lambda;
use crate::real_cluster::{RealCluster, claim, headless};
use crate::world::{World, blue};
use testbed::function::event;
use testbed::kubernetes::{BOUND_GROUP, Headless, Pod};

/// Reads the cluster for the function.
const READER: &str = "arn:aws:iam::111122223333:role/reader";

#[tokio::test]
async fn log_is_json_with_a_line_for_each_change_and_holds_no_secret_at_any_level() {
    for level in ["INFO", "DEBUG", "TRACE"] {
        let (world, cluster) = stand_in().await;
        world.sandbox.role(READER, None);
        cluster.grant(READER, &[BOUND_GROUP]);
        let clusters = json!([{"cluster": "blue", "roleArn": READER}]).to_string();
        let mut lambda =
            world.lambda(&[("CLUSTERS", &clusters), ("AWS_LAMBDA_LOG_LEVEL", level)]).await;

        lambda.invoke(event("schedule-eventbridge-rule")).await.expect("served");
        cluster.revoke(READER);
        lambda.invoke(event("schedule-eventbridge-rule")).await.expect_err("refused with 401");

        assert_that_a_line_tells_of_the_change(&lambda);
        assert_that_metrics_tell_of_both_runs(&lambda);
        assert_that_nothing_secret_is_reported(level, &lambda, &world);
    }
}

#[tokio::test]
async fn name_that_goes_empty_is_a_warning_and_a_count() {
    let (world, cluster) = stand_in().await;
    cluster.service(Headless::new("shop", "cart").claim("cart", "prod"));
    cluster.pods("shop", "cart", &[Pod::new("cart-a", "10.0.2.1")]);
    let mut lambda = world.lambda(&[]).await;
    lambda.invoke(event("schedule-eventbridge-rule")).await.expect("served");
    assert!(lines(&lambda).iter().all(|line| line["level"] == "INFO"), "{}", lambda.log());

    cluster.pods("shop", "cart", &[]);
    let answer = lambda.invoke(event("schedule-eventbridge-rule")).await.expect("served");
    assert_eq!(answer["counts"]["emptied"], 1, "{answer}");
    let mut warnings = lines(&lambda).into_iter().filter(|line| line["level"] == "WARN");
    let warning = warnings.next().unwrap_or_else(|| panic!("no warning\n{}", lambda.log()));
    assert_eq!(warning["cloud_map_service"], "prod/cart");
    assert_eq!(warning["message"], "emptied: no instance is left under this name");
}

#[tokio::test]
async fn settings_that_do_not_go_together_are_a_warning_at_the_start() {
    let (world, _) = stand_in().await;
    let mut lambda = world.lambda(&[("GUARD_WAIT", "2m"), ("SCHEDULE_MINUTES", "30")]).await;
    lambda.invoke(event("schedule-eventbridge-rule")).await.expect("served");
    let warnings = lines(&lambda).into_iter().filter(|line| line["level"] == "WARN");
    let warnings: Vec<Value> = warnings.map(|line| line["message"].clone()).collect();
    let [warning] = warnings.as_slice() else { panic!("one warning: {warnings:?}") };
    assert!(warning.as_str().is_some_and(|it| it.starts_with("GUARD_WAIT (2m) and")), "{warning}");
}

/// What is in the log but metrics.
fn lines(lambda: &Lambda) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let lines = lambda.log().lines().map(parse).collect::<Vec<Value>>();
    lines.into_iter().filter(|line| line.get("_aws").is_none()).collect()
}

fn assert_that_a_line_tells_of_the_change(lambda: &Lambda) {
    let lines = lines(lambda);
    let registered = lines.iter().find(|line| line["change"] == "register");
    let registered = registered.unwrap_or_else(|| panic!("no line for the change\n{lines:?}"));
    assert_eq!(registered["level"], "INFO");
    assert_eq!(
        (&registered["service"], &registered["cold_start"]),
        (&json!("cloud-map-sync"), &json!(true))
    );
    let ids = ["function_request_id", "xray_trace_id", "function_arn"];
    assert!(ids.iter().all(|id| registered[id].is_string()), "{registered}");
    assert_eq!(registered["cluster"], blue().arn());
    assert_eq!(registered["kubernetes_service"], "shop/web");
}

fn assert_that_metrics_tell_of_both_runs(lambda: &Lambda) {
    let log = lambda.log();
    let metrics: Vec<Value> = log
        .lines()
        .filter(|line| line.starts_with("{\"_aws\""))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let said =
        |name: &str| metrics.iter().filter_map(|line| line[name].as_u64()).collect::<Vec<_>>();
    // Of the cluster and of the invocation, each time.
    assert_eq!(said("GoodFullSync"), [1, 1, 0, 0], "{metrics:#?}");
    assert_eq!(said("Registered"), [1, 0]);
    assert!(metrics.iter().all(|line| line["function_name"] == "cloud-map-sync"));
}

/// The function's own key and one for each time that it assumed the role.
fn assert_that_nothing_secret_is_reported(level: &str, lambda: &Lambda, world: &World) {
    let identities = &world.sandbox.aws().identities;
    assert!(!identities.assumed().is_empty(), "the role was not assumed");
    let log = lambda.log();
    for (what, secret) in identities.secrets() {
        let line = log.lines().find(|line| line.contains(&secret));
        let start = line.map(|line| line.chars().take(400).collect::<String>());
        assert_eq!(start, None, "{what} is in the log at level {level}");
    }
}

#[tokio::test]
async fn audit_log_of_a_real_cluster_leads_to_the_services_it_tells_of() {
    let world = World::start().await;
    let Some(cluster) = RealCluster::start(&world, true).await else { return };
    cluster.apply_rbac().await;
    let mut lambda = world.lambda(&[]).await;
    cluster.node().await;
    for (app, pod, address) in [("cart", "cart-a", "10.0.2.1"), ("search", "search-a", "10.0.3.1")]
    {
        cluster.service(app, &claim("prod", app), &headless()).await;
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
