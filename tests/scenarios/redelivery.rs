//! When a message that failed is delivered again: after a time that doubles, told to the queue of the settings.

use std::time::Duration;

use serde_json::json;

use crate::drift::change_of;
use crate::fleet::Fleet;
use crate::queue::deliver;
use crate::run::sync;
use testbed::ROLE_ARN;
use testbed::clock::now;
use testbed::cloud_map::{Fault, FaultKind};
use testbed::kubernetes::{Fault as ClusterFault, FaultKind as ClusterFaultKind};
use testbed::sqs::queue::Queue;

const MINUTE: Duration = Duration::from_mins(1);

/// `web` and `cart` with a pod each, nothing registered.
async fn fleet() -> Fleet {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
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
    let denied = Fault::on("CreateService", FaultKind::AccessDenied).service("cart");
    fleet.cloud_map.inject(denied.always());
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
    let function = fleet.function_with(&[("FAN_OUT", queue.url())]).await;
    fleet.cluster.fail(ClusterFault::always("/", ClusterFaultKind::Status(500)));
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
    fleet.cluster.fail(ClusterFault::always("/", ClusterFaultKind::Status(500)));
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
    let (own, other) = (queue(&fleet, "own", &[]), queue(&fleet, "other", &["web"]));
    let function = fleet.function_with(&[("QUEUE_URL", own.url())]).await;
    fleet.cluster.fail(ClusterFault::always("/", ClusterFaultKind::Status(500)));
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
    fleet.cluster.fail(ClusterFault::always("/", ClusterFaultKind::Status(500)));
    assert_eq!(deliver(&fleet.function().await, &queue).await.1.len(), 1);
    assert_eq!((queue.requests(), queue.until_next()), (0, Some(30 * MINUTE)));
}

/// The settings name no queue of drift: the template's own time is that of a run.
#[tokio::test]
async fn failed_event_about_drift_returns_after_the_visibility_timeout_of_its_queue() {
    let fleet = fleet().await;
    let own = queue(&fleet, "own", &[]);
    let function = fleet.function_with(&[("QUEUE_URL", own.url())]).await;
    sync(&function).await;
    let service = fleet.cloud_map.find_service("prod", "web").expect("the service");
    let drift = queue(&fleet, "drift", &[]);
    drift.send(&change_of("sqs-drift-instance", &service, now()).to_string());
    fleet.cluster.fail(ClusterFault::always("/", ClusterFaultKind::Status(500)));

    assert_eq!(deliver(&function, &drift).await.1.len(), 1);

    assert_eq!((own.requests(), drift.requests()), (0, 0));
    let timeout = drift.until_next().expect("it is in flight");
    assert!(timeout > MINUTE, "{timeout:?}");
}
