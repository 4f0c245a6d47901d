//! A Cloud Map that is too large for the time of a sync: each process reads three services in a run, and those that
//! changes rest on. What it knows by older reads may hold a loss, and never makes a change.

use std::collections::BTreeSet;
use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::model::GuardState;
use cloud_map_sync::report::Report;
use serde_json::json;

use crate::fleet::{Fleet, annotated, give_pods, web_of};
use crate::queue::{batch_about, failed_messages};
use crate::run::{converged, held_back, metric, report, settled, sync, writes};
use testbed::cloud_map::{Fault, FaultKind, RecordType, ServiceKind};
use testbed::function::invoke;

/// The Services of the fleet, each with two pods.
pub const SERVICES: usize = 12;
/// The services that a run reads for their age, and with those that are due now.
pub const READS: usize = 3;
const FIRST: usize = 7;
/// The runs in which each service is read.
const ROUND: usize = SERVICES / READS;

/// All Services in step.
pub async fn large() -> Fleet {
    let fleet = Fleet::start().await;
    for service in 0..SERVICES {
        fleet.web(&name(service), "prod", &[&address(service, 1), &address(service, 2)]);
    }
    converged(&fleet).await;
    fleet
}

/// A process that has no time to read everything, and knows nothing yet.
pub async fn cold(fleet: &Fleet) -> Function {
    fleet.function().await.with_max_instance_reads(READS)
}

/// The same once it has read each service.
async fn warm(fleet: &Fleet) -> Function {
    after(fleet, ROUND).await
}

/// The same after a number of full syncs. From here on the calls to Cloud Map are counted anew.
pub async fn after(fleet: &Fleet, syncs: usize) -> Function {
    let function = cold(fleet).await;
    for _ in 0..syncs {
        sync(&function).await;
    }
    fleet.cloud_map.forget_calls();
    function
}

/// Another party puts an instance in place of one of ours.
pub fn replace(fleet: &Fleet, service: usize) {
    let name = name(service);
    let foreign = [("AWS_INSTANCE_IPV4", "10.9.9.9")];
    let id = fleet.cloud_map.service_id("prod", &name);
    let instance = fleet.instances("prod", &name).into_keys().next().expect("one");
    fleet.cloud_map.withdraw(&id, &instance);
    fleet.cloud_map.instance(&id, "of-another", &foreign);
}

/// The pods of all Services are gone.
fn empty(fleet: &Fleet) {
    (0..SERVICES).for_each(|service| fleet.pods(&name(service), &[]));
}

fn registered(fleet: &Fleet) -> usize {
    (0..SERVICES).map(|service| fleet.addresses("prod", &name(service)).len()).sum()
}

fn reads(fleet: &Fleet) -> usize {
    fleet.cloud_map.count("ListInstances")
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
    let fleet = large().await;
    let function = cold(&fleet).await;

    for left in [SERVICES - FIRST, 0] {
        let report = sync(&function).await;
        assert_eq!((report.ok, unread(&report)), (left == 0, left), "{report}");
        assert_eq!(metric(&report, "Unread"), (left > 0).then_some(left as u64));
        fleet.clock.advance(Duration::from_mins(1));
    }
    assert_eq!(reads(&fleet), SERVICES);
    let calls = fleet.cloud_map.calls();
    let read = calls.iter().filter(|it| it.operation == "ListInstances");
    let read: BTreeSet<_> = read.filter_map(|it| it.service.clone()).collect();
    assert_eq!(read.len(), SERVICES);

    let report = sync(&function).await;
    assert_eq!(
        (reads(&fleet), report.clusters[0].oldest_read),
        (SERVICES + READS, 120),
        "{report}"
    );
    let text = report.to_string();
    assert!(text.contains("0 Cloud Map services not read yet; the oldest read is 120 s"), "{text}");
    let fresh = self::report(&function, &json!({ "action": "sync", "fresh": true })).await;
    assert_eq!(reads(&fleet), 2 * SERVICES + READS);
    assert_eq!((unread(&fresh), fresh.clusters[0].oldest_read), (0, 0), "{fresh}");
    assert_eq!(fleet.cloud_map.writes(), 0);
}

#[tokio::test]
async fn drift_that_changes_a_number_is_repaired_by_the_next_sync() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    let lost = name(11);
    let id = fleet.cloud_map.service_id("prod", &lost);
    let instance = fleet.instances("prod", &lost).into_keys().next().expect("one");
    fleet.cloud_map.withdraw(&id, &instance);

    let report = sync(&function).await;

    assert_eq!((report.counts.registered, registered(&fleet)), (1, 2 * SERVICES), "{report}");
}

