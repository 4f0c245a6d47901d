//! How health is read and reported: in its turn, late, in pages, and never twice.

use std::time::Duration;

use crate::health::{REPORT, fleet, health, pods, ready, registered, web};
use crate::run::{converge, settled, sync, sync_service, writes};
use testbed::cloud_map::{Behaviour, Fault, FaultKind};
use testbed::kubernetes::Pod;

#[tokio::test]
async fn report_that_takes_its_time_is_not_repeated_and_can_be_taken_back() {
    let (fleet, function) = registered(&[]).await;
    let health_delay = Duration::from_hours(1);
    fleet.cloud_map.behave(Behaviour { health_delay, ..Behaviour::default() });
    pods(&fleet, &[Pod::not_ready, ready]);
    converge(&fleet, &function).await;
    assert_eq!(health(&fleet), ["10.0.1.1 HEALTHY", "10.0.1.2 HEALTHY"], "it is yet to show");

    pods(&fleet, &[ready, ready]);
    fleet.cloud_map.forget_calls();
    sync(&function).await;
    assert_eq!(writes(&fleet), [format!("{REPORT} web")], "what is coming is taken back");
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn instance_whose_health_is_not_known_yet_is_as_its_registration_says() {
    let fleet = fleet().await;
    let health_lag = Duration::from_hours(1);
    fleet.cloud_map.behave(Behaviour {
        health_lag,
        health_delay: Duration::ZERO,
        ..Behaviour::default()
    });
    fleet.service(web(&[]));
    pods(&fleet, &[ready, Pod::not_ready]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    assert_eq!(health(&fleet), ["10.0.1.1 UNKNOWN", "10.0.1.2 UNKNOWN"]);

    pods(&fleet, &[ready, ready]);
    let report = sync(&function).await;
    assert!(!report.ok && report.to_string().contains("InstanceNotFound"), "{report}");
    let service = fleet.cloud_map.find_service("prod", "web").expect("created");
    fleet.cloud_map.health_is_known(&service);
    converge(&fleet, &function).await;
    assert_eq!(health(&fleet), ["10.0.1.1 HEALTHY", "10.0.1.2 HEALTHY"]);
}

#[tokio::test]
async fn health_is_read_once_in_a_sync_page_by_page_and_only_for_those_that_want_it() {
    let fleet = fleet().await;
    fleet.cloud_map.behave(Behaviour { page_limit: 2, ..Behaviour::default() });
    fleet.web("plain", "prod", &["10.0.2.1"]);
    fleet.service(web(&[]));
    pods(&fleet, &[ready, ready, ready, ready, Pod::not_ready]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    assert_eq!(fleet.cloud_map.count("GetInstancesHealthStatus"), 3, "three pages of one service");
    fleet.cloud_map.forget_calls();
    sync_service(&function, "plain").await;
    assert_eq!(fleet.cloud_map.count("GetInstancesHealthStatus"), 0);
}

/// What a removal rests on is read again, and a message reads a part.
#[tokio::test]
async fn health_is_not_reported_again_by_a_removal_or_a_message() {
    let (fleet, function) = registered(&[]).await;
    pods(&fleet, &[Pod::not_ready, ready]);
    converge(&fleet, &function).await;
    pods(&fleet, &[Pod::not_ready]);
    fleet.cloud_map.forget_calls();
    let report = sync(&function).await;
    assert_eq!(writes(&fleet), ["DeregisterInstance web"], "{report}");
    let report = sync_service(&fleet.function().await, "web").await;
    let report = report.to_string() + &sync_service(&function, "web").await.to_string();
    assert_eq!(writes(&fleet), ["DeregisterInstance web"], "{report}");
}

/// While one process registers a pod another one reports.
#[tokio::test(start_paused = true)]
async fn health_that_another_process_has_reported_by_the_second_look_is_not_reported_again() {
    let (fleet, function) = registered(&[]).await;
    let other = fleet.function().await;
    let slow = FaultKind::Late(Duration::from_secs(3));
    fleet.cloud_map.inject(Fault::on("RegisterInstance", slow));
    fleet.cloud_map.forget_calls();
    pods(&fleet, &[ready, Pod::terminating, ready]);
    let (report, ()) = tokio::join!(sync(&function), async {
        fleet.called("RegisterInstance").await;
        pods(&fleet, &[Pod::not_ready, Pod::terminating, ready]);
        sync_service(&other, "web").await;
    });
    assert_eq!(fleet.cloud_map.count(REPORT), 1, "{report}");
    assert_eq!(health(&fleet), ["10.0.1.1 UNHEALTHY", "10.0.1.3 HEALTHY"]);
}

#[tokio::test]
async fn health_is_reported_after_new_pods_are_registered_and_before_old_ones_go() {
    let (fleet, function) = registered(&[]).await;
    pods(&fleet, &[Pod::not_ready, Pod::terminating, ready]);
    fleet.cloud_map.forget_calls();
    let report = sync(&function).await;
    let made = ["RegisterInstance", REPORT, "DeregisterInstance"];
    assert_eq!(writes(&fleet), made.map(|operation| format!("{operation} web")), "{report}");
    assert_eq!(health(&fleet), ["10.0.1.1 UNHEALTHY", "10.0.1.3 HEALTHY"]);
}
