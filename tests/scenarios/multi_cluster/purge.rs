//! What a cluster that is purged, or gone, leaves behind.

use serde_json::json;

use super::{Members, exported, imported, in_full, sources, web};
use crate::run::{report, sync};

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
