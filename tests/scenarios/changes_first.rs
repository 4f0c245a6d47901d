//! A process that has synced before registers what has changed before it reads the rest of Cloud Map. Time stands still
//! in these tests but for waiting, so that what they measure is what was waited for.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::model::{Outcome, Verb};
use tokio::time::{Instant, sleep};

use crate::fleet::{Fleet, refs};
use crate::limits::{HALF, like_the_real_one};
use crate::run::{converge, converged, held_back, problem, sync, synced};
use testbed::cloud_map::{Fault, FaultKind, ServiceKind};

const INVALID: FaultKind = FaultKind::Error(400, "InvalidInput", "no such port");

/// So many Services with these pods each in step, and a process with the default share of the rates that has seen that.
pub async fn in_step(services: usize, pods: &[usize]) -> (Fleet, Function) {
    let fleet = Fleet::start().await;
    for service in 0..services {
        let pods: Vec<String> = pods.iter().map(|pod| address(service, *pod)).collect();
        fleet.web(&format!("web-{service}"), "prod", &refs(&pods));
    }
    converge(&fleet, &fleet.function_with(&[("QUOTA_SHARE", "1000")]).await).await;
    let function = fleet.function_with(&HALF).await;
    sync(&function).await;
    fleet.cloud_map.behave(like_the_real_one());
    // The tokens of its rates are those of a process that has rested for a minute.
    minute(&fleet).await;
    fleet.cloud_map.forget_calls();
    (fleet, function)
}

/// Lets a minute pass.
pub async fn minute(fleet: &Fleet) {
    sleep(Duration::from_mins(1)).await;
    fleet.clock.advance(Duration::from_mins(1));
}

fn address(service: usize, pod: usize) -> String {
    format!("10.{}.{}.{pod}", service / 250, service % 250)
}

/// The time until an address is registered.
pub async fn registered(fleet: &Fleet, service: &str, address: &str) -> Duration {
    let start = Instant::now();
    while !fleet.addresses("prod", service).iter().any(|it| it == address) {
        sleep(Duration::from_millis(50)).await;
    }
    start.elapsed()
}

