//! A list of services that takes long at the rates of the account stands for three times that time. Services that are
//! known never wait for it, and what it does not show does not exist as far as the process knows.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::time::Deadline;
use serde_json::json;
use tokio::time::Instant;

use crate::changes_first::{in_step, minute, registered};
use crate::fleet::{Fleet, refs};
use crate::limits::HALF;
use crate::read_budget::{self, READS, SERVICES, address, cold, name, replace, unread};
use crate::run::{plan, problem, report, settled, sync, synced};
use crate::scale::simulation::turns::Turns;
use testbed::cloud_map::{NamespaceKind, RecordType, ServiceKind};
use testbed::function::invoke_until;

/// The services of a page, and the pages of a list.
const PAGE: usize = 2;
const PAGES: usize = SERVICES / PAGE;

/// All Services in step, in a Cloud Map with small pages.
async fn large() -> Fleet {
    let fleet = read_budget::large().await;
    fleet.cloud_map.adjust(|it| it.page_limit = PAGE);
    fleet
}

/// A process that has listed the services, and read each.
async fn warm(fleet: &Fleet) -> Function {
    read_budget::after(fleet, SERVICES).await
}

/// The calls of each kind since the last look.
fn calls<const N: usize>(fleet: &Fleet, operations: [&str; N]) -> [usize; N] {
    let counts = operations.map(|it| fleet.cloud_map.count(it));
    fleet.cloud_map.forget_calls();
    counts
}

/// 500 services with pages of five take as many calls as 10,000 with those of Cloud Map.
#[tokio::test(start_paused = true)]
async fn list_of_100_pages_is_read_in_every_fifth_minute_and_no_new_pod_waits_for_it() {
    let (fleet, _) = in_step(500, &[1]).await;
    fleet.cloud_map.adjust(|it| it.page_limit = 5);
    let function = fleet.function_with(&HALF).await;
    assert!(sync(&function).await.ok);
    fleet.clock.advance(Duration::from_hours(1));
    assert!(sync(&function).await.ok);
    let turns = Turns { services: 10_000, share: 0.5, minutes: 1 };
    calls(&fleet, ["ListServices"]);
    for run in 1..=10 {
        minute(&fleet).await;
        let service = format!("web-{run}");
        let new = format!("10.99.0.{run}");
        fleet.pods(&service, &[&format!("10.0.{run}.1"), &new]);
        let start = Instant::now();

        let (registered, report) =
            tokio::join!(registered(&fleet, &service, &new), sync(&function));

        assert!(registered < Duration::from_secs(3), "{registered:?}");
        assert_eq!((report.ok, unread(&report)), (true, 0), "{report}");
        let [lists] = calls(&fleet, ["ListServices"]);
        let is_listed = run % turns.list() == 0;
        assert_eq!(lists, if is_listed { turns.pages() } else { 0 }, "{run}");
        let took = start.elapsed();
        assert!(is_listed || took < Duration::from_secs(30), "{took:?}");
    }
    assert_eq!(fleet.cloud_map.throttled(), 0);
}

/// The list takes over a minute and a half.
#[tokio::test(start_paused = true)]
async fn process_that_has_not_listed_the_services_to_the_end_removes_nothing() {
    let (fleet, _) = in_step(200, &[1, 2]).await;
    fleet.cloud_map.adjust(|it| it.page_limit = 2);
    let function = fleet.function_with(&HALF).await;
    fleet.pods("web-7", &["10.0.7.1"]);

    let deadline = Deadline::after(Duration::from_mins(1));
    let answer = invoke_until(&function, &json!({ "action": "sync" }), deadline).await;
    let report = answer.report.expect("a report");
    assert!(problem(&report, "blue").contains("time of this invocation"), "{report}");
    assert_eq!(fleet.cloud_map.writes(), 0);

    let report = synced(&function).await;
    assert_eq!((report.counts.deregistered, fleet.cloud_map.writes()), (1, 1), "{report}");
}

#[tokio::test]
async fn plan_of_a_person_and_a_fresh_sync_list_anew() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    assert!(sync(&function).await.ok);
    assert_eq!(calls(&fleet, ["ListServices"]), [0]);

    plan(&function).await;
    assert_eq!(calls(&fleet, ["ListServices"]), [PAGES]);
    report(&function, &json!({ "action": "sync", "fresh": true })).await;
    assert_eq!(calls(&fleet, ["ListServices"]), [PAGES]);
    fleet.clock.advance(Duration::from_mins(1));
    assert!(sync(&function).await.ok);
    assert_eq!(calls(&fleet, ["ListServices"]), [PAGES]);
}

#[tokio::test]
async fn drift_is_repaired_within_a_round_while_the_list_stands() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    for service in [0, 5, 11] {
        replace(&fleet, service);
    }

    let mut repaired = 0;
    // What a run has changed is read again by the next one, so that the round takes one more.
    for _ in 0..=SERVICES / READS {
        let report = sync(&function).await;
        assert_eq!((report.ok, unread(&report)), (true, 0), "{report}");
        let [lists, registrations] = calls(&fleet, ["ListServices", "RegisterInstance"]);
        assert_eq!(lists, 0);
        repaired += registrations;
    }

    assert_eq!(repaired, 3);
    for service in [0, 5, 11] {
        assert_eq!(fleet.addresses("prod", &name(service)).len(), 3);
    }
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn service_is_not_read_again_for_a_number_that_an_older_list_shows() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    for service in 0..SERVICES {
        fleet.pods(&name(service), &refs(&[1, 2, 3].map(|pod| address(service, pod))));
    }
    assert_eq!(sync(&function).await.counts.registered, SERVICES);
    for _ in 0..3 {
        sync(&function).await;
    }
    calls(&fleet, ["ListInstances"]);

    sync(&function).await;

    // Three instances are two pages here.
    assert!(calls(&fleet, ["ListInstances"])[0] <= 2 * READS);
}

