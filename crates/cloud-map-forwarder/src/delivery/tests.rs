use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use aws_sdk_sqs::types::{BatchResultErrorEntry, SendMessageBatchResultEntry};
use tokio::time::advance;

use super::*;
use cloud_map_sync::event::{self, Payload};

const MOMENT: Duration = Duration::from_millis(1);

fn service(name: &str) -> SyncScope {
    SyncScope::Service(ServiceRef::new("shop", name))
}

fn names(due: &[DueScope]) -> Vec<String> {
    due.iter().map(|due| due.scope.to_string()).collect()
}

/// The scopes that are due now, without waiting.
fn now(pending: &Pending) -> Vec<String> {
    let due = pin!(pending.take_due(10));
    match due.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(due) => names(&due),
        Poll::Pending => Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_becomes_one_message_shortly_after_its_first_change() {
    let pending = Pending::default();
    let start = Instant::now();
    for _ in 0..20 {
        pending.add(service("web"));
        advance(Duration::from_millis(12)).await;
    }
    assert!(now(&pending).is_empty(), "it is {:?} after the first", start.elapsed());

    let due = pending.take_due(10).await;
    assert_eq!((names(&due), due[0].since), (vec!["shop/web".to_owned()], start));
    assert!(start.elapsed() <= DEBOUNCE + MOMENT, "the timer counts whole milliseconds");
    assert!(now(&pending).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_changes_continuously_is_sent_regularly() {
    let pending = Pending::default();
    let mut sent = 0;
    for _ in 0..100 {
        pending.add(service("web"));
        advance(Duration::from_millis(10)).await;
        sent += now(&pending).len();
    }
    assert_eq!(sent, 4, "in a second");
}

#[tokio::test(start_paused = true)]
async fn each_service_is_debounced_alone_and_the_oldest_is_sent_first() {
    let pending = Pending::default();
    for name in ["web", "cart", "api"] {
        pending.add(service(name));
        advance(Duration::from_millis(100)).await;
    }
    assert_eq!(now(&pending), ["shop/web"]);
    advance(DEBOUNCE).await;
    assert_eq!(names(&pending.take_due(1).await), ["shop/cart"]);
    assert_eq!(now(&pending), ["shop/api"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_while_its_message_is_in_flight_is_sent_again() {
    let pending = Pending::default();
    pending.add(service("web"));
    let sent = pending.take_due(10).await;
    pending.add(service("web"));
    pending.record_result(sent.len(), Vec::new());
    assert_eq!(names(&pending.take_due(10).await), ["shop/web"]);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_service_backs_off_and_is_pending_once() {
    let pending = Pending::default();
    pending.add(service("web"));
    let mut pauses = Vec::new();
    for _ in 0..7 {
        let refused = pending.take_due(10).await;
        assert_eq!(names(&refused), ["shop/web"]);
        pending.record_result(0, refused);
        pending.add(service("web"));
        let start = Instant::now();
        while pending.waiting().next_due().is_some_and(|next| next > Instant::now()) {
            assert!(now(&pending).is_empty());
            advance(Duration::from_millis(100)).await;
        }
        pauses.push(start.elapsed().as_secs());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);

    let accepted = pending.take_due(10).await;
    pending.record_result(accepted.len(), Vec::new());
    pending.add(service("web"));
    advance(DEBOUNCE).await;
    let refused = pending.take_due(10).await;
    assert_eq!(names(&refused), ["shop/web"], "no pause is left");
    pending.record_result(0, refused);
    advance(FIRST_PAUSE).await;
    assert_eq!(now(&pending), ["shop/web"], "and the backoff starts again");
}

#[tokio::test(start_paused = true)]
async fn a_partly_rejected_request_is_retried_after_a_second() {
    let pending = Pending::default();
    pending.add(service("web"));
    pending.add(service("cart"));
    let mut sent = pending.take_due(10).await;
    let refused = sent.split_off(1);
    pending.record_result(sent.len(), refused.clone());
    advance(FIRST_PAUSE / 2).await;
    assert!(now(&pending).is_empty());
    advance(FIRST_PAUSE / 2).await;
    assert_eq!(now(&pending), names(&refused));
}

#[tokio::test(start_paused = true)]
async fn the_whole_cluster_replaces_every_service() {
    let pending = Pending::default();
    let start = Instant::now();
    pending.add(service("web"));
    advance(MOMENT).await;
    pending.add(SyncScope::Cluster);
    pending.add(service("cart"));
    let due = pending.take_due(10).await;
    assert_eq!((names(&due), due[0].since), (vec!["the whole cluster".to_owned()], start));
    assert!(pending.take_all(10).is_empty(), "what changed meanwhile is part of it");
}

#[tokio::test(start_paused = true)]
async fn more_services_than_the_limit_become_the_whole_cluster() {
    let pending = Pending::default();
    for number in 0..LIMIT {
        pending.add(service(&number.to_string()));
    }
    pending.add(service("0"));
    assert_eq!(pending.waiting().scopes.len(), LIMIT);
    pending.add(service("one-more"));
    assert_eq!(names(&pending.take_all(10)), ["the whole cluster"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_ignores_debounce_and_backoff() {
    let pending = Pending::default();
    pending.add(service("web"));
    let refused = pending.take_all(10);
    assert_eq!(names(&refused), ["shop/web"]);
    pending.record_result(0, refused);
    assert_eq!(names(&pending.take_all(10)), ["shop/web"], "not even for the queue's pause");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_take_returns_an_added_place() {
    let pending = Pending::default();
    let (due, ()) = tokio::join!(pending.take_due(10), async {
        advance(Duration::from_mins(1)).await;
        pending.add(service("web"));
    });
    assert_eq!(names(&due), ["shop/web"]);
}

fn due(name: &str) -> DueScope {
    DueScope { scope: SyncScope::Service(ServiceRef::new("shop", name)), since: Instant::now() }
}

#[test]
fn only_a_message_that_the_queue_confirms_counts_as_sent() {
    let scopes = ["web", "cart", "api"].map(due);
    let has = SendMessageBatchResultEntry::builder();
    let has = has.id("0").message_id("m").md5_of_message_body("d").build();
    let has_not = BatchResultErrorEntry::builder();
    let has_not = has_not.id("1").code("InternalError").sender_fault(false).message("later");
    let answer = SendMessageBatchOutput::builder()
        .successful(has.expect("complete"))
        .failed(has_not.build().expect("complete"))
        .build()
        .expect("complete");
    let DeliveryOutcome { accepted, refused } = outcome(&scopes, &answer);
    assert_eq!(accepted, scopes[..1]);
    let why: Vec<&str> = refused.iter().map(|(_, why)| why.as_str()).collect();
    assert_eq!(why, ["InternalError: later", "it is missing in the response"]);
    assert!(refused.iter().map(|(due, _)| due).eq(&scopes[1..]));
}

#[test]
fn the_function_reads_each_message_as_intended() {
    let rows = [
        (SyncScope::Cluster, "blue"),
        (SyncScope::Service(ServiceRef::new("shop", "web")), "blue/shop/web"),
    ];
    for (scope, read_scope) in rows {
        let body = scope.message("blue").to_string();
        let record = json!({"messageId": "1", "eventSource": "aws:sqs", "body": body});
        let read = event::read(&json!({"Records": [record]})).expect("a batch");
        let Payload::Queue(messages) = read else { panic!("{read:?}") };
        let reading = messages[0].reading.as_ref().expect("usable");
        assert_eq!(reading.to_string(), read_scope);
    }
}
