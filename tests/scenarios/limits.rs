//! Cloud Map's limits: 1,000 instances in a service, counted beforehand, and in a namespace the account's quota, which
//! only a refused registration shows. The instances of others count as well.
//!
//! Under the rates of an account: as fast as they allow, and no faster, so that others can work beside it. Time
//! stands still in these tests but for waiting, so that what they measure is what was waited for.

use std::collections::BTreeSet;
use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::report::Report;
use tokio::time::{Instant, sleep};

use crate::fleet::{Fleet, annotated, ips, refs};
use crate::run::{
    converge, converged, held_back, plan, said_of, settled, sync, sync_service, synced, writes,
};
use testbed::cloud_map::{Behaviour, Fault, FaultKind, NamespaceKind, Quotas, ServiceKind};

/// So many addresses, from a number on.
fn addresses(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|index| format!("10.1.{}.{}", index / 250, index % 250)).collect()
}

/// Gives a Service of `shop`, which claims its own name in `prod`, so many pods from a number on.
fn give(fleet: &Fleet, service: &str, from: usize, count: usize) {
    fleet.service(annotated(service, "prod", service));
    fleet.pods(service, &refs(&addresses(from, count)));
}

/// A service of `prod` with so many tasks of ECS.
fn tasks(fleet: &Fleet, name: &str, count: usize) -> String {
    let service = fleet.cloud_map.service(&fleet.http, name, ServiceKind::Http);
    for index in 0..count {
        let address = format!("10.200.{}.{}", index / 250, index % 250);
        fleet.ecs_task(&service, &format!("{index:032x}"), &address);
    }
    service
}

/// Each namespace takes so few instances.
fn limit(fleet: &Fleet, instances: usize) {
    fleet.cloud_map.adjust(|it| it.instances_per_namespace = instances);
}

fn ours(fleet: &Fleet, service: &str) -> BTreeSet<String> {
    fleet.instances("prod", service).into_keys().filter(|id| id.starts_with("ip-")).collect()
}

/// The changes in order, equal ones that follow one another counted.
fn counted_writes(fleet: &Fleet) -> Vec<String> {
    let writes = writes(fleet);
    let runs = writes.chunk_by(|one, other| one == other);
    runs.map(|run| format!("{} {}", run.len(), run[0])).collect()
}

#[tokio::test]
async fn rolling_update_of_a_full_service_registers_under_the_ids_that_go() {
    let fleet = Fleet::start().await;
    tasks(&fleet, "web", 990);
    give(&fleet, "web", 0, 10);
    let function = converged(&fleet).await;

    give(&fleet, "web", 5, 8);
    let planned = plan(&function).await.to_string();
    assert!(planned.contains("10.1.0.10 (pod web-10-1-0-10) in place of "), "{planned}");
    fleet.cloud_map.forget_calls();
    let report = sync(&function).await;

    assert!(report.ok && held_back(&report).is_empty(), "{report}");
    assert_eq!(counted_writes(&fleet), ["3 RegisterInstance web", "2 DeregisterInstance web"]);
    let found: BTreeSet<String> = ours_at(&fleet, "web").into_iter().collect();
    assert_eq!(found, addresses(5, 8).into_iter().collect());
    settled(&fleet, &function).await;
}

