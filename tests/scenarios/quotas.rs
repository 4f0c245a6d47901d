//! Under the rates of an account: as fast as they allow, and no faster, so that others can work beside it. Time
//! stands still in these tests but for waiting, so that what they measure is what was waited for.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::report::Report;
use tokio::time::{Instant, sleep};

use crate::fleet::{Fleet, refs};
use crate::run::{converge, sync};
use testbed::cloud_map::{Behaviour, NamespaceKind, Quotas};

/// The default.
const HALF: [(&str, &str); 1] = [("QUOTA_SHARE", "0.5")];

/// Cloud Map as it is: 20 ms a call, two seconds an operation, an account's rates.
pub fn like_the_real_one(quotas: Quotas) -> Behaviour {
    Behaviour {
        latency: Duration::from_millis(20),
        operation_delay: Duration::from_secs(2),
        quotas: Some(quotas),
        ..Behaviour::default()
    }
}

/// A world of so many Services with so many pods each, nothing registered.
async fn services(services: usize, pods: usize) -> Fleet {
    let fleet = Fleet::start().await;
    for service in 0..services {
        let addresses: Vec<String> = (0..pods).map(|pod| format!("10.1.{service}.{pod}")).collect();
        fleet.web(&format!("web-{service}"), "prod", &refs(&addresses));
    }
    fleet
}

/// A full sync that takes little longer than the rates alone force for its calls.
async fn sync_at_the_rates(fleet: &Fleet, function: &Function) -> Report {
    let start = Instant::now();
    let report = sync(function).await;
    let (took, forced) = (start.elapsed(), fleet.cloud_map.forced_time());
    assert!(took < forced.mul_f64(1.25), "{took:?}, and the rates force {forced:?}");
    report
}

#[tokio::test(start_paused = true)]
async fn first_sync_takes_little_longer_than_the_rates_force_and_is_hardly_ever_throttled() {
    let fleet = services(100, 10).await;
    fleet.cloud_map.behave(like_the_real_one(Quotas::of_an_account()));
    let function = fleet.function_with(&[("QUOTA_SHARE", "1")]).await;

    let report = sync_at_the_rates(&fleet, &function).await;

    assert_eq!((report.counts.registered, report.ok), (1000, true), "{}", report.counts);
    let calls = fleet.cloud_map.calls().len();
    assert!(
        fleet.cloud_map.throttled() * 100 < calls,
        "{} of {calls} calls throttled",
        fleet.cloud_map.throttled()
    );
}

#[tokio::test(start_paused = true)]
async fn new_process_right_after_another_is_hardly_ever_throttled() {
    let fleet = services(200, 1).await;
    fleet.cloud_map.behave(like_the_real_one(Quotas::of_an_account()));
    let whole = [("QUOTA_SHARE", "1")];
    sync(&fleet.function_with(&whole).await).await;
    sync(&fleet.function_with(&whole).await).await;
    let function = fleet.function_with(&whole).await;
    fleet.cloud_map.forget_calls();

    let report = sync_at_the_rates(&fleet, &function).await;

    assert_eq!((report.counts.unchanged, report.ok), (200, true), "{}", report.counts);
    let calls = fleet.cloud_map.calls().len();
    assert!(
        fleet.cloud_map.throttled() * 50 < calls,
        "{} of {calls} calls throttled",
        fleet.cloud_map.throttled()
    );
}

#[tokio::test(start_paused = true)]
async fn instances_are_read_while_the_lists_of_services_still_go_on() {
    let fleet = services(0, 0).await;
    for namespace in 0..6 {
        let name = format!("prod-{namespace}");
        fleet.cloud_map.namespace(&name, NamespaceKind::Http);
        for service in 0..50 {
            let address = format!("10.1.{namespace}.{service}");
            fleet.web(&format!("web-{namespace}-{service}"), &name, &[&address]);
        }
    }
    converge(&fleet, &fleet.function_with(&[("QUOTA_SHARE", "1000")]).await).await;
    let real = like_the_real_one(Quotas::of_an_account());
    // The lists take 15 s, the instances 5 s.
    fleet.cloud_map.behave(Behaviour { page_limit: 50, ..real });
    fleet.cloud_map.forget_calls();
    let function = fleet.function_with(&[("QUOTA_SHARE", "1")]).await;

    let report = sync_at_the_rates(&fleet, &function).await;

    assert_eq!((report.counts.unchanged, report.ok), (300, true), "{}", report.counts);
}

#[tokio::test(start_paused = true)]
async fn with_half_of_the_rates_a_writer_beside_the_first_sync_is_never_throttled() {
    let fleet = services(60, 10).await;
    fleet.cloud_map.behave(like_the_real_one(Quotas::of_an_account()));
    // As ECS does: it registers a task, and asks whether that is done.
    let beside = async {
        loop {
            sleep(Duration::from_millis(50)).await;
            for operation in ["RegisterInstance", "GetOperation", "DeregisterInstance"] {
                assert!(!fleet.cloud_map.throttles(operation), "{operation} was throttled");
            }
        }
    };

    let function = fleet.function_with(&HALF).await;
    let report = tokio::select! {
        report = sync(&function) => report,
        () = beside => unreachable!("it goes on for ever"),
    };

    assert_eq!(
        (report.counts.registered, fleet.cloud_map.throttled()),
        (600, 0),
        "{}",
        report.counts
    );
}

#[tokio::test(start_paused = true)]
async fn service_with_one_new_pod_does_not_wait_for_one_with_hundreds() {
    let fleet = services(1, 1).await;
    let many: Vec<String> =
        (0..400).map(|pod| format!("10.2.{}.{}", pod / 200, pod % 200)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    fleet.web("a-bulk", "prod", &many);
    fleet.cloud_map.behave(like_the_real_one(Quotas::of_an_account()));
    let function = fleet.function_with(&HALF).await;

    let (done, report) = tokio::join!(
        async {
            while fleet.addresses("prod", "web-0").is_empty() {
                sleep(Duration::from_millis(100)).await;
            }
            fleet.addresses("prod", "a-bulk").len()
        },
        sync(&function),
    );

    assert_eq!(report.counts.registered, 401, "{}", report.counts);
    assert!(done < 200, "{done} of the 400 were registered before it");
}

/// How long an operation takes is learnt for each kind by itself.
#[tokio::test(start_paused = true)]
async fn registrations_and_deregistrations_are_timed_apart() {
    let fleet = services(1, 20).await;
    let operations_take = |operation_delay| {
        fleet.cloud_map.behave(Behaviour { operation_delay, ..Behaviour::default() });
    };
    let function = fleet.function().await;
    operations_take(Duration::from_secs(3));
    assert_eq!(sync(&function).await.counts.registered, 20);

    operations_take(Duration::from_millis(50));
    fleet.pods("web-0", &["10.1.0.1", "10.1.0.2"]);
    fleet.cloud_map.forget_calls();
    let start = Instant::now();
    let report = sync(&function).await;
    assert_eq!(report.counts.deregistered, 18, "{report}");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(fleet.cloud_map.count("GetOperation"), 18);
}
