//! Batches of messages from SQS: one sync per scope, and only what a retry can help is failed back, to be delivered
//! again after a time that doubles. Near the end of the time given nothing new is begun.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::time::Deadline;
use serde_json::{Value, json};

use crate::fleet::{Fleet, ips, refs, web_of};
use crate::run::{converge, converged, problem, writes};
use testbed::ROLE_ARN;
use testbed::cloud_map::{Fault, FaultKind};
use testbed::eks::Facts;
use testbed::function::{Answer, invoke, invoke_until};
use testbed::sqs::Queue;

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

/// A batch of messages with these bodies, whose ids are their numbers.
pub fn batch_of(bodies: &[Value]) -> Value {
    let records = bodies.iter().enumerate().map(|(id, body)| message(&id.to_string(), body));
    batch(&records.collect::<Vec<_>>())
}

/// A batch of one message, about a Service of `shop`.
pub fn batch_about(cluster: &str, service: &str) -> Value {
    batch(&[message(service, &scope(cluster, service))])
}

/// Delivers a message about a Service of `shop` in `blue`; returns its id if it is failed back.
pub async fn failed_messages(function: &Function, service: &str) -> Vec<String> {
    failures(&invoke(function, &batch_about("blue", service)).await)
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
    let failed = failures(&invoke(function, &queue.event(&messages)).await);
    let (failed, done): (Vec<_>, Vec<_>) =
        messages.iter().cloned().partition(|message| failed.contains(&message.id));
    queue.delete(&done.into_iter().map(|message| message.id).collect::<Vec<_>>());
    (messages.len(), failed.into_iter().map(|message| message.body).collect())
}

/// The body of a message about a Service of `shop`.
pub fn scope(cluster: &str, service: &str) -> Value {
    json!({ "cluster": cluster, "namespace": "shop", "service": service })
}

/// `web` and `cart` in blue and green, each with a pod, nothing registered.
async fn two_clusters() -> Fleet {
    let (fleet, green) = Fleet::web_in_both().await;
    fleet.web("cart", "prod", &["10.0.1.1"]);
    web_of(&green, "cart", "prod", &["10.0.2.1"]);
    fleet
}

