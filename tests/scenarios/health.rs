//! Readiness as Cloud Map's custom health: pods stay registered, and what changes is their health, which is read and
//! reported in its turn, late, in pages, and never twice. And services with a health check of Route 53.

use std::net::Ipv4Addr;
use std::time::Duration;

use cloud_map_sync::function::Function;
use serde_json::json;

use crate::fleet::{Fleet, annotated};
use crate::run::{
    converge, converged, held_back, plan, said_of, settled, sync, sync_service, synced, writes,
};
use testbed::cloud_map::{Fault, FaultKind, NamespaceKind, RecordType, ServiceKind};
use testbed::kubernetes::{Headless, Pod};

pub const REPORT: &str = "UpdateInstanceCustomHealthStatus";

pub fn web(annotations: &[(&str, &str)]) -> Headless {
    let service = annotated("web", "prod", "web").annotate("cloudmap.controller/health", "custom");
    annotations.iter().fold(service, |service, (name, value)| {
        service.annotate(&format!("cloudmap.controller/{name}"), value)
    })
}

/// Pods of `web`: `web-0` with 10.0.1.1 and so on, each with its state.
pub fn pods(fleet: &Fleet, changes: &[fn(Pod) -> Pod]) {
    let pods = changes.iter().enumerate().map(|(index, change)| {
        change(Pod::new(&format!("web-{index}"), &format!("10.0.1.{}", index + 1)))
    });
    fleet.cluster.pods("shop", "web", &pods.collect::<Vec<_>>());
}

pub fn ready(pod: Pod) -> Pod {
    pod
}

/// A report takes effect at once.
pub async fn fleet() -> Fleet {
    let fleet = Fleet::start().await;
    fleet.cloud_map.adjust(|it| it.health_delay = Duration::ZERO);
    fleet
}

/// `web` with two ready pods, registered.
pub async fn registered(annotations: &[(&str, &str)]) -> (Fleet, Function) {
    let fleet = fleet().await;
    fleet.service(web(annotations));
    pods(&fleet, &[ready, ready]);
    let function = converged(&fleet).await;
    assert_eq!(health(&fleet), ["10.0.1.1 HEALTHY", "10.0.1.2 HEALTHY"]);
    (fleet, function)
}