#[tokio::test]
async fn change_of_the_cluster_is_made_by_the_next_sync_whatever_is_due() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    fleet.pods(&name(0), &[&address(0, 1), &address(0, 3)]);
    fleet.pods(&name(6), &[&address(6, 1)]);
    fleet.cluster.delete_service("shop", &name(11));

    let report = sync(&function).await;

    assert_eq!((report.counts.registered, report.counts.deregistered), (1, 4), "{report}");
    assert_eq!(registered(&fleet), 2 * SERVICES - 3);
    assert!(reads(&fleet) <= READS + 3 + 3, "{}", reads(&fleet));
    sync(&function).await;
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn emptied_cluster_is_held_as_a_whole() {
    let fleet = large().await;
    let warm = warm(&fleet).await;
    let new = cold(&fleet).await;
    empty(&fleet);

    for (function, known) in [(warm, SERVICES), (new, FIRST)] {
        fleet.cloud_map.forget_calls();
        let report = sync(&function).await;
        let guard = report.clusters[0].guard.as_ref().expect("a verdict");
        assert_eq!((guard.state, guard.loss), (GuardState::Held, 2 * known), "{report}");
        assert_eq!((report.counts.deregistered, registered(&fleet)), (0, 2 * SERVICES));
        // A note needs no read of all that its Service has.
        assert!(reads(&fleet) <= FIRST + 1, "{} {known} {report}", reads(&fleet));
        assert!(writes(&fleet).len() <= known, "{:?}", writes(&fleet));
    }
}

/// Five pods are within the limits, and as many as were not read are not.
#[tokio::test]
async fn loss_among_services_that_were_never_read_waits_until_they_are() {
    let fleet = large().await;
    let function = cold(&fleet).await;
    (0..SERVICES).for_each(|service| fleet.pods(&name(service), &[&address(service, 1)]));

    let report = sync(&function).await;

    let guard = report.clusters[0].guard.as_ref().expect("a verdict");
    assert_eq!((guard.state, report.counts.deregistered), (GuardState::HeldUntilRead, 0));
    let report = sync(&function).await;
    assert_eq!((report.counts.deregistered, registered(&fleet)), (SERVICES, SERVICES), "{report}");
}

/// Nothing of it is past the limits of the guard.
#[tokio::test]
async fn removal_before_all_services_were_read_waits_with_a_line() {
    let fleet = large().await;
    let function =
        fleet.function_with(&[("GUARD_MINIMUM", "1000")]).await.with_max_instance_reads(READS);
    (0..SERVICES).for_each(|service| fleet.pods(&name(service), &[&address(service, 1)]));

    let report = sync(&function).await;

    assert_eq!((report.counts.deregistered, registered(&fleet)), (0, 2 * SERVICES), "{report}");
    let reasons = BTreeSet::from_iter(held_back(&report));
    assert_eq!(reasons, BTreeSet::from(["Waiting"]), "{report}");
    let text = "stays until a full sync has read every Cloud Map service";
    assert!(report.to_string().contains(text), "{report}");
    sync(&function).await;
    assert_eq!(registered(&fleet), SERVICES);
}

#[tokio::test]
async fn held_loss_is_let_pass_after_its_wait() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    empty(&fleet);
    sync(&function).await;
    fleet.clock.advance(Duration::from_mins(10));

    let report = sync(&function).await;

    assert_eq!((report.counts.deregistered, registered(&fleet)), (2 * SERVICES, 0), "{report}");
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn loss_that_another_process_holds_passes_by_no_message() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    assert!(sync(&function).await.ok);
    empty(&fleet);
    sync(&fleet.function().await).await;
    fleet.cloud_map.forget_calls();

    for service in 0..SERVICES {
        assert_eq!(failed_messages(&function, &name(service)).await, [""; 0]);
    }

    assert_eq!((registered(&fleet), fleet.cloud_map.writes()), (2 * SERVICES, 0));
}

#[tokio::test]
async fn message_takes_out_what_its_own_reads_show() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    fleet.pods(&name(7), &[&address(7, 1)]);
    fleet.cloud_map.forget_calls();

    let answer = invoke(&function, &batch_about("blue", &name(7))).await;

    let report = answer.report.expect("a report");
    assert_eq!((held_back(&report), report.counts.deregistered), (vec![], 1), "{report}");
    assert!(reads(&fleet) <= FIRST, "{} {report}", reads(&fleet));
}

#[tokio::test]
async fn message_about_a_deletion_is_left_to_the_full_sync_that_has_read_all() {
    let fleet = large().await;
    let function = cold(&fleet).await;
    let gone = name(11);
    fleet.cluster.delete_service("shop", &gone);

    assert_eq!(failed_messages(&function, &gone).await, [""; 0]);
    assert_eq!(fleet.addresses("prod", &gone).len(), 2);
    for _ in 0..2 {
        sync(&function).await;
    }
    assert_eq!(fleet.addresses("prod", &gone), [""; 0]);
}

