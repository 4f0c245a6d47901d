use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::time::advance;

use super::*;
use crate::model::ServiceRef;

const MOMENT: Duration = Duration::from_millis(1);

fn service(name: &str) -> Place {
    Place::Service(ServiceRef::new("shop", name))
}

fn names(due: &[Due]) -> Vec<String> {
    due.iter().map(|due| due.place.to_string()).collect()
}

/// What is due now, without waiting.
fn now(pending: &Pending) -> Vec<String> {
    let due = pin!(pending.due(10));
    match due.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(due) => names(&due),
        Poll::Pending => Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_becomes_one_message_a_moment_after_its_first_change() {
    let (pending, start) = (Pending::default(), Instant::now());
    for _ in 0..20 {
        pending.add(service("web"));
        advance(Duration::from_millis(12)).await;
    }
    assert!(now(&pending).is_empty(), "it is {:?} after the first", start.elapsed());

    let due = pending.due(10).await;
    assert_eq!((names(&due), due[0].since), (vec!["shop/web".to_owned()], start));
    assert!(start.elapsed() <= GATHERING + MOMENT, "the timer counts whole milliseconds");
    assert!(now(&pending).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_changes_all_the_time_is_told_all_the_same() {
    let pending = Pending::default();
    let mut told = 0;
    for _ in 0..100 {
        pending.add(service("web"));
        advance(Duration::from_millis(10)).await;
        told += now(&pending).len();
    }
    assert_eq!(told, 4, "in a second");
}

#[tokio::test(start_paused = true)]
async fn each_service_has_its_own_moment_and_the_one_that_waits_longest_goes_first() {
    let pending = Pending::default();
    for name in ["web", "cart", "api"] {
        pending.add(service(name));
        advance(Duration::from_millis(100)).await;
    }
    assert_eq!(now(&pending), ["shop/web"]);
    advance(GATHERING).await;
    assert_eq!(names(&pending.due(1).await), ["shop/cart"]);
    assert_eq!(now(&pending), ["shop/api"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_while_its_message_is_on_the_way_is_told_again() {
    let pending = Pending::default();
    pending.add(service("web"));
    let sent = pending.due(10).await;
    pending.add(service("web"));
    pending.settle(sent.len(), Vec::new());
    assert_eq!(names(&pending.due(10).await), ["shop/web"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_queue_refuses_waits_longer_each_time_and_once_however_often_it_changes() {
    let pending = Pending::default();
    pending.add(service("web"));
    let mut pauses = Vec::new();
    for _ in 0..7 {
        let refused = pending.due(10).await;
        assert_eq!(names(&refused), ["shop/web"]);
        pending.settle(0, refused);
        pending.add(service("web"));
        let start = Instant::now();
        while pending.waiting().next().is_some_and(|next| next > Instant::now()) {
            assert!(now(&pending).is_empty());
            advance(Duration::from_millis(100)).await;
        }
        pauses.push(start.elapsed().as_secs());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);

    let accepted = pending.due(10).await;
    pending.settle(accepted.len(), Vec::new());
    pending.add(service("web"));
    advance(GATHERING).await;
    let refused = pending.due(10).await;
    assert_eq!(names(&refused), ["shop/web"], "no pause is left");
    pending.settle(0, refused);
    advance(FIRST_PAUSE).await;
    assert_eq!(now(&pending), ["shop/web"], "and the next begins anew");
}

#[tokio::test(start_paused = true)]
async fn what_a_part_of_a_request_was_refused_for_is_tried_again_in_a_second() {
    let pending = Pending::default();
    pending.add(service("web"));
    pending.add(service("cart"));
    let mut sent = pending.due(10).await;
    let refused = sent.split_off(1);
    pending.settle(sent.len(), refused.clone());
    advance(FIRST_PAUSE / 2).await;
    assert!(now(&pending).is_empty());
    advance(FIRST_PAUSE / 2).await;
    assert_eq!(now(&pending), names(&refused));
}

#[tokio::test(start_paused = true)]
async fn the_whole_cluster_takes_the_place_of_every_service() {
    let (pending, start) = (Pending::default(), Instant::now());
    pending.add(service("web"));
    advance(MOMENT).await;
    pending.add(Place::Cluster);
    pending.add(service("cart"));
    let due = pending.due(10).await;
    assert_eq!((names(&due), due[0].since), (vec!["the whole cluster".to_owned()], start));
    assert!(pending.at_once(10).is_empty(), "what changed meanwhile is part of it");
}

#[tokio::test(start_paused = true)]
async fn more_services_than_can_wait_become_the_whole_cluster() {
    let pending = Pending::default();
    for number in 0..LIMIT {
        pending.add(service(&number.to_string()));
    }
    pending.add(service("0"));
    assert_eq!(pending.waiting().places.len(), LIMIT);
    pending.add(service("one-more"));
    assert_eq!(names(&pending.at_once(10)), ["the whole cluster"]);
}

#[tokio::test(start_paused = true)]
async fn at_the_end_nothing_waits_for_its_moment() {
    let pending = Pending::default();
    pending.add(service("web"));
    let refused = pending.at_once(10);
    assert_eq!(names(&refused), ["shop/web"]);
    pending.settle(0, refused);
    assert_eq!(names(&pending.at_once(10)), ["shop/web"], "not even for the queue's pause");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_something_to_be_due_hears_of_what_is_added() {
    let pending = Pending::default();
    let (due, ()) = tokio::join!(pending.due(10), async {
        advance(Duration::from_mins(1)).await;
        pending.add(service("web"));
    });
    assert_eq!(names(&due), ["shop/web"]);
}
