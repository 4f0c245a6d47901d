//! The conditions of exports whose answer a run does not know: an exporter of the name was not read, or the whole cluster
//! is held back.

use serde_json::json;

use super::{
    CLUSTER_ID, LATER, Members, condition, exported, exported_at, in_full, message_of, obstacles,
    service, writes,
};
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

/// green exports `cart`, and something that only a person can mend keeps it out of the clusterset.
#[tokio::test]
async fn exports_of_a_cluster_that_is_held_back_say_why() {
    type Breaks = fn(&Members);
    let id = |members: &Members, id: &str| drop(members.green.cluster_property(CLUSTER_ID, id));
    let cases: [(&str, Breaks); 4] = [
        ("NoIdentity", |it| assert!(it.green.delete("clusterproperties", "", CLUSTER_ID))),
        ("InvalidIdentity", |it| drop(it.green.cluster_property(CLUSTER_ID, "No id"))),
        ("ClusterIdTaken", |it| drop(it.green.cluster_property(CLUSTER_ID, "blue"))),
        ("ClusterIdChanged", |it| drop(it.green.cluster_property(CLUSTER_ID, "lime"))),
    ];
    for (reason, breaks) in cases {
        let members = Members::with_web(&["10.0.0.1"]).await;
        exported(&members.green, service("cart"), &["10.1.0.1"]);
        members.converge().await;
        breaks(&members);
        exported(&members.green, service("mail"), &["10.1.0.2"]);
        let function = members.serving("blue,green", &[]).await;

        let held = sync(&function).await;

        assert_eq!(obstacles(&held, "green"), [reason], "{}", in_full(&held));
        for name in ["cart", "mail"] {
            let ready = condition(&members.green, name, "Ready");
            assert_eq!(ready, format!("False {reason}"), "{name}");
            assert!(message_of(&members.green, name, "Ready").len() > 40, "{reason}");
        }
        assert_eq!(condition(&members.green, "cart", "Valid"), "True Valid", "{reason}");
        members.forget();
        sync(&function).await;
        report(&function, &sync_of("green", "mail")).await;
        assert_eq!(writes(&members.green), [""; 0], "{reason}: it was said");
        id(&members, "green");
        members.converge().await;
        assert_eq!(condition(&members.green, "cart", "Ready"), "True Exported", "{reason}");
    }
}