/// 60 tasks of ECS and 8 Services with 5 pods each in a namespace that takes no more: all pods are replaced.
#[tokio::test]
async fn all_pods_of_a_full_namespace_are_replaced_by_one_full_sync() {
    let (fleet, function) = full_namespace().await;
    for index in 0..8 {
        give(&fleet, &format!("s{index}"), 200 + 5 * index, 5);
    }
    let report = sync(&function).await;

    assert!(report.ok && report.clusters[0].guard.is_none(), "{report}");
    for index in 0..8 {
        let found = ours_at(&fleet, &format!("s{index}"));
        assert_eq!(found, addresses(200 + 5 * index, 5), "{report}");
    }
    assert_eq!(refused(&fleet), 1);
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn message_in_a_full_namespace_replaces_the_pods_of_its_service() {
    let (fleet, function) = full_namespace().await;
    give(&fleet, "s3", 200, 5);
    let report = sync_service(&function, "s3").await;

    assert!(report.ok && held_back(&report).is_empty(), "{report}");
    assert_eq!((ours_at(&fleet, "s3"), refused(&fleet)), (addresses(200, 5), 1), "{report}");
    settled(&fleet, &function).await;
}

/// The count of Cloud Map lags behind what was deregistered: nothing is lost by it.
#[tokio::test]
async fn refusal_by_a_count_that_lags_takes_no_instance_out() {
    let (fleet, function) = full_namespace().await;
    limit(&fleet, 2000);
    let full = FaultKind::Error(400, "ResourceLimitExceeded", "too many instances");
    fleet.cloud_map.inject(Fault::on("RegisterInstance", full));
    give(&fleet, "s0", 200, 5);
    give(&fleet, "s1", 205, 8);

    let report = sync(&function).await;
    assert_eq!((report.ok, held_back(&report)), (true, vec!["LimitExceeded"]), "{report}");
    assert!(said_of(&report, "LimitExceeded").contains("too many instances"), "{report}");
    assert_eq!(ours(&fleet, "s0").len() + ours(&fleet, "s1").len(), 10);
    converge(&fleet, &function).await;
    assert_eq!(ours_at(&fleet, "s1"), addresses(205, 8));
}

#[tokio::test]
async fn full_namespace_is_asked_once_a_run_and_nothing_is_written_in_step() {
    let (fleet, function) = full_namespace().await;
    for index in 0..8 {
        give(&fleet, &format!("s{index}"), 5 * index, 9);
    }
    for _ in 0..3 {
        fleet.cloud_map.forget_calls();
        let report = synced(&function).await;
        assert_eq!(held_back(&report), ["LimitExceeded"; 8], "{report}");
        assert_eq!((writes(&fleet).len(), refused(&fleet)), (1, 1), "{:?}", writes(&fleet));
        // Each of the eight groups reads its name when it begins, before the comparison and after it.
        assert!(fleet.cloud_map.count("ListInstances") <= 9 + 2 * 8);
    }
    // A place that comes free is taken by the next run.
    limit(&fleet, 102);
    sync(&function).await;
    let registered: usize = (0..8).map(|index| ours(&fleet, &format!("s{index}")).len()).sum();
    assert_eq!(registered, 42);
}

/// A namespace with 60 tasks of ECS and 8 Services of 5 pods each, which takes no more.
async fn full_namespace() -> (Fleet, Function) {
    let fleet = Fleet::start().await;
    tasks(&fleet, "legacy", 60);
    for index in 0..8 {
        give(&fleet, &format!("s{index}"), 5 * index, 5);
    }
    let function = converged(&fleet).await;
    limit(&fleet, 100);
    (fleet, function)
}

/// The addresses of our instances.
fn ours_at(fleet: &Fleet, service: &str) -> Vec<String> {
    let mut all = fleet.addresses("prod", service);
    all.retain(|address| !address.starts_with("10.200."));
    all
}

/// How many registrations were refused.
fn refused(fleet: &Fleet) -> usize {
    let calls = fleet.cloud_map.calls().into_iter();
    calls.filter(|call| call.operation == "RegisterInstance" && call.status == 400).count()
}

#[tokio::test]
async fn limit_that_also_refuses_a_pod_under_the_id_of_another_one_is_reported() {
    let (fleet, function) = Fleet::in_step("web", "prod", &["10.0.1.1"]).await;
    fleet.pods("web", &["10.0.1.2"]);
    let full = FaultKind::Error(400, "ResourceLimitExceeded", "The limit is reached");
    fleet.cloud_map.inject(Fault::on("RegisterInstance", full).always());

    let report = sync(&function).await;

    assert!(report.to_string().contains("The limit is reached"), "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
    fleet.cloud_map.heal();
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.2"]);
}

/// The default.
pub const HALF: [(&str, &str); 1] = [("QUOTA_SHARE", "0.5")];

/// Cloud Map as it is: 20 ms a call, two seconds an operation, an account's rates.
pub fn like_the_real_one() -> Behaviour {
    Behaviour {
        latency: Duration::from_millis(20),
        operation_delay: Duration::from_secs(2),
        quotas: Some(Quotas::of_an_account()),
        ..Behaviour::default()
    }
}

/// A world of so many Services with so many pods each, nothing registered.
async fn services(services: usize, pods: usize) -> Fleet {
    let fleet = Fleet::start().await;
    for service in 0..services {
        let addresses = ips(&format!("10.1.{service}"), 0..pods);
        fleet.web(&format!("web-{service}"), "prod", &refs(&addresses));
    }
    fleet
}

/// A full sync that takes little longer than the rates alone force for its calls.
async fn sync_at_the_rates(fleet: &Fleet, function: &Function) -> Report {
    let start = Instant::now();
    let report = sync(function).await;
    let took = start.elapsed();
    let forced = fleet.cloud_map.forced_time();
    assert!(took < forced.mul_f64(1.25), "{took:?}, and the rates force {forced:?}");
    report
}

pub fn assert_throttled_less_than_one_in(share: usize, fleet: &Fleet) {
    let calls = fleet.cloud_map.calls().len();
    let throttled = fleet.cloud_map.throttled();
    assert!(throttled * share < calls, "{throttled} of {calls} calls throttled");
}

#[tokio::test(start_paused = true)]
async fn first_sync_takes_little_longer_than_the_rates_force_and_is_hardly_ever_throttled() {
    let fleet = services(100, 10).await;
    fleet.cloud_map.behave(like_the_real_one());
    let function = fleet.function_with(&[("QUOTA_SHARE", "1")]).await;

    let report = sync_at_the_rates(&fleet, &function).await;

    assert_eq!((report.counts.registered, report.ok), (1000, true), "{}", report.counts);
    assert_throttled_less_than_one_in(100, &fleet);
}

#[tokio::test(start_paused = true)]
async fn new_process_right_after_another_is_hardly_ever_throttled() {
    let fleet = services(200, 1).await;
    fleet.cloud_map.behave(like_the_real_one());
    let whole = [("QUOTA_SHARE", "1")];
    sync(&fleet.function_with(&whole).await).await;
    sync(&fleet.function_with(&whole).await).await;
    let function = fleet.function_with(&whole).await;
    fleet.cloud_map.forget_calls();

    let report = sync_at_the_rates(&fleet, &function).await;

    assert_eq!((report.counts.unchanged, report.ok), (200, true), "{}", report.counts);
    assert_throttled_less_than_one_in(50, &fleet);
}

#[tokio::test(start_paused = true)]
async fn instances_are_read_while_the_lists_of_services_still_go_on() {
    let fleet = Fleet::start().await;
    for namespace in 0..6 {
        let name = format!("prod-{namespace}");
        fleet.cloud_map.namespace(&name, NamespaceKind::Http);
        for service in 0..50 {
            let address = format!("10.1.{namespace}.{service}");
            fleet.web(&format!("web-{namespace}-{service}"), &name, &[&address]);
        }
    }
    converge(&fleet, &fleet.function_with(&[("QUOTA_SHARE", "1000")]).await).await;
    // The lists take 15 s, the instances 5 s.
    fleet.cloud_map.behave(Behaviour { page_limit: 50, ..like_the_real_one() });
    let function = fleet.function_with(&[("QUOTA_SHARE", "1")]).await;

    let report = sync_at_the_rates(&fleet, &function).await;

    assert_eq!((report.counts.unchanged, report.ok), (300, true), "{}", report.counts);
}

#[tokio::test(start_paused = true)]
async fn with_half_of_the_rates_a_writer_beside_the_first_sync_is_never_throttled() {
    let fleet = services(60, 10).await;
    fleet.cloud_map.behave(like_the_real_one());
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

    assert_eq!(report.counts.registered, 600, "{}", report.counts);
    assert_eq!(fleet.cloud_map.throttled(), 0);
}

#[tokio::test(start_paused = true)]
async fn service_with_one_new_pod_does_not_wait_for_one_with_hundreds() {
    let fleet = services(1, 1).await;
    fleet.web("a-bulk", "prod", &refs(&addresses(250, 400)));
    fleet.cloud_map.behave(like_the_real_one());
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