/// Address and health of all that stands in `prod/web`.
pub fn health(fleet: &Fleet) -> Vec<String> {
    let service = fleet.cloud_map.service_id("prod", "web");
    let known = fleet.cloud_map.health(&service);
    let instances = fleet.cloud_map.instances(&service).into_iter();
    let lines = instances.map(|(id, it)| format!("{} {}", it["AWS_INSTANCE_IPV4"], known[&id]));
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn pod_that_is_not_ready_stays_registered_and_is_unhealthy_until_it_is_ready_again() {
    let (fleet, function) = registered(&[]).await;
    assert!(fleet.view("prod", "web").custom_health, "the service is created with the check");
    let before = fleet.instances("prod", "web");

    pods(&fleet, &[Pod::not_ready, ready]);
    let planned = plan(&function).await.to_string();
    let line = "10.0.1.1 (pod web-0): HEALTHY -> UNHEALTHY, since it is not ready";
    assert!(planned.contains(line) && planned.contains("1 health to report"), "{planned}");
    fleet.cloud_map.forget_calls();
    let report = sync(&function).await;
    assert_eq!(writes(&fleet), [format!("{REPORT} web")], "{report}");
    assert_eq!((report.ok, report.counts.health), (true, 1), "{report}");
    assert_eq!(health(&fleet), ["10.0.1.1 UNHEALTHY", "10.0.1.2 HEALTHY"]);
    settled(&fleet, &function).await;

    pods(&fleet, &[ready, ready]);
    converge(&fleet, &function).await;
    assert_eq!(health(&fleet), ["10.0.1.1 HEALTHY", "10.0.1.2 HEALTHY"]);
    assert_eq!(fleet.instances("prod", "web"), before, "no instance was touched");
}

#[tokio::test]
async fn report_that_takes_its_time_is_not_repeated_and_can_be_taken_back() {
    let (fleet, function) = registered(&[]).await;
    fleet.cloud_map.adjust(|it| it.health_delay = Duration::from_hours(1));
    pods(&fleet, &[Pod::not_ready, ready]);
    converge(&fleet, &function).await;
    assert_eq!(health(&fleet), ["10.0.1.1 HEALTHY", "10.0.1.2 HEALTHY"], "it is yet to show");

    pods(&fleet, &[ready, ready]);
    sync(&function).await;
    assert_eq!(writes(&fleet), [format!("{REPORT} web")], "what is coming is taken back");
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn instance_whose_health_is_not_known_yet_is_as_its_registration_says() {
    let fleet = fleet().await;
    fleet.cloud_map.adjust(|it| it.health_lag = Duration::from_hours(1));
    fleet.service(web(&[]));
    pods(&fleet, &[ready, Pod::not_ready]);
    let function = converged(&fleet).await;
    assert_eq!(health(&fleet), ["10.0.1.1 UNKNOWN", "10.0.1.2 UNKNOWN"]);

    pods(&fleet, &[ready, ready]);
    let report = sync(&function).await;
    assert!(!report.ok && report.to_string().contains("InstanceNotFound"), "{report}");
    fleet.cloud_map.health_is_known(&fleet.cloud_map.service_id("prod", "web"));
    converge(&fleet, &function).await;
    assert_eq!(health(&fleet), ["10.0.1.1 HEALTHY", "10.0.1.2 HEALTHY"]);
}

#[tokio::test]
async fn health_is_read_once_in_a_sync_page_by_page_and_only_for_those_that_want_it() {
    let fleet = fleet().await;
    fleet.cloud_map.adjust(|it| it.page_limit = 2);
    fleet.web("plain", "prod", &["10.0.2.1"]);
    fleet.service(web(&[]));
    pods(&fleet, &[ready, ready, ready, ready, Pod::not_ready]);
    let function = converged(&fleet).await;
    sync(&function).await;
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
    let report = sync(&function).await;
    let made = ["RegisterInstance", REPORT, "DeregisterInstance"];
    assert_eq!(writes(&fleet), made.map(|operation| format!("{operation} web")), "{report}");
    assert_eq!(health(&fleet), ["10.0.1.1 UNHEALTHY", "10.0.1.3 HEALTHY"]);
}

/// An address of each network that a check cannot call.
const PRIVATE: [&str; 4] = ["10.0.1.1", "172.16.0.1", "192.168.0.1", "192.0.2.1"];

/// An A service `web` with a health check in a public namespace, claimed by a Service with one port and these pods.
async fn public(addresses: &[&str]) -> Fleet {
    let fleet = Fleet::start().await;
    let public = fleet.cloud_map.namespace("example.com", NamespaceKind::DnsPublic);
    let kind = ServiceKind::of_records(&[RecordType::A]);
    let service = fleet.cloud_map.service(&public, "web", kind);
    let check = json!({ "Type": "TCP", "FailureThreshold": 3 });
    fleet.cloud_map.dress(&service, "by hand", &check);
    fleet.web("web", "example.com", addresses);
    fleet
}

#[tokio::test]
async fn private_addresses_are_not_tried_and_are_one_line_of_the_service() {
    let fleet = public(&[PRIVATE.as_slice(), &["203.0.113.7"]].concat()).await;
    let function = fleet.function().await;

    let report = synced(&function).await;
    assert_eq!(held_back(&report), ["AddressNotCheckable"], "{report}");
    assert_eq!((report.counts.held_back, report.counts.registered), (1, 1), "{report}");
    let said = said_of(&report, "AddressNotCheckable");
    assert!(said.contains("Route 53") && said.contains("192.168.0.0/16"), "{said}");
    assert_eq!(writes(&fleet).len(), 1, "no refusal is asked for");
    assert_eq!(fleet.addresses("example.com", "web"), ["203.0.113.7"]);
    converge(&fleet, &function).await;
    let [warning] = fleet.cluster.warnings("shop").try_into().expect("one Event");
    assert_eq!(warning["reason"], "AddressNotCheckable");
}

#[tokio::test]
async fn other_address_that_a_check_refuses_is_held_back_in_cloud_maps_words() {
    let fleet = public(&["100.64.0.1", "203.0.113.7"]).await;
    let refused = vec![(Ipv4Addr::new(100, 64, 0, 0), 10)];
    fleet.cloud_map.adjust(|it| it.networks_refused_by_checks = refused);

    let report = synced(&fleet.function().await).await;

    assert_eq!(held_back(&report), ["InvalidInput"], "{report}");
    let said = said_of(&report, "InvalidInput");
    assert!(said.contains("IPv4 address 100.64.0.1 is forbidden for healthChecks"), "{said}");
    assert_eq!(fleet.addresses("example.com", "web"), ["203.0.113.7"]);
}
