//! How often and when Cloud Map is asked how an operation goes: after as long as such operations took lately. Time
//! stands still in these tests but for waiting.

use std::time::Duration;

use cloud_map_sync::function::Function;
use tokio::time::Instant;

use crate::fleet::Fleet;
use crate::run::sync;
use testbed::cloud_map::Behaviour;

/// From now on operations take this long.
fn operations_take(fleet: &Fleet, operation_delay: Duration) {
    fleet.cloud_map.behave(Behaviour { operation_delay, ..Behaviour::default() });
}

/// Registers so many pods more of a new Service. Returns how long that took, and how often an operation was polled.
async fn register(
    fleet: &Fleet,
    function: &Function,
    name: &str,
    pods: usize,
) -> (Duration, usize) {
    let addresses: Vec<String> = (0..pods).map(|pod| format!("10.1.0.{pod}")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    fleet.web(name, "prod", &addresses);
    fleet.cloud_map.forget_calls();
    let start = Instant::now();
    let report = sync(function).await;
    assert_eq!((report.counts.registered, report.ok), (pods, true), "{report}");
    (start.elapsed(), fleet.cloud_map.count("GetOperation"))
}

#[tokio::test(start_paused = true)]
async fn slow_operations_after_fast_ones_are_polled_a_few_times() {
    let fleet = Fleet::start().await;
    let function = fleet.function().await;
    let (_, polls) = register(&fleet, &function, "fast", 20).await;
    assert_eq!(polls, 20);

    operations_take(&fleet, Duration::from_secs(3));
    let (took, polls) = register(&fleet, &function, "slow", 2).await;

    assert!(polls <= 6, "{polls} polls of two operations");
    assert!(took < Duration::from_secs(6), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn one_slow_operation_does_not_make_the_next_ones_wait() {
    let fleet = Fleet::start().await;
    let function = fleet.function().await;
    operations_take(&fleet, Duration::from_secs(55));
    register(&fleet, &function, "slow", 1).await;

    operations_take(&fleet, Duration::from_secs(1));
    for name in ["a", "b", "c"] {
        let (took, polls) = register(&fleet, &function, name, 1).await;
        assert!(took < Duration::from_millis(5500), "{name}: {took:?}");
        assert!(polls <= 2, "{name}: {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn registrations_and_deregistrations_are_timed_apart() {
    let fleet = Fleet::start().await;
    let function = fleet.function().await;
    operations_take(&fleet, Duration::from_secs(3));
    register(&fleet, &function, "web", 20).await;

    operations_take(&fleet, Duration::from_millis(50));
    fleet.pods("web", &["10.1.0.1", "10.1.0.2"]);
    fleet.cloud_map.forget_calls();
    let start = Instant::now();
    let report = sync(&function).await;

    assert_eq!(report.counts.deregistered, 18, "{report}");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(fleet.cloud_map.count("GetOperation"), 18);
}
