//! Messages about single Services in a large Cloud Map: they cost what their Services cost, and none of them is lost.

use cloud_map_sync::function::Function;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    MINUTE, address, begin, cold, full_sync, give, in_step, is_registered, name, pass, seconds,
    until,
};
use crate::fleet::Fleet;
use crate::queue::{batch_of, failures, scope};
use testbed::cloud_map::ServiceKind;
use testbed::function::{Answer, TIMEOUT, invoke};
use testbed::kubernetes::{Headless, Pod};

const SERVICES: usize = 1500;

/// A batch with a message about each of these Services.
fn about(services: &[usize]) -> Value {
    batch_of(&services.iter().map(|service| scope("blue", &name(*service))).collect::<Vec<_>>())
}

/// A process that has run one full sync, a minute ago.
async fn after_one_full_sync(fleet: &Fleet) -> Function {
    let function = cold(fleet).await;
    full_sync(&function, TIMEOUT).await;
    pass(fleet, MINUTE).await;
    fleet.cloud_map.forget_calls();
    function
}

/// The text of the report of a batch.
fn text(answer: &Answer) -> String {
    answer.report.as_ref().expect("a report").to_string()
}

/// The calls to Cloud Map of any kind.
fn calls(fleet: &Fleet) -> usize {
    fleet.cloud_map.calls().len()
}

/// So many Services, and a Service `jobs/worker` with these pods besides. All of it is in step.
async fn with_worker(services: usize, pods: &[usize]) -> Fleet {
    let fleet = Fleet::start().await;
    for service in 0..services {
        fleet.web(&name(service), "prod", &[&address(service, 1)]);
    }
    let worker = Headless::new("jobs", "worker").port("http", 8080).claim("worker", "prod");
    fleet.service(worker);
    give_worker(&fleet, pods);
    begin(&fleet).await;
    fleet
}

fn give_worker(fleet: &Fleet, pods: &[usize]) {
    let pod = |pod: &usize| Pod::new(&format!("worker-{pod}"), &format!("10.99.0.{pod}"));
    fleet.cluster.pods("jobs", "worker", &pods.iter().map(pod).collect::<Vec<_>>());
}

/// What messages about a pod of `jobs/worker` name: its Service, or the namespace of the pod, of which any Service may
/// select it.
fn about_a_pod() -> [Value; 2] {
    [
        json!({ "cluster": "blue", "namespace": "jobs", "service": "worker" }),
        json!({ "cluster": "blue", "namespace": "jobs" }),
    ]
}

/// A pod ends among 1,500 Services, as one of two or as the last one of its Service, and the process has run a full sync
/// before. The message costs ten calls at most, and the address is gone after it.
#[tokio::test(start_paused = true)]
async fn message_about_a_pod_that_ended_costs_ten_calls_and_the_address_is_gone() {
    for before in [&[1, 2][..], &[2]] {
        let fleet = with_worker(SERVICES, before).await;
        for body in about_a_pod() {
            give_worker(&fleet, before);
            let function = after_one_full_sync(&fleet).await;
            give_worker(&fleet, &before[..before.len() - 1]);
            let start = Instant::now();

            let answer = invoke(&function, &batch_of(std::slice::from_ref(&body))).await;

            let took = start.elapsed();
            let calls = calls(&fleet);
            let counts = fleet.cloud_map.counts();
            assert!(calls <= 10, "{body}: {calls} calls in {took:?}: {counts:?}");
            let found = fleet.addresses("prod", "worker");
            assert_eq!(found.len(), before.len() - 1, "{body}: {found:?}: {}", text(&answer));
            assert_eq!(failures(&answer), [""; 0]);
        }
    }
}

/// A batch of messages is about a pod that ended and about a new pod of another Service. The new pod does not wait for
/// what the removal takes.
#[tokio::test(start_paused = true)]
async fn new_pod_beside_one_that_ended_is_registered_within_two_seconds() {
    for body in about_a_pod() {
        let fleet = with_worker(SERVICES, &[1, 2]).await;
        let function = after_one_full_sync(&fleet).await;
        give_worker(&fleet, &[1]);
        give(&fleet, 9, &[1, 2]);

        let payload = batch_of(&[body.clone(), scope("blue", &name(9))]);
        let registered = until(|| is_registered(&fleet, 9, 2));
        let (took, answer) = tokio::join!(registered, invoke(&function, &payload));

        assert!(took < seconds(2), "{body}: registered after {took:?}: {}", text(&answer));
        assert_eq!(fleet.addresses("prod", "worker"), ["10.99.0.1"], "{body}: {}", text(&answer));
    }
}

/// The same for a Service that is deleted: its claims are gone, so only Cloud Map shows where its instances are.
#[tokio::test(start_paused = true)]
async fn message_about_a_deleted_service_costs_ten_calls_in_a_process_that_has_read_all() {
    let fleet = in_step(SERVICES, &[1]).await;
    let function = after_one_full_sync(&fleet).await;
    fleet.cluster.delete_service("shop", &name(7));

    let answer = invoke(&function, &about(&[7])).await;

    let calls = calls(&fleet);
    assert!(calls <= 10, "{calls} calls: {:?}", fleet.cloud_map.counts());
    assert_eq!(fleet.addresses("prod", &name(7)), [""; 0], "{}", text(&answer));
    assert_eq!(failures(&answer), [""; 0]);
}

