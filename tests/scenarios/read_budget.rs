//! A Cloud Map that is too large for the time of a sync: each process reads three services in a run, and those that
//! changes rest on. What it knows by older reads may hold a loss, and never makes a change.

use std::collections::BTreeSet;
use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::model::GuardState;
use cloud_map_sync::report::Report;
use serde_json::json;

use crate::fleet::{Fleet, annotated, give_pods, pod_name, web_of};
use crate::queue::{batch_about, failed_messages};
use crate::run::{converge, held_back, metric, report, settled, sync, writes};
use testbed::clock::StandInClock;
use testbed::cloud_map::{RecordType, ServiceKind};
use testbed::function::invoke;
use testbed::kubernetes::Pod;

/// The Services of the fleet, each with two pods.
const SERVICES: usize = 12;
/// The services that a run reads, and with those that were never read, or seem to have changed.
const READS: usize = 3;
const FIRST: usize = 7;
/// The runs in which each service is read.
const ROUND: usize = SERVICES / READS;

/// All Services in step.
struct Large {
    fleet: Fleet,
    clock: StandInClock,
}

impl Large {
    async fn start() -> Self {
        let fleet = Fleet::start().await;
        for service in 0..SERVICES {
            fleet.web(&name(service), "prod", &[&address(service, 1), &address(service, 2)]);
        }
        let large = Self { fleet, clock: StandInClock::new() };
        converge(&large.fleet, &large.whole().await).await;
        large
    }

    /// A process that has the time to read everything.
    async fn whole(&self) -> Function {
        self.fleet.function().await.with_clock(self.clock.clock())
    }

    /// A process that does not, and knows nothing yet.
    async fn cold(&self) -> Function {
        self.whole().await.with_most_reads(READS)
    }

    /// The same once it has read each service.
    async fn warm(&self) -> Function {
        let function = self.cold().await;
        for _ in 0..ROUND {
            sync(&function).await;
        }
        self.fleet.cloud_map.forget_calls();
        function
    }

    /// Another party puts an instance in place of one of ours.
    fn replace(&self, service: usize) {
        let (name, foreign) = (name(service), [("AWS_INSTANCE_IPV4", "10.9.9.9")]);
        let id = self.fleet.cloud_map.service_id("prod", &name);
        let instance = self.fleet.instances("prod", &name).into_keys().next().expect("one");
        self.fleet.cloud_map.withdraw(&id, &instance);
        self.fleet.cloud_map.instance(&id, "of-another", &foreign);
    }

    /// The pods of all Services are gone.
    fn empty(&self) {
        (0..SERVICES).for_each(|service| self.fleet.pods(&name(service), &[]));
    }

    fn registered(&self) -> usize {
        (0..SERVICES).map(|service| self.fleet.addresses("prod", &name(service)).len()).sum()
    }

    fn reads(&self) -> usize {
        self.fleet.cloud_map.count("ListInstances")
    }
}

pub fn name(service: usize) -> String {
    format!("web-{service:02}")
}

pub fn address(service: usize, pod: usize) -> String {
    format!("10.0.{service}.{pod}")
}

pub fn unread(report: &Report) -> usize {
    report.clusters[0].unread
}

#[tokio::test]
async fn each_service_is_read_once_in_a_round_and_the_report_says_what_is_old() {
    let large = Large::start().await;
    let function = large.cold().await;
    large.fleet.cloud_map.forget_calls();

    for left in [SERVICES - FIRST, 0] {
        let report = sync(&function).await;
        assert_eq!((report.ok, unread(&report)), (true, left), "{report}");
        assert_eq!(metric(&report, "Unread"), (left > 0).then_some(left as u64));
        large.clock.advance(Duration::from_mins(1));
    }
    assert_eq!(large.reads(), SERVICES);
    let calls = large.fleet.cloud_map.calls();
    let read = calls.iter().filter(|it| it.operation == "ListInstances");
    let read: BTreeSet<_> = read.filter_map(|it| it.service.clone()).collect();
    assert_eq!(read.len(), SERVICES);

    let report = sync(&function).await;
    assert_eq!(
        (large.reads(), report.clusters[0].oldest_read),
        (SERVICES + READS, 120),
        "{report}"
    );
    let text = report.to_string();
    assert!(text.contains("0 Cloud Map services not read yet; the oldest read is 120 s"), "{text}");
    let fresh = self::report(&function, &json!({ "action": "sync", "fresh": true })).await;
    assert_eq!(large.reads(), 2 * SERVICES + READS);
    assert_eq!((unread(&fresh), fresh.clusters[0].oldest_read), (0, 0), "{fresh}");
    assert_eq!(large.fleet.cloud_map.writes(), 0);
}

