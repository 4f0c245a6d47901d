//! Readiness as Cloud Map's custom health: pods stay registered, and what changes is their health.

use std::time::Duration;

use cloud_map_sync::function::Function;

use crate::fleet::{Fleet, annotated};
use crate::run::{converge, plan, settled, sync, writes};
use testbed::cloud_map::Behaviour;
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