#[tokio::test]
async fn service_that_may_not_be_read_is_read_as_seldom_as_others() {
    let fleet = large().await;
    for other in ["aa", "ab", "ac", "ad"] {
        let service = fleet.cloud_map.service(&fleet.http, other, ServiceKind::Http);
        fleet.cloud_map.instance(&service, "of-others", &[("AWS_INSTANCE_IPV4", "10.9.9.9")]);
        fleet.cloud_map.deny_in(&service, "ListInstances");
    }
    let function = cold(&fleet).await;
    for _ in 0..ROUND + 2 {
        sync(&function).await;
    }
    replace(&fleet, 11);

    for _ in 0..ROUND + 2 {
        sync(&function).await;
    }

    assert_eq!(registered(&fleet), 2 * SERVICES + 1);
}

#[tokio::test]
async fn service_that_is_made_again_under_its_id_is_filled_by_the_next_sync() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    let id = fleet.cloud_map.service_id("prod", &name(11));
    fleet.cloud_map.remove_service(&id);
    assert_eq!(fleet.cloud_map.service(&fleet.http, &name(11), ServiceKind::Http), id);

    let report = sync(&function).await;

    assert_eq!((report.counts.registered, registered(&fleet)), (2, 2 * SERVICES), "{report}");
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
    let function = cold(&fleet).await;
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

/// Services that a list shows as empty are read by turns, as others are, since its counts lag.
#[tokio::test]
async fn claimed_services_without_instances_are_read_by_turns() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    empty(&fleet);
    let confirm = json!({ "action": "confirm" });
    assert!(self::report(&fleet.function().await, &confirm).await.ok);
    for _ in 0..ROUND {
        sync(&function).await;
    }
    fleet.cloud_map.forget_calls();

    assert!(sync(&function).await.ok);
    assert_eq!(reads(&fleet), READS);

    fleet.pods(&name(11), &[&address(11, 1)]);
    assert_eq!(sync(&function).await.counts.registered, 1);
    assert_eq!(registered(&fleet), 1);
}

/// As many names of others as a run reads lose their last instance.
#[tokio::test]
async fn names_that_others_have_emptied_have_no_turn() {
    let fleet = large().await;
    let mut emptied = Vec::new();
    for other in 0..2 * READS {
        let service =
            fleet.cloud_map.service(&fleet.http, &format!("ecs-{other}"), ServiceKind::Http);
        fleet.cloud_map.instance(&service, "task", &[("AWS_INSTANCE_IPV4", "10.9.9.9")]);
        emptied.push(service);
    }
    let function = warm(&fleet).await;
    sync(&function).await;
    for service in emptied {
        fleet.cloud_map.withdraw(&service, "task");
    }
    replace(&fleet, 11);

    for _ in 0..=ROUND {
        sync(&function).await;
    }

    assert_eq!(registered(&fleet), 2 * SERVICES + 1);
}

#[tokio::test]
async fn service_whose_read_failed_once_is_read_by_the_next_sync() {
    let fleet = large().await;
    let other = fleet.cloud_map.service(&fleet.http, "of-others", ServiceKind::Http);
    for task in 0..200 {
        let address = format!("10.8.0.{task}");
        fleet.cloud_map.instance(&other, &task.to_string(), &[("AWS_INSTANCE_IPV4", &address)]);
    }
    let function = warm(&fleet).await;
    sync(&function).await;
    for service in [&name(11), "of-others"] {
        let id = fleet.cloud_map.service_id("prod", service);
        let refused = FaultKind::Error(400, "InvalidInput", "not now");
        fleet.cloud_map.inject(Fault::on("ListInstances", refused).service(&id));
        let mut runs = 0;
        while sync(&function).await.ok {
            runs += 1;
            assert!(runs < 3 * ROUND, "{service} is never read");
        }
        fleet.pods(&name(11), &[&address(11, 1), &address(11, 3)]);
        let report = sync(&function).await;
        let made = (report.counts.registered, report.counts.deregistered);
        assert_eq!((report.ok, made), (true, (1, 1)), "{service} {report}");
        fleet.pods(&name(11), &[&address(11, 1), &address(11, 2)]);
        sync(&function).await;
    }
}

/// Each full sync counts the orphans that this process has read so far. The first run reads seven of eight services, so at
/// least four of green's five, whatever their order.
#[tokio::test]
async fn orphans_are_counted_as_far_as_they_were_read() {
    let (fleet, green) = Fleet::with_green().await;
    (0..3).for_each(|service| fleet.web(&name(service), "prod", &[&address(service, 1)]));
    for service in 3..8 {
        web_of(&green, &name(service), "prod", &[&address(service, 1)]);
    }
    assert!(sync(&fleet.function_with(&[("CLUSTERS", "blue,green")]).await).await.ok);
    let function =
        fleet.function_with(&[("CLUSTERS", "blue")]).await.with_max_instance_reads(READS);

    let report = sync(&function).await;
    assert_eq!((unread(&report), report.orphans.len()), (1, 1), "{report}");
    assert!(report.orphans[0].instances >= 4, "{report}");
    let report = sync(&function).await;
    assert_eq!((unread(&report), report.orphans.len()), (0, 1), "{report}");
    assert_eq!(report.orphans[0].instances, 5, "{report}");
}
