//! What keeps a cluster out of its clusterset takes nothing away from anybody.

use std::time::Duration;

use super::{Members, exported, imported, in_full, part, sources, web};
use serde_json::json;

use crate::run::{report, sync};
use testbed::cloud_map::{Behaviour, Fault, FaultKind};

const CREATED: &str = "2026-01-01T00:00:00Z";

/// The codes of the obstacles of a cluster in a report.
fn obstacles(report: &cloud_map_sync::report::Report, cluster: &str) -> Vec<String> {
    let found = report.clusters.iter().find(|it| it.cluster.ends_with(cluster));
    let report = found.and_then(|it| it.multi_cluster.as_ref()).expect("a report");
    report.obstacles.iter().map(|it| it.reason.to_string()).collect()
}

/// Neither has a record yet, so each would write the same one in its first sync, also while that of the other is under way.
#[tokio::test(start_paused = true)]
async fn of_two_new_clusters_that_state_one_id_one_becomes_a_member() {
    for operation_delay in [Duration::ZERO, Duration::from_secs(90)] {
        let members = Members::start().await;
        let cloud_map = &members.fleet.cloud_map;
        cloud_map.behave(Behaviour { operation_delay, ..Behaviour::default() });
        members.green.cluster_property("cluster.clusterset.k8s.io", "blue");
        members.amber("web", &["10.2.0.1"]);

        for _ in 0..4 {
            sync(&members.function).await;
            assert_eq!(cloud_map.take_violations(), [""; 0]);
        }

        let report = sync(&members.function).await;
        let taken: Vec<&str> =
            ["blue", "green"].into_iter().filter(|it| !obstacles(&report, it).is_empty()).collect();
        let [taken] = taken[..] else { panic!("{}", in_full(&report)) };
        assert_eq!(obstacles(&report, taken), ["ClusterIdTaken"], "{}", in_full(&report));
        let cluster = if taken == "blue" { &members.blue } else { &members.green };
        assert!(imported(cluster, "web").is_empty(), "{}", in_full(&report));
        cloud_map.behave(Behaviour::default());
        cluster.cluster_property("cluster.clusterset.k8s.io", "green");
        members.converge().await;
        assert_eq!(imported(cluster, "web"), sources([("amber", &["10.2.0.1:8080"])]));
    }
}

#[tokio::test]
async fn definitions_that_are_installed_later_are_found_by_the_same_process() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    members.green.serve_multi_cluster_versions(&[]);
    let report = sync(&members.function).await;
    assert_eq!(obstacles(&report, "green"), ["NoMultiClusterApi"], "{}", in_full(&report));
    assert!(report.ok && !part(&report, "green").frozen, "it was never a member");

    members.green.serve_multi_cluster();
    members.converge().await;

    assert_eq!(imported(&members.green, "web"), sources([("blue", &["10.0.0.1:8080"])]));
}

/// `green` imports what `blue` exports, and something that only a person can mend keeps it out of the clusterset.
#[tokio::test]
async fn frozen_member_is_held_back_and_not_good_until_it_is_purged() {
    type Breaks = fn(&Members);
    let cases: [(&str, Breaks); 4] = [
        ("NoIdentity", |members| {
            assert!(members.green.delete("clusterproperties", "", "cluster.clusterset.k8s.io"));
        }),
        ("InvalidIdentity", |members| {
            members.green.cluster_property("cluster.clusterset.k8s.io", "No id");
        }),
        ("ClusterIdTaken", |members| {
            members.green.cluster_property("cluster.clusterset.k8s.io", "blue");
        }),
        ("NoMultiClusterApi", |members| members.green.serve_multi_cluster_versions(&["v1alpha1"])),
    ];
    for (reason, breaks) in cases {
        let members = Members::start().await;
        exported(&members.blue, web(), &["10.0.0.1"], CREATED);
        members.converge().await;
        breaks(&members);
        let function = members.serving("blue,green", &[]).await;

        let frozen = sync(&function).await;

        assert_eq!(obstacles(&frozen, "green"), [reason], "{}", in_full(&frozen));
        let green = frozen.clusters.iter().find(|it| it.cluster.ends_with("green"));
        let green = green.expect("a report");
        assert!(!frozen.ok && !green.is_complete() && part(&frozen, "green").frozen, "{reason}");
        assert_eq!(green.counts.held_back, 1, "{reason}");
        let purge = json!({ "action": "purge", "cluster": "green", "confirm": true });
        let purged = report(&function, &purge).await;
        assert!(purged.ok, "{}", in_full(&purged));
        let quiet = sync(&function).await;
        assert_eq!(obstacles(&quiet, "green"), [reason], "{}", in_full(&quiet));
        assert!(quiet.ok && !part(&quiet, "green").frozen, "{}", in_full(&quiet));
    }
}

#[tokio::test]
async fn run_that_could_not_read_the_services_that_an_import_rests_on_is_not_complete() {
    let members = Members::start().await;
    exported(&members.green, web(), &["10.0.0.1"], CREATED);
    members.converge().await;
    let blue = members.serving("blue", &[]).await;
    let cloud_map = &members.fleet.cloud_map;
    for place in [("shop", "web"), ("clusterset.shop-set", "green")] {
        let unread = cloud_map.find_service(place.0, place.1).expect("a service");
        let fault = Fault::on("ListInstances", FaultKind::ExpiredToken).service(&unread).always();
        cloud_map.inject(fault);
        let report = sync(&blue).await;
        assert!(!report.ok, "{place:?}: {}", in_full(&report));
        assert_eq!(obstacles(&report, "blue"), ["Unreadable"], "{place:?}: {}", in_full(&report));
        assert_eq!(imported(&members.blue, "web"), sources([("green", &["10.0.0.1:8080"])]));
        cloud_map.heal();
        assert!(sync(&blue).await.ok, "{place:?}");
    }
}
