//! A list of services that is too long for the time of a sync: each run reads some pages of it, and the next one goes on
//! with the page at which it stopped. Services that are known never wait for it.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::model::GuardState;
use tokio::time::Instant;

use crate::changes_first::{in_step, registered};
use crate::fleet::{Fleet, refs};
use crate::read_budget::{self, READS, SERVICES, address, cold, name, replace, unread};
use crate::run::{settled, sync, synced, writes};
use crate::scale::simulation::turns::Turns;
use testbed::cloud_map::{Fault, FaultKind, NamespaceKind, RecordType, ServiceKind};

/// The services of a page, and the pages of a list.
const PAGE: usize = 2;
const PAGES: usize = SERVICES / PAGE;
/// The pages that a run reads of the first list of its process.
const FIRST: usize = 2;

/// All Services in step, in a Cloud Map with small pages.
async fn large() -> Fleet {
    let fleet = read_budget::large().await;
    fleet.cloud_map.adjust(|it| it.page_limit = PAGE);
    fleet
}

/// A process that has seen a whole list, and read each service.
async fn warm(fleet: &Fleet) -> Function {
    let function = cold(fleet).await;
    for _ in 0..SERVICES {
        assert!(sync(&function).await.ok);
    }
    fleet.cloud_map.forget_calls();
    function
}

/// The calls of each kind since the last look.
fn calls<const N: usize>(fleet: &Fleet, operations: [&str; N]) -> [usize; N] {
    let counts = operations.map(|it| fleet.cloud_map.count(it));
    fleet.cloud_map.forget_calls();
    counts
}

/// At a tenth of the rates of an account, a call of 20 ms and operations of two seconds: 4 pages a run, and 100 reads.
#[tokio::test(start_paused = true)]
async fn list_of_500_services_takes_two_runs_and_a_new_pod_is_registered_within_three_seconds() {
    let (fleet, _) = in_step(500, &[1]).await;
    let function = fleet.function_with(&[("QUOTA_SHARE", "0.1")]).await;
    let turns = Turns { services: 500, share: 0.1, minutes: 1 };
    for run in 1..=turns.first() {
        let is_last = run == turns.first();
        assert_eq!(unread(&sync(&function).await) == 0, is_last, "{run} of {}", turns.first());
    }
    assert_eq!((turns.list(), turns.round()), (2, 5));
    let counted = ["ListServices", "ListInstances", "GetService", "ListNamespaces"];
    fleet.cloud_map.forget_calls();
    let mut pages = Vec::new();
    for run in 1..=4 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        let (service, new) = (format!("web-{run}"), format!("10.99.0.{run}"));
        fleet.pods(&service, &[&format!("10.0.{run}.1"), &new]);
        let start = Instant::now();

        let (registered, report) =
            tokio::join!(registered(&fleet, &service, &new), sync(&function));

        assert!(registered < Duration::from_secs(3), "{registered:?}");
        assert!(start.elapsed() < Duration::from_secs(45), "{:?}", start.elapsed());
        assert_eq!((report.ok, report.counts.registered), (true, 1), "{report}");
        let [lists, instances, entries, _] = calls(&fleet, counted);
        // Beside the turns the Service that has changed is read.
        let reads = turns.reads() - 1..=turns.reads() + 4;
        assert!(reads.contains(&instances) && entries <= 1, "{instances} {entries}");
        pages.push(lists);
    }
    pages.sort_unstable();
    assert_eq!((pages, fleet.cloud_map.throttled()), (vec![1, 1, turns.pages(), 4], 0));
}

#[tokio::test]
async fn new_process_goes_on_with_the_list_and_changes_nothing_that_it_has_not_seen() {
    let fleet = large().await;
    let function = cold(&fleet).await;
    // A Service that is new, and a loss among those that the last pages show.
    fleet.web("web-99", "prod", &["10.0.99.1"]);
    (6..SERVICES).for_each(|service| fleet.pods(&name(service), &[&address(service, 1)]));

    for run in 1.. {
        let report = sync(&function).await;
        let (written, [lists]) = (writes(&fleet), calls(&fleet, ["ListServices"]));
        if !fleet.addresses("prod", "web-99").is_empty() {
            // The two namespaces have a list each.
            assert_eq!(run, 2 * PAGES / FIRST, "{report}");
            break;
        }
        assert_eq!((lists, written.len()), (FIRST, 0), "{report}");
        assert!(unread(&report) >= SERVICES - run * PAGE, "{report}");
        if let Some(guard) = &report.clusters[0].guard {
            assert_eq!(guard.state, GuardState::HeldUntilRead, "{report}");
        }
    }
    for _ in 0..SERVICES {
        sync(&function).await;
    }
    assert_eq!(fleet.addresses("prod", &name(11)), [address(11, 1)]);
    settled(&fleet, &function).await;
}