#[tokio::test]
async fn messages_of_several_clusters_read_the_shared_registry_once() {
    let fleet = two_clusters().await;
    let records = [
        message("a", &scope("blue", "web")),
        message("b", &scope("green", "cart")),
        message("c", &scope("green", "web")),
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
    fleet.cloud_map.deny_in("cart", "CreateService");
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

const MINUTE: Duration = Duration::from_mins(1);

/// `web` and `cart` with a pod each, nothing registered.
pub async fn fleet() -> Fleet {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    fleet.web("cart", "prod", &["10.0.2.1"]);
    fleet
}

/// A queue with a message about each of these Services.
fn queue(fleet: &Fleet, name: &str, services: &[&str]) -> Queue {
    let queue = fleet.sandbox.queue(name);
    queue.allow_consumer(ROLE_ARN);
    for service in services {
        queue.send(&json!({ "namespace": "shop", "service": service }).to_string());
    }
    queue
}

#[tokio::test]
async fn failed_message_returns_after_a_time_that_doubles() {
    let fleet = fleet().await;
    let queue = queue(&fleet, "own", &["web", "cart"]);
    let function = fleet.function_with(&[("QUEUE_URL", queue.url())]).await;
    fleet.cloud_map.deny_in("cart", "CreateService");
    let (count, failed) = deliver(&function, &queue).await;
    assert_eq!((count, failed.len()), (2, 1), "{failed:?}");
    for minutes in [1, 2, 4, 8] {
        assert_eq!(queue.until_next(), Some(minutes * MINUTE));
        queue.pass((minutes * MINUTE).saturating_sub(Duration::from_secs(1)));
        assert_eq!(queue.receive(), []);
        queue.pass(Duration::from_secs(1));
        assert_eq!(deliver(&function, &queue).await.0, 1);
    }
    fleet.cloud_map.heal();
    queue.pass(16 * MINUTE);
    assert_eq!(deliver(&function, &queue).await, (1, vec![]));
    assert_eq!((queue.until_next(), fleet.addresses("prod", "cart").len()), (None, 1));
}

#[tokio::test]
async fn every_failed_message_of_a_large_batch_is_postponed() {
    let fleet = fleet().await;
    let queue = queue(&fleet, "own", &["web"; 25]);
    let function = fleet.function_with(&[("QUEUE_URL", queue.url())]).await;
    fleet.cluster.refuse("/", 500);
    assert_eq!(deliver(&function, &queue).await.1.len(), 25);
    assert_eq!((queue.requests(), queue.until_next()), (3, Some(MINUTE)));
    queue.pass(MINUTE);
    assert_eq!(queue.receive().len(), 25);
}

/// The template lets a message be received ten times.
#[tokio::test]
async fn hour_without_the_api_server_fills_no_dead_letter_queue() {
    let fleet = fleet().await;
    let queue = queue(&fleet, "own", &["web"]);
    queue.set_most_receives(10);
    let function = fleet.function_with(&[("QUEUE_URL", queue.url())]).await;
    fleet.cluster.refuse("/", 500);
    let mut time = Duration::ZERO;
    while time < 60 * MINUTE {
        assert_eq!(deliver(&function, &queue).await.1.len(), 1);
        let next = queue.until_next().expect("it is in flight");
        queue.pass(next);
        time += next;
    }
    fleet.cluster.clear_faults();
    assert_eq!(deliver(&function, &queue).await, (1, vec![]));
    assert_eq!((queue.dead(), fleet.addresses("prod", "web").len()), (vec![], 1));
}

#[tokio::test]
async fn queue_is_the_one_of_the_settings_whatever_the_event_names() {
    let fleet = fleet().await;
    let own = queue(&fleet, "own", &[]);
    let other = queue(&fleet, "other", &["web"]);
    let function = fleet.function_with(&[("QUEUE_URL", own.url())]).await;
    fleet.cluster.refuse("/", 500);
    assert_eq!(deliver(&function, &other).await.1.len(), 1);
    assert_eq!((own.requests(), other.requests()), (1, 0));
    assert_eq!(other.until_next(), Some(30 * MINUTE));
}

#[tokio::test]
async fn batch_without_failures_and_function_without_a_queue_ask_for_nothing() {
    let fleet = fleet().await;
    let queue = queue(&fleet, "own", &["web"]);
    let function = fleet.function_with(&[("QUEUE_URL", queue.url())]).await;
    assert_eq!(deliver(&function, &queue).await, (1, vec![]));
    queue.send(&json!({ "namespace": "shop", "service": "web" }).to_string());
    fleet.cluster.refuse("/", 500);
    assert_eq!(deliver(&fleet.function().await, &queue).await.1.len(), 1);
    assert_eq!((queue.requests(), queue.until_next()), (0, Some(30 * MINUTE)));
}

/// Three seconds are kept for the end, so three are left to work in.
const SIX_SECONDS: Duration = Duration::from_secs(6);

/// Every registration is answered just after nothing new may begin.
fn slow_registrations(fleet: &Fleet) {
    let late = FaultKind::Late(Duration::from_secs(3));
    fleet.cloud_map.inject(Fault::on("RegisterInstance", late).always());
}

#[tokio::test]
async fn invocation_without_time_writes_nothing_and_says_so() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    let function = fleet.function().await;
    let deadline = Deadline::after(Duration::from_secs(2));

    let answer = invoke_until(&function, &json!({ "action": "sync" }), deadline).await;

    let report = answer.report.expect("a report");
    assert!(!report.ok && problem(&report, "blue").contains("time"), "{report}");
    assert_eq!(writes(&fleet), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn nothing_new_is_begun_near_the_deadline_and_what_is_left_is_reported_and_done_next_time() {
    let (fleet, function) = Fleet::in_step("web", "prod", &["10.0.9.1"]).await;
    fleet.web("web", "prod", &refs(&ips("10.0.1", 0..200)));
    slow_registrations(&fleet);

    let deadline = Deadline::after(SIX_SECONDS);
    let payload = json!({ "action": "sync" });
    let (answer, begun) = tokio::join!(invoke_until(&function, &payload, deadline), async {
        tokio::time::sleep_until(deadline.stop).await;
        fleet.cloud_map.count("RegisterInstance")
    });

    let report = answer.report.expect("a report");
    assert_eq!(fleet.cloud_map.count("RegisterInstance"), begun, "begun after the stop");
    assert!(!report.ok && (1..200).contains(&begun), "{begun} were begun: {}", report.counts);
    // The end of those that were begun is not seen any more.
    assert_eq!((report.counts.undone, report.counts.registered), (201, 0), "{}", report.counts);
    assert_eq!(fleet.cloud_map.count("DeregisterInstance"), 0);
    assert!(fleet.addresses("prod", "web").contains(&"10.0.9.1".to_owned()));

    fleet.cloud_map.heal();
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web").len(), 200);
}

#[tokio::test]
async fn messages_whose_scope_ran_out_of_time_are_failed_back() {
    let fleet = fleet().await;
    let function = converged(&fleet).await;
    fleet.pods("web", &["10.0.1.2"]);
    slow_registrations(&fleet);
    let messages = ["web", "cart"].map(|service| message(service, &scope("blue", service)));

    let answer = invoke_until(&function, &batch(&messages), Deadline::after(SIX_SECONDS)).await;

    assert_eq!(failures(&answer), ["web"]);
}

/// Five seconds for a connection, thirty for each pause within a reply.
#[tokio::test(start_paused = true)]
async fn cluster_that_does_not_answer_delays_the_answer_for_a_bounded_time_and_no_other_cluster() {
    for (accepts, limit) in [(false, 5), (true, 30)] {
        let (fleet, _) = Fleet::web_in_both().await;
        fleet.sandbox.use_sockets();
        let function = fleet.function().await;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        if accepts {
            fleet.cluster.be_silent();
        } else {
            let facts = Facts {
                name: "blue".to_owned(),
                local_id: None,
                version: fleet.cluster.version(),
                endpoint: format!("https://{}", listener.local_addr().expect("an address")),
                certificate_authority: fleet.cluster.certificate_authority_pem().clone(),
            };
            let arn = fleet.sandbox.cluster_arn("blue");
            fleet.sandbox.aws().eks.register_other(&arn, facts);
        }
        let others = (1..40).map(|index| format!("web-{index}"));
        let names: Vec<String> = others.chain(["web".to_owned()]).collect();
        let of = |cluster| names.iter().map(move |name| scope(cluster, name));
        let payload = batch_of(&of("blue").chain(of("green")).collect::<Vec<_>>());
        let start = tokio::time::Instant::now();
        let mut run = std::pin::pin!(invoke(&function, &payload));
        let early = tokio::time::timeout(Duration::from_secs(4), &mut run).await;
        assert!(early.is_err(), "{accepts}");
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.2.1"], "done meanwhile");
        let failed = failures(&run.await).len();
        let elapsed = start.elapsed();
        assert_eq!(failed, 40);
        assert!(elapsed >= Duration::from_secs(limit), "{accepts}: {elapsed:?}");
        assert!(elapsed < Duration::from_secs(2 * limit), "{accepts}: {elapsed:?}");
    }
}
