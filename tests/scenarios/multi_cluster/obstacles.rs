//! What keeps a cluster out of its clusterset takes nothing away from anybody.

use std::time::Duration;

use super::{Members, condition, exported, imported, in_full, part, sources, web};
use serde_json::json;

use crate::run::{report, sync};
use testbed::cloud_map::Behaviour;
use testbed::kubernetes::{Export, Fault, FaultKind};

const CREATED: &str = "2026-01-01T00:00:00Z";

/// The codes of the obstacles of a cluster in a report.
fn obstacles(report: &cloud_map_sync::report::Report, cluster: &str) -> Vec<String> {
    let found = report.clusters.iter().find(|it| it.cluster.ends_with(cluster));
    let report = found.and_then(|it| it.multi_cluster.as_ref()).expect("a report");
    report.obstacles.iter().map(|it| it.reason.to_string()).collect()
}

#[tokio::test]
async fn api_that_is_absent_or_old_is_reported_with_the_command_and_removes_nothing() {
    for versions in [&[][..], &["v1alpha1"]] {
        let members = Members::start().await;
        exported(&members.blue, web(), &["10.0.0.1"], CREATED);
        members.converge().await;
        members.blue.serve_multi_cluster_versions(versions);
        members.fleet.web("mail", "prod", &["10.0.1.1"]);
        let function = members.serving("blue,green", &[]).await;

        let report = sync(&function).await;

        let [obstacle] = part(&report, "blue").obstacles.as_slice() else {
            panic!("{}", in_full(&report))
        };
        assert_eq!(obstacle.reason, "NoMultiClusterApi");
        assert!(obstacle.detail.contains("; kubectl apply -f $CRDS/"), "{}", obstacle.detail);
        assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.1"]);
        assert_eq!(members.fleet.addresses("prod", "mail"), ["10.0.1.1"], "annotated ones go on");
        for cluster in [&members.blue, &members.green] {
            assert_eq!(imported(cluster, "web"), sources([("blue", &["10.0.0.1:8080"])]));
        }
    }
}

#[tokio::test]
async fn forbidden_list_is_never_an_empty_one_and_names_the_right_and_the_command() {
    for (path, list) in [
        ("/apis/multicluster.x-k8s.io/v1beta1/serviceexports", "the ServiceExports"),
        ("/apis/multicluster.x-k8s.io/v1beta1/serviceimports", "the serviceimports"),
    ] {
        let members = Members::start().await;
        exported(&members.blue, web(), &["10.0.0.1"], CREATED);
        members.converge().await;
        members.blue.fail(Fault::always(path, FaultKind::Status(403)));

        let report = sync(&members.function).await;

        assert!(!report.ok, "{}", in_full(&report));
        let [obstacle] = part(&report, "blue").obstacles.as_slice() else {
            panic!("{}", in_full(&report))
        };
        assert_eq!(obstacle.reason, "Unreadable");
        let told = format!(
            "cannot list {list} of the cluster: it is not allowed (403): kubectl apply -k deploy/multi-cluster"
        );
        assert!(obstacle.detail.starts_with(&told), "{}", obstacle.detail);
        assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.1"]);
        for cluster in [&members.blue, &members.green] {
            assert_eq!(imported(cluster, "web"), sources([("blue", &["10.0.0.1:8080"])]));
        }
        members.blue.clear_faults();
        members.converge().await;
    }
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
async fn cluster_of_awss_controller_is_left_to_it() {
    let members = Members::start().await;
    members.blue.service(web());
    let export =
        Export::new("shop", "web").finalizer("multicluster.k8s.aws/service-export-finalizer");
    members.blue.put(export.into());

    let report = sync(&members.function).await;

    assert_eq!(obstacles(&report, "blue"), ["AnotherController"], "{}", in_full(&report));
    assert!(members.fleet.instances("clusterset.shop-set", "blue").is_empty());
    assert_eq!(condition(&members.blue, "web", "Valid"), "none");
}

#[tokio::test]
async fn records_need_their_namespace() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    let settings = [("CLUSTERS", "blue,green"), ("MULTI_CLUSTER", "on")];
    let function = members.fleet.function_with(&settings).await;

    let report = sync(&function).await;

    assert_eq!(obstacles(&report, "blue"), ["Namespace"], "{}", in_full(&report));
    assert_eq!(members.fleet.cloud_map.find_namespace("clusterset.shop-set"), None);
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
