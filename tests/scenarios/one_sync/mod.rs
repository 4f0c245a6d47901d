//! One sync in worlds in which something is slow, large, or fails: whatever one Service, cluster or call does, the
//! others have their pods. Cloud Map has the rates of an account and the function the default share of them, unless a
//! test says otherwise. Tokio's clock is paused, so durations count explicit waits only, and are exact.

mod commands;
mod groups;
mod large_changes;
mod messages;
mod new_processes;
mod refused;
mod turns;
mod waiting;

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::report::Report;
use cloud_map_sync::time::Deadline;
use tokio::time::{Instant, sleep};

use crate::fleet::{Fleet, refs};
use crate::limits::{HALF, like_the_real_one};
use crate::run::{converge, metric};
use testbed::cloud_map::Behaviour;
use testbed::function::{TIMEOUT, event, invoke_until};

/// The instances for which a namespace has room.
const ROOM: usize = 20_000;
/// The schedule's interval.
pub const MINUTE: Duration = Duration::from_mins(1);

/// Cloud Map at an account's rates, with room for everybody. Operations end soon, so that a test measures the waits of the
/// function.
pub fn at_the_rates() -> Behaviour {
    let operation_delay = Duration::from_millis(200);
    Behaviour { operation_delay, instances_per_namespace: ROOM, ..like_the_real_one() }
}

/// So many Services `web-<n>` in `prod` with these pods each, all of them registered. The rates of an account hold from
/// here on.
pub async fn in_step(services: usize, pods: &[usize]) -> Fleet {
    let fleet = Fleet::start().await;
    for service in 0..services {
        fleet.web(&name(service), "prod", &refs(&addresses(service, pods)));
    }
    begin(&fleet).await;
    fleet
}

/// Registers everything by a process without limits. The rates of an account hold from here on.
pub async fn begin(fleet: &Fleet) {
    fleet.cloud_map.adjust(|it| it.instances_per_namespace = ROOM);
    converge(fleet, &fleet.function_with(&[("QUOTA_SHARE", "1000")]).await).await;
    fleet.cloud_map.behave(at_the_rates());
}

/// A process at the default share that has read all of Cloud Map and rested since.
pub async fn warm(fleet: &Fleet) -> Function {
    warm_with(fleet, &HALF).await
}

/// The same with other settings.
pub async fn warm_with(fleet: &Fleet, settings: &[(&str, &str)]) -> Function {
    let function = fleet.function_with(settings).await;
    for _ in 0..6 {
        full_sync(&function, TIMEOUT).await;
        pass(fleet, MINUTE).await;
    }
    fleet.cloud_map.forget_calls();
    function
}

/// A new process at the default share.
pub async fn cold(fleet: &Fleet) -> Function {
    fleet.cloud_map.forget_calls();
    fleet.function_with(&HALF).await
}

/// The name of a Service, and of its Cloud Map service.
pub fn name(service: usize) -> String {
    format!("web-{service}")
}

/// The address of a pod of a Service.
pub fn address(service: usize, pod: usize) -> String {
    format!("10.{}.{}.{pod}", service / 250, service % 250)
}

fn addresses(service: usize, pods: &[usize]) -> Vec<String> {
    pods.iter().map(|pod| address(service, *pod)).collect()
}

/// Gives a Service these pods.
pub fn give(fleet: &Fleet, service: usize, pods: &[usize]) {
    fleet.pods(&name(service), &refs(&addresses(service, pods)));
}

/// Whether a pod of a Service is registered.
pub fn is_registered(fleet: &Fleet, service: usize, pod: usize) -> bool {
    fleet.addresses("prod", &name(service)).contains(&address(service, pod))
}

/// A full sync by the schedule, in an invocation of this time.
pub async fn full_sync(function: &Function, time: Duration) -> Report {
    let payload = event("schedule-eventbridge-scheduler");
    let answer = Box::pin(invoke_until(function, &payload, Deadline::after(time))).await;
    answer.report.expect("a report")
}

/// Lets this time pass for the function and for Cloud Map.
pub async fn pass(fleet: &Fleet, time: Duration) {
    fleet.clock.advance(time);
    sleep(time).await;
}

/// The time until a condition holds. It ends after ten minutes in any case.
pub async fn until(mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() && start.elapsed() < 10 * MINUTE {
        sleep(Duration::from_millis(50)).await;
    }
    start.elapsed()
}

/// Whether the metrics of a run say that a full sync was good.
pub fn is_good(report: &Report) -> bool {
    metric(report, "GoodFullSync") == Some(1)
}

/// A number of seconds.
pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