/// Each run reads one page, and what was read longest ago, also of those services that it has not listed.
#[tokio::test]
async fn drift_is_repaired_within_a_round_whatever_page_the_run_reads() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    for service in [0, 5, 11] {
        replace(&fleet, service);
    }

    let mut repaired = 0;
    for _ in 0..SERVICES / READS {
        let report = sync(&function).await;
        assert_eq!((report.ok, unread(&report)), (true, 0), "{report}");
        let [lists, registrations] = calls(&fleet, ["ListServices", "RegisterInstance"]);
        assert!(lists <= 1);
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
async fn new_service_is_created_at_once_by_a_process_that_has_seen_a_whole_list() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    fleet.web("web-99", "prod", &["10.0.99.1"]);

    let report = sync(&function).await;

    assert_eq!((report.counts.created, report.counts.registered), (1, 1), "{report}");
    assert_eq!(calls(&fleet, ["CreateService", "GetService"]), [1, 0]);
    assert_eq!(sync(&function).await.counts.created, 0);
    assert_eq!(calls(&fleet, ["CreateService", "RegisterInstance"]), [0, 0]);
}

/// The services that a process has created are known to it before a list shows them.
#[tokio::test]
async fn many_services_that_a_process_creates_are_not_created_again() {
    let fleet = Fleet::start().await;
    fleet.cloud_map.adjust(|it| it.page_limit = PAGE);
    let function = cold(&fleet).await;
    sync(&function).await;
    for service in 0..SERVICES {
        fleet.web(&name(service), "prod", &[&address(service, 1)]);
    }
    assert_eq!(sync(&function).await.counts.created, SERVICES);
    calls(&fleet, ["CreateService"]);

    for _ in 0..PAGES {
        assert!(sync(&function).await.ok);
    }

    let counted = ["CreateService", "RegisterInstance", "DeregisterInstance"];
    assert_eq!(calls(&fleet, counted), [0, 0, 0]);
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
    // By the first part of the run, and by its plan of all.
    assert_eq!(calls(&fleet, counted), [2, 2, 1], "{report}");
    sync(&function).await;
    assert_eq!(calls(&fleet, counted), [0, 0, 0]);
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

#[tokio::test]
async fn token_that_is_not_taken_any_more_has_the_list_read_to_its_end() {
    let fleet = large().await;
    let function = cold(&fleet).await;
    sync(&function).await;
    calls(&fleet, ["ListServices"]);
    let refused = FaultKind::Error(400, "InvalidInput", "The NextToken is not valid");
    fleet.cloud_map.inject(Fault::on("ListServices", refused));

    assert!(sync(&function).await.ok);

    // The other namespace has a page of its own list.
    assert_eq!(calls(&fleet, ["ListServices"]), [1 + PAGES + 1]);
}

/// Without the right to ask for the namespace of a service each namespace has a list of its own. A run has a page for two
/// of them, or one.
#[tokio::test]
async fn lists_of_namespaces_are_gone_on_with_too() {
    let fleet = large().await;
    for namespace in ["second", "third"] {
        let namespace = fleet.cloud_map.namespace(namespace, NamespaceKind::Http);
        let service = fleet.cloud_map.service(&namespace, "of-others", ServiceKind::Http);
        fleet.cloud_map.instance(&service, "other", &[("AWS_INSTANCE_IPV4", "10.9.9.9")]);
    }
    fleet.cloud_map.deny("GetService");
    let function = cold(&fleet).await;

    // A list of four namespaces each, most pages of which a run reads alone.
    for _ in 0..5 * PAGES {
        let report = synced(&function).await;
        assert!(calls(&fleet, ["ListServices"])[0] <= FIRST + 1, "{report}");
    }

    assert_eq!((unread(&sync(&function).await), fleet.cloud_map.writes()), (0, 0));
}

/// It is listed once a claim names it, when the list of all services has taken each page of the run.
#[tokio::test]
async fn namespace_that_another_account_shares_is_listed_too() {
    let fleet = large().await;
    let function = warm(&fleet).await;
    fleet.cloud_map.shared_namespace("theirs", NamespaceKind::Http, "444455556666");
    fleet.web("new", "theirs", &["10.0.99.1"]);

    for _ in 0..PAGES {
        assert!(sync(&function).await.ok);
    }

    assert_eq!(fleet.addresses("theirs", "new"), ["10.0.99.1"]);
    assert_eq!(unread(&sync(&function).await), 0);
}