/// A new process gets a message about a deleted Service among 200, which it can read within a third of the schedule's
/// interval. It does so, and takes the instances out.
#[tokio::test(start_paused = true)]
async fn new_process_serves_a_message_about_a_deleted_service_if_it_can_read_all_soon() {
    let fleet = in_step(200, &[1]).await;
    let function = cold(&fleet).await;
    fleet.cluster.delete_service("shop", &name(7));
    let start = Instant::now();

    let answer = invoke(&function, &about(&[7])).await;

    let took = start.elapsed();
    assert_eq!(fleet.addresses("prod", &name(7)), [""; 0], "{took:?}: {}", text(&answer));
    assert_eq!(failures(&answer), [""; 0]);
    assert!(took < seconds(25), "{took:?}");
}

/// The same among 1,500 Services, which take a minute to be read. The message is left to the next full sync, and the
/// answer has a line that says so, and none that says that there was nothing to do.
#[tokio::test(start_paused = true)]
async fn new_process_leaves_a_message_about_a_deleted_service_to_the_next_full_sync() {
    let fleet = in_step(SERVICES, &[1]).await;
    let function = cold(&fleet).await;
    fleet.cluster.delete_service("shop", &name(7));
    let start = Instant::now();

    let answer = invoke(&function, &about(&[7])).await;

    let took = start.elapsed();
    let text = text(&answer);
    assert!(took < seconds(25), "{took:?}: {text}");
    assert_eq!(failures(&answer), [""; 0], "{text}");
    assert!(text.contains("shop/web-7") && text.contains("full sync"), "{text}");
    assert!(!text.contains("nothing"), "{text}");
    full_sync(&function, TIMEOUT).await;
    assert_eq!(fleet.addresses("prod", &name(7)), [""; 0]);
}

/// A new process gets a message about a pod that ended, whose Service stands. It takes the address out, or among 1,500
/// Services says that the next full sync does. The next full sync does.
#[tokio::test(start_paused = true)]
async fn new_process_does_not_lose_a_message_about_a_pod_that_ended() {
    for services in [50, SERVICES] {
        let fleet = with_worker(services, &[1, 2]).await;
        for body in about_a_pod() {
            give_worker(&fleet, &[1, 2]);
            full_sync(&fleet.function_with(&[("QUOTA_SHARE", "1000")]).await, TIMEOUT).await;
            pass(&fleet, MINUTE).await;
            let function = cold(&fleet).await;
            give_worker(&fleet, &[1]);

            let answer = invoke(&function, &batch_of(std::slice::from_ref(&body))).await;

            let text = text(&answer);
            assert_eq!(failures(&answer), [""; 0], "{body}: {text}");
            let is_gone = || fleet.addresses("prod", "worker") == ["10.99.0.1"];
            let is_left = services == SERVICES && text.contains("full sync");
            assert!(is_gone() || is_left, "{services}, {body}: {text}");
            let report = full_sync(&function, TIMEOUT).await;
            assert!(is_gone(), "{services}, {body}: {}", report.counts);
        }
    }
}

/// A message about a new pod in a new process among 1,500 services reads the names of its Service alone.
#[tokio::test(start_paused = true)]
async fn new_process_registers_the_new_pod_of_a_message_without_reading_the_rest() {
    let fleet = in_step(SERVICES, &[1]).await;
    let function = cold(&fleet).await;
    give(&fleet, 7, &[1, 2]);

    let payload = about(&[7]);
    let registered = until(|| is_registered(&fleet, 7, 2));
    let (took, answer) = tokio::join!(registered, invoke(&function, &payload));

    let reads = fleet.cloud_map.count("ListInstances");
    assert!(reads <= 3, "{reads} reads of instances: {}", text(&answer));
    // Fifteen pages of the list of services take that long.
    assert!(took < seconds(15), "{took:?}");
}

/// A Service that never had an instance is deleted. A new process finds nothing of it in a Cloud Map that it can read,
/// and has nothing to leave to anyone.
#[tokio::test(start_paused = true)]
async fn message_about_a_deleted_service_without_instances_is_done() {
    let fleet = Fleet::start().await;
    fleet.web(&name(0), "prod", &[&address(0, 1)]);
    fleet.cloud_map.service(&fleet.http, &name(1), ServiceKind::Http);
    begin(&fleet).await;
    let function = cold(&fleet).await;

    let answer = invoke(&function, &about(&[1])).await;

    let text = text(&answer);
    assert_eq!((failures(&answer).len(), fleet.cloud_map.writes()), (0, 0), "{text}");
    assert!(!text.contains("full sync"), "{text}");
    pass(&fleet, MINUTE).await;
    assert!(full_sync(&function, TIMEOUT).await.ok);
}
