//! Readiness as Cloud Map's custom health: pods stay registered, and what changes is their health.

use std::time::Duration;

use cloud_map_sync::function::Function;

use crate::fleet::{Fleet, annotated};
use crate::run::{converge, held_back, plan, said_of, settled, sync, sync_service, writes};
use testbed::cloud_map::{Behaviour, RecordType};
use testbed::kubernetes::{Headless, Pod};

pub const REPORT: &str = "UpdateInstanceCustomHealthStatus";

pub fn web(annotations: &[(&str, &str)]) -> Headless {
    let service = annotated("web", "prod", "web").annotate("cloudmap.controller/health", "custom");
    annotations.iter().fold(service, |service, (name, value)| {
        service.annotate(&format!("cloudmap.controller/{name}"), value)
    })
}

/// Pods of `web`: `web-0` with 10.0.1.1 and so on, each as told.
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
    fleet.cloud_map.behave(Behaviour { health_delay: Duration::ZERO, ..Behaviour::default() });
    fleet
}

/// `web` with two ready pods, registered.
pub async fn registered(annotations: &[(&str, &str)]) -> (Fleet, Function) {
    let fleet = fleet().await;
    fleet.service(web(annotations));
    pods(&fleet, &[ready, ready]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    assert_eq!(health(&fleet), ["10.0.1.1 HEALTHY", "10.0.1.2 HEALTHY"]);
    (fleet, function)
}

/// Address and health of all that stands in `prod/web`.
pub fn health(fleet: &Fleet) -> Vec<String> {
    health_in(fleet, "prod")
}

fn health_in(fleet: &Fleet, namespace: &str) -> Vec<String> {
    let service = fleet.cloud_map.find_service(namespace, "web").expect("the service");
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
async fn starting_pod_is_registered_as_unhealthy_and_comes_into_rotation_when_it_is_ready() {
    let (fleet, function) = registered(&[]).await;
    pods(&fleet, &[ready, ready, Pod::not_ready]);
    converge(&fleet, &function).await;
    let here = ["10.0.1.1 HEALTHY", "10.0.1.2 HEALTHY", "10.0.1.3 UNHEALTHY"];
    assert_eq!(health(&fleet), here);
    pods(&fleet, &[ready, ready, ready]);
    sync_service(&function, "web").await;
    assert_eq!(health(&fleet)[2], "10.0.1.3 HEALTHY");
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn terminating_pod_goes_at_once_or_when_it_stops_serving() {
    for (value, goes) in [("drop", true), ("keep-serving", false)] {
        let (fleet, function) = registered(&[("terminating", value)]).await;
        pods(&fleet, &[Pod::terminating, ready]);
        converge(&fleet, &function).await;
        let stays = ["10.0.1.1 HEALTHY", "10.0.1.2 HEALTHY"];
        assert_eq!(health(&fleet), stays[usize::from(goes)..], "{value}");
        pods(&fleet, &[|pod| pod.terminating().not_ready(), ready]);
        converge(&fleet, &function).await;
        assert_eq!(health(&fleet), ["10.0.1.2 HEALTHY"], "{value}");
    }
}

#[tokio::test]
async fn while_none_is_ready_all_stay_as_unhealthy_or_as_they_were() {
    let cases = [
        ("empty", ["10.0.1.1 UNHEALTHY", "10.0.1.2 UNHEALTHY"], vec![]),
        ("keep", ["10.0.1.1 HEALTHY", "10.0.1.2 HEALTHY"], vec!["NoneReady"]),
    ];
    for (value, expected, reasons) in cases {
        let (fleet, function) = registered(&[("when-none-ready", value)]).await;
        pods(&fleet, &[Pod::not_ready, Pod::not_ready]);
        let report = converge(&fleet, &function).await;
        assert_eq!(health(&fleet), expected, "{value}");
        assert_eq!(held_back(&report), reasons, "{report}");
        assert!(!report.to_string().contains("emptied"), "{report}");
        pods(&fleet, &[Pod::not_ready, ready]);
        converge(&fleet, &function).await;
        assert_eq!(health(&fleet), ["10.0.1.1 UNHEALTHY", "10.0.1.2 HEALTHY"], "{value}");
    }
}

#[tokio::test]
async fn last_instances_stay_without_any_pod_where_the_service_says_so() {
    let (fleet, function) = registered(&[("when-none-ready", "keep")]).await;
    pods(&fleet, &[]);
    converge(&fleet, &function).await;
    assert_eq!(health(&fleet), ["10.0.1.1 HEALTHY", "10.0.1.2 HEALTHY"]);
    fleet.service(web(&[]));
    pods(&fleet, &[]);
    let report = converge(&fleet, &function).await;
    assert!(report.to_string().contains("emptied"), "{report}");
    assert!(health(&fleet).is_empty());
}

#[tokio::test]
async fn health_of_ecs_tasks_under_the_same_name_is_theirs() {
    let fleet = fleet().await;
    let service = fleet.ecs_service("web", "10.0.9.1");
    let task = "fedcba9876543210fedcba9876543210";
    let unhealthy = [("AWS_INSTANCE_IPV4", "10.0.9.2"), ("AWS_INIT_HEALTH_STATUS", "UNHEALTHY")];
    fleet.cloud_map.instance(&service, task, &unhealthy);
    fleet.service(web(&[("namespace", "prod.local")]));
    pods(&fleet, &[ready, Pod::not_ready]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    pods(&fleet, &[Pod::not_ready, ready]);
    converge(&fleet, &function).await;
    let expected =
        ["10.0.1.1 UNHEALTHY", "10.0.1.2 HEALTHY", "10.0.9.1 HEALTHY", "10.0.9.2 UNHEALTHY"];
    assert_eq!(health_in(&fleet, "prod.local"), expected);
}

#[tokio::test]
async fn service_without_a_custom_check_gets_ready_pods_only_and_its_owner_hears_of_it() {
    let fleet = fleet().await;
    fleet.dns_service("web", &[RecordType::A]);
    fleet.service(web(&[("namespace", "prod.local")]));
    pods(&fleet, &[ready, Pod::not_ready]);
    let function = fleet.function().await;
    let report = converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1"]);
    assert_eq!(held_back(&report), ["NoCustomHealth"], "{report}");
    let said = said_of(&report, "NoCustomHealth");
    assert!(said.contains("only ready pods are registered, as health: membership does"), "{said}");
    assert_eq!(
        fleet.cloud_map.count(REPORT) + fleet.cloud_map.count("GetInstancesHealthStatus"),
        0
    );
    let reasons: Vec<_> =
        fleet.cluster.warnings("shop").into_iter().map(|it| it["reason"].clone()).collect();
    assert_eq!(reasons, ["NoCustomHealth"]);
}

#[tokio::test]
async fn annotation_that_goes_leaves_no_pod_unhealthy_and_none_that_is_not_ready() {
    let (fleet, function) = registered(&[]).await;
    pods(&fleet, &[Pod::not_ready, Pod::not_ready]);
    converge(&fleet, &function).await;
    fleet.annotate("web", "health", "");
    pods(&fleet, &[ready, Pod::not_ready]);
    let planned = plan(&function).await.to_string();
    assert!(planned.contains("cloud-map-sync/health custom -> nothing"), "{planned}");
    converge(&fleet, &function).await;
    assert_eq!(health(&fleet), ["10.0.1.1 HEALTHY"]);

    fleet.annotate("web", "health", "custom");
    converge(&fleet, &function).await;
    assert_eq!(health(&fleet), ["10.0.1.1 HEALTHY", "10.0.1.2 UNHEALTHY"]);
}

#[tokio::test]
async fn renamed_service_is_whole_under_its_new_name_with_the_pods_that_are_not_ready() {
    let (fleet, function) = registered(&[]).await;
    pods(&fleet, &[ready, Pod::not_ready]);
    fleet.annotate("web", "hostname", "www");
    let report = converge(&fleet, &function).await;
    assert!(held_back(&report).is_empty(), "{report}");
    assert!(fleet.view("prod", "www").custom_health);
    assert_eq!(fleet.addresses("prod", "www"), ["10.0.1.1", "10.0.1.2"]);
    assert_eq!(fleet.values("prod", "www", "AWS_INIT_HEALTH_STATUS"), ["HEALTHY", "UNHEALTHY"]);
    assert!(fleet.addresses("prod", "web").is_empty());
}