/// So many reads take so many seconds by the rates, and a process without this order registered after them.
#[tokio::test(start_paused = true)]
async fn new_pod_is_registered_within_three_seconds_however_long_the_rest_takes() {
    // Of 1,000 there is time for 500, and the one that has changed may not be among them.
    for (services, reads, seconds) in [(250, 250..=250, 9), (1000, 500..=501, 19)] {
        let (fleet, function) = in_step(services, &[1]).await;
        let new = address(7, 3);
        fleet.pods("web-7", &[&address(7, 1), &new]);
        let start = Instant::now();

        let (registered, report) = tokio::join!(registered(&fleet, "web-7", &new), sync(&function));

        assert!(registered < Duration::from_secs(3), "{services}: {registered:?}");
        assert_eq!((report.counts.registered, report.ok), (1, true), "{report}");
        // The rest is read all the same, and each service once.
        assert!(start.elapsed() > Duration::from_secs(seconds), "{:?}", start.elapsed());
        assert!(reads.contains(&fleet.cloud_map.count("ListInstances")));
        assert_eq!(fleet.cloud_map.throttled(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn replaced_pod_is_registered_before_the_rest_is_read_and_removed_after_it() {
    let (fleet, function) = in_step(200, &[1, 2]).await;
    fleet.pods("web-7", &[&address(7, 1), &address(7, 3)]);

    let report = sync(&function).await;

    assert_eq!((report.counts.registered, report.counts.deregistered), (1, 1), "{report}");
    let made: Vec<_> = fleet.cloud_map.calls().into_iter().map(|call| call.operation).collect();
    let reads_before = |operation: &str| {
        let before = made.iter().take_while(|it| *it != operation);
        before.filter(|it| *it == "ListInstances").count()
    };
    assert!(reads_before("RegisterInstance") < 50, "{made:?}");
    // Every service once, and the one with the change again.
    assert_eq!(reads_before("DeregisterInstance"), 201);
    assert_eq!(fleet.cloud_map.count("ListInstances"), 201);
    assert_eq!(fleet.cloud_map.count("ListServices"), 2);
}

/// The run compares the cluster as it was when it began.
#[tokio::test(start_paused = true)]
async fn pod_that_ends_while_the_rest_is_read_leaves_with_the_next_sync() {
    let (fleet, function) = in_step(250, &[1, 2]).await;
    let new = address(7, 3);
    fleet.pods("web-7", &[&address(7, 1), &address(7, 2), &new]);
    let ends = async {
        registered(&fleet, "web-7", &new).await;
        sleep(Duration::from_secs(1)).await;
        fleet.pods("web-7", &[&address(7, 1), &address(7, 2)]);
    };

    let ((), report) = tokio::join!(ends, synced(&function));

    assert_eq!((report.counts.registered, report.counts.deregistered), (1, 0), "{report}");
    let report = synced(&function).await;
    assert_eq!(report.counts.deregistered, 1, "{report}");
    assert_eq!(fleet.addresses("prod", "web-7"), [address(7, 1), address(7, 2)]);
}

#[tokio::test(start_paused = true)]
async fn every_pod_of_every_service_replaced_is_no_loss() {
    let (fleet, function) = in_step(30, &[1, 2]).await;
    for service in 0..30 {
        fleet.pods(&format!("web-{service}"), &refs(&[3, 4].map(|pod| address(service, pod))));
    }

    let report = sync(&function).await;

    assert_eq!((report.counts.registered, report.counts.deregistered), (60, 60), "{report}");
    assert!(report.clusters[0].guard.is_none(), "{report}");
    assert_eq!(fleet.addresses("prod", "web-29"), [address(29, 3), address(29, 4)]);
}

#[tokio::test(start_paused = true)]
async fn registrations_are_reported_although_the_rest_could_not_be_read() {
    let (fleet, function) = in_step(20, &[1, 2]).await;
    fleet.pods("web-7", &[&address(7, 1), &address(7, 2), &address(7, 3)]);
    fleet.cloud_map.deny("ListServices");

    let report = sync(&function).await;

    assert!(!report.ok && problem(&report, "blue").contains("ListServices"), "{report}");
    let lines = report.clusters[0].all_lines().filter(|line| line.is_change());
    let changes: Vec<_> = lines.map(|line| (line.verb(), &line.outcome)).collect();
    assert_eq!(changes, [(Some(Verb::Register), &Outcome::Applied)]);
    assert_eq!(fleet.addresses("prod", "web-7").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn registration_that_is_refused_is_not_tried_again_by_the_rest_of_the_sync() {
    let (fleet, function) = in_step(20, &[1, 2]).await;
    fleet.pods("web-7", &[&address(7, 1), &address(7, 2), &address(7, 3)]);
    fleet.cloud_map.inject(Fault::on("RegisterInstance", INVALID).always());

    let report = sync(&function).await;

    assert_eq!(fleet.cloud_map.count("RegisterInstance"), 1, "{report}");
    assert_eq!(report.counts.held_back, 1, "{report}");
}

#[tokio::test(start_paused = true)]
async fn new_service_is_created_and_registered_before_the_rest_is_read() {
    let (fleet, function) = in_step(250, &[1]).await;
    fleet.web("new", "prod", &["10.9.0.1", "10.9.0.2"]);
    let start = Instant::now();

    let (registered, report) = tokio::join!(registered(&fleet, "new", "10.9.0.1"), sync(&function));

    assert!(registered < Duration::from_secs(5), "{registered:?}");
    assert!(start.elapsed() > Duration::from_secs(9), "{:?}", start.elapsed());
    assert_eq!((report.counts.created, report.counts.registered), (1, 2), "{report}");
    let count = |operation| fleet.cloud_map.count(operation);
    assert_eq!((count("CreateService"), count("RegisterInstance")), (1, 2));
    assert_eq!((count("ListInstances"), count("ListServices")), (250, 3));
    assert!(sync(&function).await.ok);
    assert_eq!((count("CreateService"), count("RegisterInstance")), (1, 2));
}

#[tokio::test]
async fn name_that_another_process_registered_for_a_service_with_a_mistake_is_not_given_away() {
    let fleet = Fleet::with_web("web", "prod", &[]).await;
    fleet.cloud_map.service(&fleet.http, "web", ServiceKind::Http);
    let function = fleet.function().await;
    sync(&function).await;
    fleet.pods("web", &["10.0.1.1"]);
    converged(&fleet).await;
    fleet.annotate("web", "ttl", "soon");
    fleet.web("api", "prod", &["10.0.2.1"]);
    fleet.annotate("api", "hostname", "web");

    let report = sync(&function).await;

    assert_eq!(held_back(&report), ["BadAnnotation", "DomainConflict"], "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}
