//! The conditions of exports whose answer a run does not know: an exporter of the name was not read.

use serde_json::json;

use super::{LATER, Members, condition, exported_at, in_full};
use crate::run::{report, sync, sync_of, synced};
use testbed::kubernetes::ClusterIp;

/// blue and green export `web` with different ports.
async fn in_conflict() -> Members {
    let members = Members::with_web(&["10.0.0.1"]).await;
    let other = ClusterIp::new("shop", "web").port_of("TCP", "admin", 81, 8081);
    exported_at(&members.green, other, &["10.1.0.1"], LATER);
    members.converge().await;
    members
}

fn conflict(members: &Members) -> String {
    condition(&members.blue, "web", "Conflict")
}

#[tokio::test]
async fn conflict_stays_as_it_is_while_a_served_exporter_is_not_read() {
    for paths in [["/", "/"], ["/apis/multicluster.x-k8s.io/", "/api/v1/"]] {
        let members = in_conflict().await;
        assert_eq!(conflict(&members), "True PortConflict");
        for path in paths {
            members.green.refuse(path, 503);
        }

        for payload in [json!({ "action": "sync", "cluster": "blue" }), sync_of("blue", "web")] {
            let report = report(&members.function, &payload).await;
            assert_eq!(conflict(&members), "True PortConflict", "{}", in_full(&report));
        }

        members.green.clear_faults();
        members.green.unexport("shop", "web");
        synced(&members.function).await;
        assert_eq!(conflict(&members), "False NoConflicts");
    }
}

/// Another function serves the other exporter.
#[tokio::test]
async fn conflict_stays_as_it_is_while_records_of_another_exporter_are_not_read() {
    let members = in_conflict().await;
    let records = members.fleet.cloud_map.service_id("clusterset.shop-set", "green");
    let function = members.serving("blue", &[]).await;
    sync(&function).await;
    assert_eq!(conflict(&members), "True PortConflict");
    for operation in ["ListInstances", "GetInstance"] {
        members.fleet.cloud_map.deny_in(&records, operation);
    }

    for payload in [json!({ "action": "sync" }), sync_of("blue", "web")] {
        let report = report(&members.serving("blue", &[]).await, &payload).await;
        assert_eq!(conflict(&members), "True PortConflict", "{}", in_full(&report));
    }
}