#[tokio::test]
async fn drift_that_changes_no_number_is_repaired_within_a_round() {
    let large = Large::start().await;
    let function = large.warm().await;
    for service in [0, 5, 11] {
        large.replace(service);
    }

    for _ in 0..ROUND {
        assert!(sync(&function).await.ok);
    }

    assert_eq!(large.registered(), 2 * SERVICES + 3);
    assert_eq!(large.fleet.cloud_map.count("RegisterInstance"), 3);
    settled(&large.fleet, &function).await;
}

#[tokio::test]
async fn drift_that_changes_a_number_is_repaired_by_the_next_sync() {
    let large = Large::start().await;
    let function = large.warm().await;
    let lost = name(11);
    let id = large.fleet.cloud_map.service_id("prod", &lost);
    let instance = large.fleet.instances("prod", &lost).into_keys().next().expect("one");
    large.fleet.cloud_map.withdraw(&id, &instance);

    let report = sync(&function).await;

    assert_eq!((report.counts.registered, large.registered()), (1, 2 * SERVICES), "{report}");
}

#[tokio::test]
async fn change_of_the_cluster_is_made_by_the_next_sync_whatever_is_due() {
    let large = Large::start().await;
    let function = large.warm().await;
    large.fleet.pods(&name(0), &[&address(0, 1), &address(0, 3)]);
    large.fleet.pods(&name(6), &[&address(6, 1)]);
    large.fleet.cluster.delete_service("shop", &name(11));

    let report = sync(&function).await;

    assert_eq!((report.counts.registered, report.counts.deregistered), (1, 4), "{report}");
    assert_eq!(large.registered(), 2 * SERVICES - 3);
    assert!(large.reads() <= READS + 3 + 3, "{}", large.reads());
    sync(&function).await;
    settled(&large.fleet, &function).await;
}

#[tokio::test]
async fn emptied_cluster_is_held_as_a_whole() {
    let large = Large::start().await;
    let (warm, new) = (large.warm().await, large.cold().await);
    large.empty();

    for (function, known) in [(warm, SERVICES), (new, FIRST)] {
        large.fleet.cloud_map.forget_calls();
        let report = sync(&function).await;
        let guard = report.clusters[0].guard.as_ref().expect("a verdict");
        assert_eq!((guard.state, guard.loss), (GuardState::Held, 2 * known), "{report}");
        assert_eq!((report.counts.deregistered, large.registered()), (0, 2 * SERVICES));
        // A note needs a read of its instance.
        assert!(large.reads() <= FIRST + 1, "{} {known} {report}", large.reads());
        assert!(writes(&large.fleet).len() <= 1, "{:?}", writes(&large.fleet));
    }
}

/// Five pods are within the limits, and as many as were not read are not.
#[tokio::test]
async fn loss_among_services_that_were_never_read_waits_until_they_are() {
    let large = Large::start().await;
    let function = large.cold().await;
    (0..SERVICES).for_each(|service| large.fleet.pods(&name(service), &[&address(service, 1)]));

    let report = sync(&function).await;

    let guard = report.clusters[0].guard.as_ref().expect("a verdict");
    assert_eq!((guard.state, report.counts.deregistered), (GuardState::HeldUntilRead, 0));
    let report = sync(&function).await;
    assert_eq!((report.counts.deregistered, large.registered()), (SERVICES, SERVICES), "{report}");
}