#[tokio::test]
async fn new_service_is_created_while_the_list_stands() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    fleet.web("web-99", "prod", &["10.0.99.1"]);

    let report = sync(&function).await;

    assert_eq!((report.counts.created, report.counts.registered), (1, 1), "{report}");
    assert_eq!(calls(&fleet, ["CreateService", "GetService", "ListServices"]), [1, 0, 0]);
    assert_eq!(sync(&function).await.counts.created, 0);
    assert_eq!(calls(&fleet, ["CreateService", "RegisterInstance"]), [0, 0]);
}

/// The services that a process has created are known to it before a list shows them.
#[tokio::test]
async fn many_services_that_a_process_creates_are_not_created_again() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    for service in SERVICES..2 * SERVICES {
        fleet.web(&name(service), "prod", &[&address(service, 1)]);
    }
    assert_eq!(sync(&function).await.counts.created, SERVICES);
    calls(&fleet, ["CreateService"]);

    for _ in 0..SERVICES {
        sync(&function).await;
    }
    assert_eq!(unread(&synced(&function).await), 0);

    let counted = ["CreateService", "RegisterInstance", "DeregisterInstance", "ListServices"];
    assert_eq!(calls(&fleet, counted), [0, 0, 0, 0]);
}

/// Another process has created it since this one has seen a whole list. The refusal has its id.
#[tokio::test]
async fn service_that_exists_already_is_read_by_the_id_in_the_refusal() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    fleet.web("web-99", "prod", &["10.0.99.1"]);
    assert!(sync(&fleet.function().await).await.ok);
    fleet.pods("web-99", &["10.0.99.1", "10.0.99.2"]);
    fleet.cloud_map.forget_calls();

    let report = synced(&function).await;
    assert_eq!(fleet.addresses("prod", "web-99"), ["10.0.99.1", "10.0.99.2"]);
    let counted = ["CreateService", "GetService", "RegisterInstance"];
    assert_eq!(calls(&fleet, counted), [1, 1, 1], "{report}");
    sync(&function).await;
    let [created, entries, registered] = calls(&fleet, counted);
    // If the process has read its instances before it registered one, it looks there first.
    assert!((created, registered) == (0, 0) && entries <= 1, "{entries}");
}

/// The TTL is as the Service asks by now, which only a read of the service itself shows, also if its instances are read
/// for a new pod.
#[tokio::test]
async fn service_is_changed_by_its_entry_of_the_run() {
    let fleet = large().await;
    for record in 0..3 {
        fleet.web(&format!("dns-{record}"), "prod.local", &["10.0.88.1"]);
    }
    assert!(sync(&fleet.function().await).await.ok);
    let function = warm(&fleet).await;
    for record in 0..3 {
        fleet.annotate(&format!("dns-{record}"), "ttl", "15");
        fleet.pods(&format!("dns-{record}"), &["10.0.88.1", "10.0.88.2"]);
        let id = fleet.cloud_map.find_service("prod.local", &format!("dns-{record}"));
        fleet.cloud_map.begin_update(&id.expect("the service"), 15);
    }
    tokio::time::sleep(Duration::from_millis(50)).await;

    let report = synced(&function).await;
    let [updates, entries] = calls(&fleet, ["UpdateService", "GetService"]);
    assert!(updates == 0 && entries >= 2, "{updates} {entries} {report}");
    fleet.annotate("dns-0", "ttl", "30");
    assert!(sync(&function).await.ok);
    assert_eq!(
        fleet.view("prod.local", "dns-0").dns.expect("records").records[0],
        (RecordType::A, 30)
    );
}

/// Without the right to ask for the namespace of a service each namespace has a list of its own.
#[tokio::test]
async fn lists_of_namespaces_stand_too() {
    let fleet = large().await;
    fleet.cloud_map.deny("GetService");
    let function = cold(&fleet).await;
    sync(&function).await;
    assert_eq!(calls(&fleet, ["ListServices"]), [2 * PAGES]);

    synced(&function).await;

    assert_eq!((calls(&fleet, ["ListServices"]), fleet.cloud_map.writes()), ([0], 0));
}

#[tokio::test]
async fn namespace_that_another_account_shares_is_listed_once_a_claim_names_it() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    let theirs = fleet.cloud_map.shared_namespace("theirs", NamespaceKind::Http, "444455556666");
    fleet.cloud_map.service(&theirs, "new", ServiceKind::Http);
    fleet.web("new", "theirs", &["10.0.99.1"]);

    synced(&function).await;

    assert_eq!(fleet.addresses("theirs", "new"), ["10.0.99.1"]);
    assert_eq!(calls(&fleet, ["CreateService"]), [0]);
}
