//! What a person asks for is answered within the time of the invocation, in a Cloud Map that takes longer to be read: with
//! the names of the clusters, and with what was not read.

use cloud_map_sync::function::Function;
use cloud_map_sync::report::Report;
use cloud_map_sync::time::Deadline;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{address, begin, cold, full_sync, give, is_registered, name, seconds};
use crate::fleet::{Fleet, attributes};
use crate::limits::HALF;
use crate::run::problem;
use testbed::function::invoke_until;

/// The Services of the cluster, and the services of another party.
const OURS: usize = 100;
const THEIRS: usize = 600;
/// The time of an invocation, in which a process can read 500 services at most.
const TIME: u64 = 20;

/// A hundred Services in step among 700 services. Then one gets another pod, and one a pod at which another party has
/// registered an instance by hand.
async fn among_700() -> Fleet {
    let fleet = Fleet::start().await;
    for service in 0..OURS {
        fleet.web(&name(service), "prod", &[&address(service, 1)]);
    }
    for service in 0..THEIRS {
        let id = fleet.cloud_map.ensure_service("prod", &format!("ecs-{service}"));
        fleet.ecs_task(&id, "0123456789abcdef0123456789abcdef", "10.200.0.1");
    }
    begin(&fleet).await;
    give(&fleet, 7, &[1, 2]);
    give(&fleet, 9, &[1, 2]);
    let by_hand = attributes(&[("AWS_INSTANCE_IPV4", &address(9, 2))]);
    fleet.put(&fleet.cloud_map.service_id("prod", &name(9)), "by-hand", &by_hand);
    fleet
}

/// The answer of a new process, which comes in time, could read the cluster, and says what it has not read.
async fn asked(function: &Function, payload: &Value) -> Report {
    let start = Instant::now();
    let deadline = Deadline::after(seconds(TIME));
    let answer = Box::pin(invoke_until(function, payload, deadline)).await;
    let took = start.elapsed();
    let report = answer.report.unwrap_or_else(|| panic!("{payload}: {:?}", answer.response));
    assert!(took < seconds(TIME), "{payload}: {took:?}");
    assert_answered(&report, &payload.to_string());
    report
}

fn assert_answered(report: &Report, asked: &str) {
    assert_eq!(problem(report, "blue"), "", "{asked}: {report}");
    let text = report.to_string();
    assert!(text.contains("not read"), "{asked} does not say what was not read: {text}");
}

#[tokio::test(start_paused = true)]
async fn plan_is_answered_in_time_with_the_names_of_the_cluster() {
    let fleet = among_700().await;

    let report = asked(&cold(&fleet).await, &json!({ "action": "plan" })).await;

    assert!(report.counts.registered >= 1, "{report}");
    assert!(report.to_string().contains(&address(7, 2)), "{report}");
    assert_eq!(fleet.cloud_map.writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn confirm_is_carried_out_in_time_for_the_names_of_the_cluster() {
    let fleet = among_700().await;

    let confirm = json!({ "action": "confirm", "cluster": "blue" });
    let report = asked(&cold(&fleet).await, &confirm).await;

    assert!(is_registered(&fleet, 7, 2), "{report}");
}

#[tokio::test(start_paused = true)]
async fn adoption_is_planned_in_time_for_the_names_of_the_cluster() {
    let fleet = among_700().await;

    let report = asked(&cold(&fleet).await, &json!({ "action": "adopt" })).await;

    assert_eq!(report.counts.adopted, 1, "{report}");
    assert_eq!(fleet.cloud_map.writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn purge_is_planned_in_time_for_the_names_of_the_cluster() {
    let fleet = among_700().await;

    let purge = json!({ "action": "purge", "cluster": "blue" });
    let report = asked(&cold(&fleet).await, &purge).await;

    assert_eq!(report.counts.deregistered, OURS, "{report}");
    assert_eq!(fleet.cloud_map.writes(), 0);
}

/// With a dry run each deployment begins.
#[tokio::test(start_paused = true)]
async fn dry_run_is_answered_in_time_with_the_names_of_the_cluster() {
    let fleet = among_700().await;
    let function = fleet.function_with(&[HALF[0], ("DRY_RUN", "true")]).await;
    fleet.cloud_map.forget_calls();
    let start = Instant::now();

    let report = full_sync(&function, seconds(TIME)).await;

    assert!(start.elapsed() < seconds(TIME), "{:?}", start.elapsed());
    assert_answered(&report, "a dry run");
    assert!(report.counts.registered >= 1, "{report}");
    assert_eq!(fleet.cloud_map.writes(), 0);
}
