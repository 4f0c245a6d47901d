//! Nothing waits for the answer to another call.

use std::time::Duration;

use super::{
    MINUTE, begin, full_sync, give, in_step, is_registered, name, pass, seconds, until, warm,
};
use crate::fleet::{Fleet, ips, refs};
use crate::run::sync;
use testbed::cloud_map::{Fault, FaultKind};
use testbed::function::TIMEOUT;
use testbed::kubernetes::{Fault as ClusterFault, FaultKind as ClusterFaultKind};

/// The registrations of one Cloud Map service are accepted and never answered. The twenty new pods of every other Service
/// are registered as if nothing had happened, in the same namespace and in another, whichever Service has its turn first.
#[tokio::test(start_paused = true)]
async fn registration_that_hangs_delays_no_other_service() {
    for namespace in ["prod", "prod.local"] {
        let fleet = Fleet::start().await;
        fleet.web("hung", "prod", &["10.1.0.1"]);
        fleet.web("other", namespace, &["10.2.0.1"]);
        begin(&fleet).await;
        let function = warm(&fleet).await;
        let hung = fleet.cloud_map.service_id("prod", "hung");
        let silence = Fault::on("RegisterInstance", FaultKind::Silence(10 * MINUTE));
        fleet.cloud_map.inject(silence.service(&hung).always());
        for turn in 1..=4 {
            pass(&fleet, MINUTE).await;
            let count = 20 * turn + 1;
            fleet.pods("hung", &refs(&ips("10.1.0", 1..=10 * turn + 1)));
            fleet.pods("other", &refs(&ips("10.2.0", 1..=count)));

            let registered = until(|| fleet.addresses(namespace, "other").len() == count);
            let (took, report) = tokio::join!(registered, full_sync(&function, TIMEOUT));

            let found = fleet.addresses(namespace, "other").len();
            let late = format!("{found} of {count} registered by the sync, all after {took:?}");
            assert!(took < seconds(3), "{namespace}, run {turn}: {late}: {}", report.counts);
        }
    }
}

/// Every answer of the API server takes 100 ms. Each of 200 Services has one new pod. They are registered at the rate
/// of the function's share, 25 a second.
#[tokio::test(start_paused = true)]
async fn api_server_that_answers_after_100_ms_lets_registrations_go_at_the_rate() {
    let fleet = in_step(200, &[1]).await;
    let function = warm(&fleet).await;
    let slow = ClusterFaultKind::Slow(Duration::from_millis(100));
    fleet.cluster.fail(ClusterFault::always("/", slow));
    (0..200).for_each(|service| give(&fleet, service, &[1, 2]));

    let registered = until(|| (0..200).all(|service| is_registered(&fleet, service, 2)));
    let (took, report) = tokio::join!(registered, sync(&function));

    let most = seconds(200 / 25).mul_f64(1.25) + seconds(1);
    let count = report.counts.registered;
    assert!(took < most, "{count} registered by the sync, all after {took:?}, at most {most:?}");
}

/// The pods of 300 Services are replaced, whose names take 12 s to be read. A plan is fresh for five seconds, so a sync
/// that reads all of them before it acts would never have a fresh plan.
#[tokio::test(start_paused = true)]
async fn names_that_take_longer_to_read_than_a_plan_is_fresh_are_registered_as_they_are_read() {
    let fleet = in_step(300, &[1]).await;
    let function = warm(&fleet).await;
    (0..300).for_each(|service| give(&fleet, service, &[2]));

    let first = until(|| fleet.cloud_map.count("RegisterInstance") > 0);
    let all = until(|| (0..300).all(|service| is_registered(&fleet, service, 2)));
    let (first, all, report) = tokio::join!(first, all, sync(&function));

    assert!(first < seconds(3), "the first is registered after {first:?}");
    assert!(all < seconds(12).mul_f64(1.25) + seconds(1), "all are registered after {all:?}");
    assert_eq!((report.ok, report.counts.deregistered), (true, 300), "{}", report.counts);
    assert_eq!(fleet.addresses("prod", &name(299)), ["10.1.49.2"]);
    assert_eq!(fleet.cloud_map.throttled(), 0);
}

/// The ListInstances of one name takes a minute to answer. Its Service waits, and no other does.
#[tokio::test(start_paused = true)]
async fn read_that_hangs_delays_no_other_service() {
    let fleet = in_step(20, &[1]).await;
    let function = warm(&fleet).await;
    let hung = fleet.cloud_map.service_id("prod", &name(0));
    let late = Fault::on("ListInstances", FaultKind::Late(MINUTE));
    fleet.cloud_map.inject(late.service(&hung).always());
    (0..20).for_each(|service| give(&fleet, service, &[1, 2]));

    let registered = until(|| (1..20).all(|service| is_registered(&fleet, service, 2)));
    let (took, report) = tokio::join!(registered, sync(&function));

    assert!(took < seconds(3), "{took:?}: {report}");
}

/// The same of a removal: the pod of another Service has ended, and its address leaves meanwhile.
#[tokio::test(start_paused = true)]
async fn registration_that_hangs_delays_no_removal_of_another_service() {
    let fleet = in_step(20, &[1, 2]).await;
    let function = warm(&fleet).await;
    let hung = fleet.cloud_map.service_id("prod", &name(0));
    let late = Fault::on("RegisterInstance", FaultKind::Late(MINUTE));
    fleet.cloud_map.inject(late.service(&hung).always());
    give(&fleet, 0, &[1, 2, 3]);
    give(&fleet, 7, &[1]);

    let removed = until(|| !is_registered(&fleet, 7, 2));
    let (took, report) = tokio::join!(removed, sync(&function));

    assert!(took < seconds(5), "{took:?}: {report}");
}

/// CreateService of one name takes a minute to answer. The other new Services are created and registered meanwhile.
#[tokio::test(start_paused = true)]
async fn creation_that_hangs_delays_no_other_service() {
    let fleet = in_step(5, &[1]).await;
    let function = warm(&fleet).await;
    let late = Fault::on("CreateService", FaultKind::Late(MINUTE)).service("new-0");
    fleet.cloud_map.inject(late.always());
    for new in 0..5 {
        fleet.web(&format!("new-{new}"), "prod", &[&format!("10.9.0.{new}")]);
    }

    let is_done = |new| !fleet.addresses("prod", &format!("new-{new}")).is_empty();
    let registered = until(|| (1..5).all(is_done));
    let (took, report) = tokio::join!(registered, sync(&function));

    assert!(took < seconds(5), "{took:?}: {report}");
}