#[tokio::test]
async fn held_loss_is_let_pass_after_its_wait() {
    let large = Large::start().await;
    let function = large.warm().await;
    large.empty();
    sync(&function).await;
    large.clock.advance(Duration::from_mins(10));

    let report = sync(&function).await;

    assert_eq!((report.counts.deregistered, large.registered()), (2 * SERVICES, 0), "{report}");
    settled(&large.fleet, &function).await;
}

#[tokio::test]
async fn loss_that_another_process_holds_passes_by_no_message() {
    let large = Large::start().await;
    let function = large.warm().await;
    assert!(sync(&function).await.ok);
    large.empty();
    sync(&large.whole().await).await;
    large.fleet.cloud_map.forget_calls();

    for service in 0..SERVICES {
        assert_eq!(failed_messages(&function, &name(service)).await, [""; 0]);
    }

    assert_eq!((large.registered(), large.fleet.cloud_map.writes()), (2 * SERVICES, 0));
}

#[tokio::test]
async fn loss_that_a_message_leaves_is_made_by_the_next_sync_and_is_no_verdict() {
    let large = Large::start().await;
    let function = large.warm().await;
    large.fleet.pods(&name(7), &[&address(7, 1)]);

    let answer = invoke(&function, &batch_about("blue", &name(7))).await;

    let left = answer.report.expect("a report");
    assert_eq!((held_back(&left), left.counts.deregistered), (vec!["Guard"], 0), "{left}");
    assert!(left.clusters[0].guard.is_none(), "{left}");
    let report = sync(&function).await;
    assert_eq!((report.counts.deregistered, large.registered()), (1, 2 * SERVICES - 1), "{report}");
}

#[tokio::test]
async fn message_about_a_deletion_returns_until_its_instances_may_be_known() {
    let large = Large::start().await;
    let function = large.cold().await;
    let gone = name(11);
    large.fleet.cluster.delete_service("shop", &gone);

    assert_eq!(failed_messages(&function, &gone).await, [gone.as_str()]);
    assert_eq!(failed_messages(&function, &gone).await, [""; 0]);
    sync(&function).await;
    assert_eq!(large.fleet.addresses("prod", &gone), [""; 0]);
}

#[tokio::test]
async fn service_that_may_not_be_read_is_read_as_seldom_as_others() {
    let large = Large::start().await;
    for other in ["aa", "ab", "ac", "ad"] {
        let service = large.fleet.cloud_map.service(&large.fleet.http, other, ServiceKind::Http);
        large.fleet.cloud_map.instance(&service, "of-others", &[("AWS_INSTANCE_IPV4", "10.9.9.9")]);
        large.fleet.cloud_map.deny_in(&service, "ListInstances");
    }
    let function = large.cold().await;
    for _ in 0..ROUND + 2 {
        sync(&function).await;
    }
    large.replace(11);

    for _ in 0..ROUND + 2 {
        sync(&function).await;
    }

    assert_eq!(large.registered(), 2 * SERVICES + 1);
}

#[tokio::test]
async fn service_that_is_made_again_under_its_id_is_filled_by_the_next_sync() {
    let large = Large::start().await;
    let function = large.warm().await;
    let id = large.fleet.cloud_map.service_id("prod", &name(11));
    large.fleet.cloud_map.remove_service(&id);
    assert_eq!(large.fleet.cloud_map.service(&large.fleet.http, &name(11), ServiceKind::Http), id);

    let report = sync(&function).await;

    assert_eq!((report.counts.registered, large.registered()), (2, 2 * SERVICES), "{report}");
}

