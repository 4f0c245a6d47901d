//! What a cluster that is purged, or gone, leaves behind.

use std::time::Duration;

use cloud_map_sync::time::Deadline;
use serde_json::json;

use super::{Members, exported, imported, in_full, part, slices, sources, web};
use crate::run::{report, sync};
use testbed::cloud_map::Behaviour;
use testbed::function::invoke_until;
use testbed::kubernetes::{Fault, FaultKind};

const CREATED: &str = "2026-01-01T00:00:00Z";

#[tokio::test]
async fn purge_takes_the_instances_and_records_of_exports_and_the_imports_of_others_end() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    exported(&members.green, web(), &["10.1.0.1"], CREATED);
    members.converge().await;
    let function = members.fleet.function_with(&[
        ("CLUSTERS", "green"),
        ("MULTI_CLUSTER", "on"),
        ("CREATE_NAMESPACES", "true"),
    ]);
    let function = function.await;
    let arn = members.fleet.sandbox.cluster_arn("blue");
    let orphaned = sync(&function).await;
    assert_eq!(orphaned.orphans.len(), 1, "{}", in_full(&orphaned));
    assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.1", "10.1.0.1"]);

    let payload = json!({ "action": "purge", "cluster": arn, "confirm": true });
    let purged = report(&function, &payload).await;

    assert!(purged.ok, "{}", in_full(&purged));
    assert_eq!(members.fleet.addresses("shop", "web"), ["10.1.0.1"]);
    assert!(members.fleet.instances("clusterset.shop-set", "blue").is_empty());
    let after = sync(&function).await;
    assert!(after.ok && after.orphans.is_empty(), "{}", in_full(&after));
    assert_eq!(imported(&members.green, "web"), sources([("green", &["10.1.0.1:8080"])]));
}

/// Imports without a record of their cluster would be those of an unfamiliar Cloud Map.
#[tokio::test]
async fn purge_that_is_cut_short_has_taken_the_imports_before_the_record_of_their_cluster() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    members.converge().await;
    let operation_delay = Duration::from_hours(1);
    members.fleet.cloud_map.behave(Behaviour { operation_delay, ..Behaviour::default() });
    let purge = json!({ "action": "purge", "cluster": "blue", "confirm": true });

    let purged =
        invoke_until(&members.function, &purge, Deadline::after(Duration::from_secs(5))).await;

    assert!(!purged.report.expect("a report").ok);
    assert_eq!(members.blue.service_import("shop", "web"), None);
    assert_eq!(slices(&members.blue, "web").len(), 0);
}

/// Its role has no rights on exports, its ClusterProperties say who it is, and the flow is off by now.
#[tokio::test]
async fn purge_of_a_cluster_that_only_imports_takes_what_there_is_and_says_the_rest() {
    for is_refused in [false, true] {
        let members = Members::start().await;
        exported(&members.blue, web(), &["10.0.0.1"], CREATED);
        members.green.bind_multi_cluster_roles(&["cloud-map-sync-import"]);
        let clusters = json!(["blue", { "cluster": "green", "multiCluster": "import" }]);
        let function = members.serving(&clusters.to_string(), &[]).await;
        sync(&function).await;
        assert_eq!(imported(&members.green, "web"), sources([("blue", &["10.0.0.1:8080"])]));
        if is_refused {
            let path = "/apis/multicluster.x-k8s.io/v1beta1/serviceimports";
            members.green.fail(Fault::always(path, FaultKind::Status(403)));
        }
        let off = [("CLUSTERS", "blue,green"), ("MULTI_CLUSTER", "off")];
        let off = members.fleet.function_with(&off).await;
        let purge = json!({ "action": "purge", "cluster": "green", "confirm": true });

        let purged = report(&off, &purge).await;

        assert_eq!(slices(&members.green, "web").len(), 0, "{}", in_full(&purged));
        assert_eq!(members.green.service_import("shop", "web").is_some(), is_refused);
        let said = &part(&purged, "green").obstacles;
        assert_eq!(said.len(), usize::from(is_refused), "{}", in_full(&purged));
        assert!(said.iter().all(|it| it.detail.starts_with("cannot list the serviceimports")));
    }
}
