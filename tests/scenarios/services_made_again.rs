//! Cloud Map services that another party deletes during or between the runs of one process, and that come back under
//! their names with their old ids.

use std::time::Duration;

use cloud_map_sync::function::Function;

use crate::fleet::{Fleet, annotated};
use crate::health;
use crate::run::{converge, held_back, sync, sync_service, writes};
use testbed::cloud_map::{Fault, FaultKind, RecordType, ServiceKind};
use testbed::kubernetes::Pod;

/// `web` in `prod.local`, created by the function with a pod; the function knows it.
async fn in_step() -> (Fleet, Function, String) {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    let web = fleet.cloud_map.find_service("prod.local", "web").expect("created");
    (fleet, function, web)
}

/// Another party makes `web` again with these records.
fn make_again(fleet: &Fleet, web: &str, record: RecordType) {
    fleet.cloud_map.remove_service(web);
    let kind = ServiceKind::Dns { records: vec![(record, 60)], custom_health: false };
    assert_eq!(fleet.cloud_map.service(&fleet.dns, "web", kind), web, "its old id");
}

#[tokio::test]
async fn registration_in_a_service_that_is_gone_meanwhile_fails_and_the_next_sync_mends_it() {
    let (fleet, function, web) = in_step().await;
    fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);
    fleet.cloud_map.forget_calls();
    let slow = FaultKind::Late(Duration::from_millis(400));
    fleet.cloud_map.inject(Fault::on("ListInstances", slow));
    let other = async {
        fleet.called("ListInstances").await;
        fleet.cloud_map.remove_service(&web);
    };

    let (report, ()) = tokio::join!(sync_service(&function, "web"), other);

    let calls = fleet.cloud_map.calls();
    let accepted = calls.iter().filter(|it| it.operation == "RegisterInstance");
    assert!(accepted.clone().count() > 0 && accepted.clone().all(|it| it.status == 200));
    assert!(!report.ok && report.counts.registered == 0, "{report}");
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1", "10.0.1.2"]);
}

#[tokio::test]
async fn service_that_is_there_again_with_other_records_is_not_taken_for_the_old_one() {
    let (fleet, function, web) = in_step().await;
    make_again(&fleet, &web, RecordType::Srv);
    fleet.pods("web", &["10.0.1.2"]);

    let report = sync_service(&function, "web").await;

    assert_eq!(held_back(&report), [""; 0], "{report}");
    assert!(report.ok, "{report}");
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.2"]);
    assert!(sync(&function).await.ok);
}

#[tokio::test]
async fn message_holds_nothing_back_by_records_that_it_remembers() {
    let (fleet, function, web) = in_step().await;
    make_again(&fleet, &web, RecordType::Aaaa);
    assert_eq!(held_back(&sync(&function).await), ["RecordTypeMismatch"]);
    make_again(&fleet, &web, RecordType::A);
    fleet.cloud_map.forget_calls();

    let report = sync_service(&function, "web").await;

    assert_eq!(held_back(&report), [""; 0], "{report}");
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1"]);
    let lists_and_reads = ["ListServices", "GetService"].map(|it| fleet.cloud_map.count(it));
    assert_eq!(lists_and_reads, [0, 1]);
}

#[tokio::test]
async fn what_another_process_registered_for_the_records_that_came_back_is_not_rewritten() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod.local", "web,other").families(&["IPv4", "IPv6"]));
    // Under `other` something is missing in each sync: its records take no pod of one family.
    let pods = [Pod::new("two", "10.0.1.1").address("fd00::1"), Pod::new("one", "10.0.1.2")];
    fleet.cluster.pods("shop", "web", &pods);
    let function = fleet.function().await;
    // It creates both, and then lists them.
    for _ in 0..2 {
        sync(&function).await;
    }
    let web = fleet.cloud_map.find_service("prod.local", "web").expect("created");
    make_again(&fleet, &web, RecordType::A);
    let report = sync(&fleet.function().await).await;
    assert_eq!(report.counts.registered, 2, "{report}");

    let report = sync(&function).await;

    assert_eq!(held_back(&report), ["RecordTypeMismatch"], "{report}");
    assert_eq!(report.counts.rewritten, 0, "{report}");
}

#[tokio::test]
async fn unready_pod_is_not_registered_in_a_service_that_came_back_without_the_check() {
    let (fleet, function) = health::registered(&[]).await;
    let web = fleet.cloud_map.find_service("prod", "web").expect("created");
    fleet.cloud_map.remove_service(&web);
    assert_eq!(fleet.cloud_map.service(&fleet.http, "web", ServiceKind::Http), web, "its old id");
    health::pods(&fleet, &[health::ready, Pod::not_ready, Pod::not_ready]);
    fleet.cloud_map.forget_calls();

    let report = sync(&function).await;

    assert_eq!(writes(&fleet), ["RegisterInstance web"], "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
    assert_eq!(held_back(&report), ["NoCustomHealth"], "{report}");
}