/// Blue has read the names before green came under them, in the place of an instance of another party. A run reads three
/// of the six.
#[tokio::test]
async fn ttl_is_not_raised_by_an_old_read() {
    let fleet = Fleet::start().await;
    let names: Vec<String> = (0..2 * READS).map(name).collect();
    let mut services = Vec::new();
    for shared in &names {
        let service = fleet.dns_service(shared, &[RecordType::A]);
        fleet.cloud_map.instance(&service, "other", &[("AWS_INSTANCE_IPV4", "10.9.9.9")]);
        fleet.cloud_map.tag(&service, "cloud-map-sync/owner", crate::fleet::OWNER);
        fleet.web(shared, "prod.local", &["10.0.99.1"]);
        services.push(service);
    }
    let function = fleet.function().await.with_most_reads(READS);
    for _ in 0..=ROUND {
        sync(&function).await;
    }
    let green = fleet.green().await;
    for shared in &names {
        let claims = annotated(shared, "prod.local", shared);
        green.service(claims.annotate("cloudmap.controller/ttl", "15"));
        give_pods(&green, shared, &["10.0.99.2"]);
    }
    assert!(sync(&fleet.function_with(&[("CLUSTERS", "green")]).await).await.ok);
    for (shared, service) in names.iter().zip(&services) {
        fleet.cloud_map.withdraw(service, "other");
        fleet.annotate(shared, "ttl", "90");
    }

    for _ in 0..=ROUND {
        assert!(sync(&function).await.ok);
        for shared in &names {
            let view = fleet.view("prod.local", shared);
            assert_eq!(view.dns.expect("records").records[0].1, 15, "{shared}");
        }
    }
}

/// Services that a list shows as empty are read, since its counts lag, as many as a first read has time for.
#[tokio::test]
async fn claimed_services_without_instances_are_read_within_the_budget() {
    let large = Large::start().await;
    let function = large.warm().await;
    large.empty();
    let confirm = json!({ "action": "confirm" });
    assert!(self::report(&large.whole().await, &confirm).await.ok);
    for _ in 0..ROUND {
        sync(&function).await;
    }
    large.fleet.cloud_map.forget_calls();

    assert!(sync(&function).await.ok);
    assert!(large.reads() <= FIRST, "{}", large.reads());

    large.fleet.pods(&name(11), &[&address(11, 1)]);
    assert_eq!(sync(&function).await.counts.registered, 1);
    assert_eq!(large.registered(), 1);
}

/// The health of instances is as old as the read of the instances, and what differs is read.
#[tokio::test(start_paused = true)]
async fn health_is_read_with_the_instances_and_reported_by_the_next_sync() {
    let fleet = Fleet::start().await;
    for service in (0..SERVICES).map(name) {
        let custom = annotated(&service, "prod", &service);
        fleet.service(custom.annotate("cloudmap.controller/health", "custom"));
    }
    (0..SERVICES).for_each(|service| fleet.pods(&name(service), &[&address(service, 1)]));
    converge(&fleet, &fleet.function().await).await;
    let function = fleet.function().await.with_most_reads(READS);
    for _ in 0..ROUND {
        sync(&function).await;
    }
    fleet.cloud_map.forget_calls();

    assert!(sync(&function).await.ok);
    let count = |operation| fleet.cloud_map.count(operation);
    assert_eq!((count("GetInstancesHealthStatus"), fleet.cloud_map.writes()), (READS, 0));

    fleet.cloud_map.forget_calls();
    let address = address(11, 1);
    let pod = Pod::new(&pod_name(&name(11), &address), &address).not_ready();
    fleet.cluster.pods("shop", &name(11), &[pod]);
    let report = sync(&function).await;
    assert_eq!(count("UpdateInstanceCustomHealthStatus"), 1, "{report}");
    assert!(count("GetInstancesHealthStatus") <= READS + 2, "{report}");
}

/// The instances of a cluster that is gone are judged once all services were read, and each is read before it is removed.
/// The first run reads seven of eight services, so some of green, whatever their order.
#[tokio::test]
async fn orphans_are_not_judged_before_all_is_read() {
    let (fleet, green) = Fleet::with_green().await;
    (0..3).for_each(|service| fleet.web(&name(service), "prod", &[&address(service, 1)]));
    for service in 3..8 {
        web_of(&green, &name(service), "prod", &[&address(service, 1)]);
    }
    assert!(sync(&fleet.function_with(&[("CLUSTERS", "blue,green")]).await).await.ok);
    let function = fleet.function_with(&[("CLUSTERS", "blue")]).await.with_most_reads(READS);

    let report = sync(&function).await;
    assert_eq!((unread(&report), report.orphans.len()), (1, 0), "{report}");
    let report = sync(&function).await;
    assert_eq!((unread(&report), report.orphans.len()), (0, 1), "{report}");
    assert_eq!(report.orphans[0].instances, 5, "{report}");
}
