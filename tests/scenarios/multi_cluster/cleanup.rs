//! The claims of exports, when empty Cloud Map services are deleted.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::{Members, exported, in_full, pods, web};
use crate::run::{report, sync};
use testbed::cloud_map::Behaviour;
use testbed::kubernetes::{Fault, FaultKind};

const CREATED: &str = "2026-01-01T00:00:00Z";
const DELETING: (&str, &str) = ("DELETE_EMPTY_SERVICES", "true");

/// `blue` exports `web` without a pod.
async fn without_a_pod() -> Members {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    members.converge().await;
    pods(&members.blue, "web", &[]);
    members.converge().await;
    members.fleet.cloud_map.forget_calls();
    members
}

fn is_kept(members: &Members) -> bool {
    let cloud_map = &members.fleet.cloud_map;
    cloud_map.find_service("shop", "web").is_some() && cloud_map.count("DeleteService") == 0
}

#[tokio::test]
async fn export_keeps_its_service_without_an_endpoint_until_it_ends() {
    let members = without_a_pod().await;
    let function = members.serving("blue,green", &[DELETING]).await;
    for action in ["cleanup", "sync"] {
        let report = report(&function, &json!({ "action": action })).await;
        assert!(report.ok && is_kept(&members), "{action}: {}", in_full(&report));
    }
    members.blue.unexport("shop", "web");
    report(&function, &json!({ "action": "sync", "cluster": "blue" })).await;
    let report = report(&function, &json!({ "action": "cleanup" })).await;
    assert!(report.ok && !is_kept(&members), "{}", in_full(&report));
}

#[tokio::test]
async fn exports_that_cannot_be_read_keep_every_service() {
    let paths = ["multicluster.x-k8s.io/v1beta1/serviceexports", "about.k8s.io"];
    for (path, action) in paths.into_iter().flat_map(|path| [(path, "cleanup"), (path, "sync")]) {
        let members = without_a_pod().await;
        members.blue.fail(Fault::always(&format!("/apis/{path}"), FaultKind::Status(500)));
        let function = members.serving("blue,green", &[DELETING]).await;
        let report = report(&function, &json!({ "action": action })).await;
        assert!(!report.ok && is_kept(&members), "{path} {action}: {}", in_full(&report));
    }
}

/// Cloud Map may give the service its former id, under which the process has seen it in a namespace that had no id yet.
#[tokio::test(start_paused = true)]
async fn records_are_found_in_a_service_that_was_deleted_and_made_again() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    let function = members.serving("blue,green", &[DELETING]).await;
    let cloud_map = &members.fleet.cloud_map;
    cloud_map.behave(Behaviour { instances_per_namespace: 0, ..Behaviour::default() });
    sync(&function).await;
    let report = sync(&function).await;
    assert!(cloud_map.count("DeleteService") > 0, "{}", in_full(&report));
    cloud_map.behave(Behaviour::default());
    sleep(Duration::from_mins(2)).await;

    for _ in 0..2 {
        let report = sync(&function).await;
        assert!(report.ok, "{}", in_full(&report));
    }
}
