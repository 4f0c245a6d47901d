//! Batches of messages from SQS: one sync per scope, and only what a retry can help is failed back.

use cloud_map_sync::function::Function;
use serde_json::{Value, json};

use crate::fleet::{Fleet, web_of};
use crate::run::writes;
use testbed::cloud_map::{Fault, FaultKind};
use testbed::function::{Answer, invoke};
use testbed::sqs::lambda;
use testbed::sqs::queue::Queue;

/// An SQS record with this id and body.
pub fn message(id: &str, body: &Value) -> Value {
    record(id, &body.to_string())
}

fn record(id: &str, body: &str) -> Value {
    json!({ "messageId": id, "body": body, "eventSource": "aws:sqs" })
}

/// A batch as Lambda hands it on.
pub fn batch(records: &[Value]) -> Value {
    json!({ "Records": records })
}

/// The ids of the messages that are failed back.
pub fn failures(answer: &Answer) -> Vec<String> {
    let response = answer.response.as_ref().expect("a batch is always answered");
    let failures = response["batchItemFailures"].as_array().expect("a list of failures");
    let ids = failures.iter().filter_map(|failure| failure["itemIdentifier"].as_str());
    let mut ids: Vec<String> = ids.map(str::to_owned).collect();
    ids.sort();
    ids
}

/// What Lambda does with what a queue has; returns how many messages it had, and the bodies of those that failed.
pub async fn deliver(function: &Function, queue: &Queue) -> (usize, Vec<String>) {
    let messages = queue.receive();
    let failed = failures(&invoke(function, &lambda::event(queue, &messages)).await);
    let (failed, done): (Vec<_>, Vec<_>) =
        messages.iter().cloned().partition(|message| failed.contains(&message.id));
    queue.delete(&done.into_iter().map(|message| message.id).collect::<Vec<_>>());
    (messages.len(), failed.into_iter().map(|message| message.body).collect())
}

fn scope(cluster: &str, service: &str) -> Value {
    json!({ "cluster": cluster, "namespace": "shop", "service": service })
}

/// `web` and `cart` in blue and green, each with a pod, nothing registered.
async fn two_clusters() -> Fleet {
    let fleet = Fleet::start().await;
    let green = fleet.green().await;
    for service in ["web", "cart"] {
        fleet.web(service, "prod", &["10.0.1.1"]);
        web_of(&green, service, "prod", &["10.0.2.1"]);
    }
    fleet
}

#[tokio::test]
async fn messages_of_several_clusters_read_the_shared_registry_once() {
    let fleet = two_clusters().await;
    let records = [
        message("a", &scope("blue", "web")),
        message("b", &scope("green", "cart")),
        message("c", &json!({ "cluster": "green", "namespace": "shop", "service": "web" })),
    ];

    invoke(&fleet.function().await, &batch(&records)).await;

    assert_eq!(fleet.cloud_map.count("ListNamespaces"), 1);
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.2.1"]);
    assert_eq!(fleet.addresses("prod", "cart"), ["10.0.2.1"]);
}

#[tokio::test]
async fn bad_records_unknown_clusters_and_unnamed_ones_are_dropped_and_the_rest_is_done() {
    let fleet = two_clusters().await;
    let records = [
        record("not-json", "web scaled to 3"),
        record("empty", ""),
        message("unknown-shape", &json!({ "hello": "world" })),
        message("unknown-kind", &json!({ "kind": "Node", "metadata": { "name": "n" } })),
        message("unknown-cluster", &scope("red", "web")),
        message("unnamed-cluster", &json!({ "namespace": "shop", "service": "web" })),
        message("not-for-queues", &json!({ "action": "purge", "cluster": "blue" })),
        message("hostile", &scope("blue", "../web")),
        message("good", &scope("blue", "web")),
    ];

    let answer = invoke(&fleet.function().await, &batch(&records)).await;

    assert_eq!(failures(&answer), [""; 0]);
    assert_eq!(writes(&fleet), ["CreateService web", "RegisterInstance web"]);
}

#[tokio::test]
async fn only_messages_whose_scope_failed_are_failed_back() {
    let fleet = two_clusters().await;
    let denied = FaultKind::AccessDenied;
    fleet.cloud_map.inject(Fault::on("CreateService", denied).service("cart").always());
    let records = [
        message("web", &scope("blue", "web")),
        message("cart", &scope("blue", "cart")),
        message("cart-again", &scope("blue", "cart")),
        message("all-of-shop", &json!({ "cluster": "blue", "namespace": "shop" })),
        message("green-web", &scope("green", "web")),
    ];

    let answer = invoke(&fleet.function().await, &batch(&records)).await;

    assert_eq!(failures(&answer), ["all-of-shop", "cart", "cart-again"]);
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.2.1"]);
}
