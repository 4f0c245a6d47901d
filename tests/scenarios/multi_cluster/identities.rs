//! The ids of a cluster that are absent, invalid, in disagreement or changed. Nothing is taken away, and other members go
//! on.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::{
    CLUSTER_ID, Members, RECORDS_ALONE, SLICES, exported, imported, imported_from, in_full,
    obstacle_lines, obstacles, part, pods, service, web,
};
use crate::fleet::OWNER;
use crate::queue::batch_about;
use crate::run::{purge, report, sync, sync_of, synced};
use testbed::cloud_map::{Behaviour, Call, NamespaceKind};
use testbed::function::invoke;
use testbed::kubernetes::{ClusterIp, Fault, FaultKind};

const CLUSTERSET: &str = "clusterset.k8s.io";

impl Members {
    /// Both export: blue `web`, green `cart`.
    async fn with_one_export_each() -> Self {
        let members = Self::start().await;
        exported(&members.blue, web(), &["10.0.0.1"]);
        exported(&members.green, service("cart"), &["10.1.0.1"]);
        members.converge().await;
        members
    }

    /// The obstacle of blue after a sync in which a pod of green changes, which green imports.
    async fn obstacle_of_blue(&self, clusters: &str) -> (String, String) {
        pods(&self.green, "cart", &["10.1.0.2"]);
        let function = self.serving(clusters, &[]).await;

        let report = sync(&function).await;

        let [obstacle] = obstacle_lines(&report, "blue")[..] else {
            panic!("{}", in_full(&report))
        };
        self.assert_imported("web", "blue 10.0.0.1:8080", &in_full(&report));
        assert_eq!(self.fleet.addresses("shop", "web"), ["10.0.0.1"]);
        assert_eq!(imported(&self.green, "cart"), "green 10.1.0.2:8080");
        assert_eq!(self.fleet.addresses("shop", "cart"), ["10.1.0.2"]);
        (obstacle.code.to_string(), obstacle.text.clone())
    }
}

#[tokio::test]
async fn report_has_the_objects_to_apply_for_a_cluster_without_an_id_or_a_clusterset() {
    for (property, value) in [(CLUSTER_ID, "blue"), (CLUSTERSET, super::CLUSTERSET)] {
        let members = Members::with_one_export_each().await;
        assert!(members.blue.delete("clusterproperties", "", property));
        let (reason, detail) = members.obstacle_of_blue("blue,green").await;
        assert_eq!(reason, "NoIdentity");
        let apply = format!("apply a ClusterProperty of the name {property} (about.k8s.io)");
        assert!(detail.contains(&apply), "{detail}");
        members.blue.cluster_property(property, value);
        members.converge().await;
    }
}

#[tokio::test]
async fn setting_and_property_that_disagree_are_reported_with_both() {
    let members = Members::with_one_export_each().await;
    let blue = json!({ "cluster": "blue", "clusterId": "azure" });
    let clusters = json!([blue, { "cluster": "green" }]).to_string();

    let (reason, detail) = members.obstacle_of_blue(&clusters).await;

    assert_eq!(reason, "IdentityDisagrees");
    let expected =
        format!("CLUSTERS says \"azure\", and the ClusterProperty {CLUSTER_ID} says \"blue\"");
    assert!(detail.starts_with(&expected), "{detail}");
}

/// The exports and imports of the former `OWNER_ID` are those of another installation.
#[tokio::test]
async fn nothing_changes_under_another_owner_id_until_the_former_one_purges_the_clusters() {
    const NEW: &str = "team-b";
    let members = Members::with_one_export_each().await;
    members.forget();
    let function = members.serving("blue,green", &[("OWNER_ID", NEW)]).await;

    let report = sync(&function).await;

    members.assert_nothing_written(&in_full(&report));
    for cluster in ["blue", "green"] {
        let obstacles = obstacle_lines(&report, cluster);
        let reasons: Vec<&str> = obstacles.iter().map(|obstacle| &*obstacle.code).collect();
        assert_eq!(reasons, ["ClusterIdTaken", "OtherOwner"], "{}", in_full(&report));
        for obstacle in obstacles {
            let detail = &obstacle.text;
            assert!(detail.contains(OWNER) && detail.contains("purge"), "{detail}");
        }
    }

    for cluster in ["blue", "green"] {
        let purged = purge(&members.function, cluster).await;
        assert!(purged.ok, "{}", in_full(&purged));
    }
    let arns = ["blue", "green"].map(|cluster| members.fleet.sandbox.cluster_arn(cluster));
    members.fleet.cloud_map.watch_over(NEW, &arns);
    for _ in 0..2 {
        synced(&function).await;
    }
    members.assert_imported("web", "blue 10.0.0.1:8080", "");
    members.assert_imported("cart", "green 10.1.0.1:8080", "");
}

#[tokio::test]
async fn changed_id_rewrites_the_instances_and_moves_the_records_without_a_gap() {
    let members = Members::with_one_export_each().await;
    let Members { blue, green, fleet, .. } = &members;
    green.keep_ready("shop", "web");
    blue.cluster_property(CLUSTER_ID, "azure");
    fleet.cloud_map.forget_calls();

    synced(&members.function).await;

    let id = |place: &str, service: &str| fleet.cloud_map.find_service(place, service);
    let [azure, former] = ["azure", "blue"].map(|it| id("clusterset.shop-set", it));
    let calls: Vec<Call> = fleet.cloud_map.calls();
    let last_written = calls.iter().rposition(|it| it.is_write() && it.service == azure);
    let first_gone = calls.iter().position(|it| it.is_write() && it.service == former);
    assert!(last_written.is_some() && last_written < first_gone, "{calls:#?}");
    let of_web: Vec<&Call> =
        calls.iter().filter(|it| it.is_write() && it.service == id("shop", "web")).collect();
    assert!(of_web.iter().all(|it| it.operation == "RegisterInstance"), "{of_web:#?}");
    members.converge().await;
    members.assert_imported("web", "azure 10.0.0.1:8080", "");
    assert_eq!(fleet.values("shop", "web", "CLUSTER_ID"), ["azure"]);
    assert_eq!(fleet.instances("clusterset.shop-set", "azure").len(), 2);
    assert!(fleet.instances("clusterset.shop-set", "blue").is_empty());
    assert_eq!(green.gaps(), [""; 0]);
}

/// Another function moves the records with its exports.
#[tokio::test]
async fn function_that_only_imports_takes_no_records_of_exports_away_under_a_former_id() {
    let members = Members::with_one_export_each().await;
    members.blue.cluster_property(CLUSTER_ID, "azure");

    sync(&members.serving("blue", &[("MULTI_CLUSTER", "import")]).await).await;

    assert_eq!(members.fleet.instances("clusterset.shop-set", "blue").len(), 2);
}

/// A message about a name that the cluster does not export reads no record of its own.
#[tokio::test]
async fn message_of_a_cluster_with_a_taken_id_ends_no_export_of_the_holder() {
    let members = Members::with_one_export_each().await;
    members.green.cluster_property(CLUSTER_ID, "blue");
    let report = sync(&members.function).await;
    assert_eq!(obstacles(&report, "green")[0], "ClusterIdTaken");

    let answer = invoke(&members.function, &batch_about("green", "web")).await;

    members.assert_imported("web", "blue 10.0.0.1:8080", &format!("{:?}", answer.report));
}

/// Which of two namespaces has the records shows only under the id that the cluster had.
#[tokio::test]
async fn member_of_another_id_whose_records_may_be_in_two_namespaces_is_frozen() {
    let members = Members::with_one_export_each().await;
    let cloud_map = &members.fleet.cloud_map;
    cloud_map.shared_namespace("clusterset.shop-set", NamespaceKind::Http, "444455556666");
    members.blue.cluster_property(CLUSTER_ID, "azure");

    let report = sync(&members.serving("blue,green", &[]).await).await;

    let blue = part(&report, "blue");
    assert_eq!(obstacles(&report, "blue"), ["Namespace"]);
    assert_eq!((blue.is_frozen(), report.ok), (true, false));
    assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080");
}

/// Its endpoints in the import, from whichever id.
fn pods_of_web(members: &Members) -> Vec<String> {
    let pods: BTreeSet<String> =
        imported_from(&members.green, "web").into_values().flatten().collect();
    pods.into_iter().collect()
}

/// Its instances have the new id before there are records under it, which another function sees.
#[tokio::test]
async fn export_whose_record_has_no_room_under_a_new_id_stays_in_the_imports_by_the_former_one() {
    for functions in [&["blue,green"][..], &["blue", "green"]] {
        let members = Members::with_one_export_each().await;
        // One more than the records of the two clusters and of their exports: that of the cluster.
        let full = Behaviour { instances_per_namespace: 5, ..Behaviour::default() };
        let sync_all = async || {
            for clusters in functions {
                let report = sync(&members.serving(clusters, &[]).await).await;
                // Under both ids for a while.
                assert_eq!(pods_of_web(&members), ["10.0.0.1:8080"], "{}", in_full(&report));
            }
        };

        // By then no slice is ahead of Cloud Map.
        members.clock.advance(Duration::from_hours(1));
        sync_all().await;
        members.fleet.cloud_map.behave(full);
        members.blue.cluster_property(CLUSTER_ID, "azure");
        for _ in 0..2 {
            sync_all().await;
            let service = members.fleet.cloud_map.find_service("clusterset.shop-set", "azure");
            assert!(service.is_some());
        }

        members.fleet.cloud_map.behave(Behaviour::default());
        for _ in 0..2 {
            sync_all().await;
        }
        assert!(members.fleet.instances("clusterset.shop-set", "blue").is_empty());
    }
}

/// Its Service is away when the run begins, and back before the run has a record under the new id.
#[tokio::test]
async fn export_that_comes_back_while_its_cluster_gets_another_id_keeps_its_record() {
    let members = Members::with_one_export_each().await;
    members.blue.delete_service("shop", "web");
    members.blue.cluster_property(CLUSTER_ID, "azure");
    members.fleet.cloud_map.adjust(|it| it.operation_delay = Duration::from_secs(1));

    let (report, ()) = tokio::join!(sync(&members.function), async {
        while members.fleet.cloud_map.find_service("clusterset.shop-set", "azure").is_none() {
            sleep(Duration::from_millis(5)).await;
        }
        exported(&members.blue, web(), &["10.0.0.2"]);
    });

    let former = members.fleet.instances("clusterset.shop-set", "blue");
    assert!(former.keys().any(|id| id.starts_with("export-")), "{}", in_full(&report));
    sync(&members.function).await;
    assert_eq!(members.fleet.instances("clusterset.shop-set", "blue"), [].into());
    assert_eq!(imported(&members.green, "web"), "azure 10.0.0.2:8080");
}

/// Its record under the former id says what it was.
#[tokio::test]
async fn export_that_changes_with_the_id_of_its_cluster_is_in_no_conflict_with_what_it_was() {
    let members = Members::with_one_export_each().await;
    members.blue.cluster_property(CLUSTER_ID, "lime");
    let other = ClusterIp::new("shop", "web").port_of("TCP", "http", 81, 8081);
    exported(&members.blue, other, &["10.0.0.2"]);

    let report = sync(&members.function).await;

    assert_eq!(imported(&members.green, "web"), "lime 10.0.0.2:8081", "{}", in_full(&report));
}

/// Another function has listed the members before the change.
#[tokio::test]
async fn import_from_a_changed_id_stays_in_a_message_to_a_function_that_does_not_know_it() {
    let members = Members::with_one_export_each().await;
    members.clock.advance(Duration::from_hours(1));
    let [of_blue, of_green] =
        [members.serving("blue", &[]).await, members.serving("green", &[]).await];
    sync(&of_green).await;
    members.blue.cluster_property(CLUSTER_ID, "azure");
    sync(&of_blue).await;
    let message = sync_of("green", "web");

    let report = report(&of_green, &message).await;

    assert_eq!(pods_of_web(&members), ["10.0.0.1:8080"], "{}", in_full(&report));
}

/// The namespace of the endpoints is not among those that the function may see.
#[tokio::test(start_paused = true)]
async fn export_that_is_held_back_under_a_new_id_keeps_its_record_under_the_former_one() {
    let members = Members::with_one_export_each().await;
    members.clock.advance(Duration::from_hours(1));
    sync(&members.serving("blue,green", &[]).await).await;
    members.blue.cluster_property(CLUSTER_ID, "azure");
    let narrow = members.serving("blue,green", &RECORDS_ALONE).await;

    let records = |id: &str| members.fleet.instances("clusterset.shop-set", id).len();
    let other = members.serving("blue,green", &[]).await;
    for (function, expected) in [(&narrow, [2, 1]), (&narrow, [2, 1]), (&other, [0, 2])] {
        let report = sync(function).await;
        assert_eq!([records("blue"), records("azure")], expected, "{}", in_full(&report));
        assert_eq!(pods_of_web(&members), ["10.0.0.1:8080"], "{}", in_full(&report));
    }
}

#[tokio::test]
async fn endpoints_under_a_former_id_stay_where_those_under_the_new_one_cannot_be_seen() {
    let members = Members::with_one_export_each().await;
    members.blue.cluster_property(CLUSTER_ID, "azure");
    sync(&members.serving("blue", &[]).await).await;

    for settings in [&RECORDS_ALONE[..], &[]] {
        let report = sync(&members.serving("green", settings).await).await;
        assert_eq!(pods_of_web(&members), ["10.0.0.1:8080"], "{}", in_full(&report));
    }
}

/// They were rewritten before another cluster took the id that theirs had stated.
#[tokio::test]
async fn instances_with_the_id_of_another_cluster_count_for_the_one_that_has_the_record() {
    let members = Members::with_one_export_each().await;
    exported(&members.green, web(), &["10.1.0.2"]);
    members.converge().await;
    pods(&members.blue, "web", &["10.0.0.1", "10.0.0.2"]);
    sync(&members.serving("blue", &[]).await).await;
    let cloud_map = &members.fleet.cloud_map;
    let of_web = cloud_map.service_id("shop", "web");
    for (id, mut instance) in cloud_map.instances(&of_web) {
        instance.insert("CLUSTER_ID".to_owned(), "green".to_owned());
        members.fleet.put(&of_web, &id, &instance);
    }

    let report = sync(&members.serving("green", &[]).await).await;

    let both = ["10.0.0.1:8080", "10.0.0.2:8080", "10.1.0.2:8080"];
    assert_eq!(pods_of_web(&members), both, "{}", in_full(&report));
}

/// The run reads Cloud Map before the first of two clusters that state the id writes its record.
#[tokio::test(start_paused = true)]
async fn id_of_a_purged_cluster_is_of_the_first_one_that_takes_it() {
    let members = Members::with_one_export_each().await;
    let Members { blue, fleet, function, .. } = &members;
    purge(function, "green").await;
    blue.cluster_property(CLUSTER_ID, "green");

    let report = sync(function).await;

    assert_eq!(fleet.cloud_map.take_violations(), [""; 0], "{}", in_full(&report));
    assert_eq!(obstacles(&report, "green"), ["ClusterIdTaken"], "{}", in_full(&report));
}

/// The other one writes nothing until Cloud Map shows it.
#[tokio::test(start_paused = true)]
async fn id_whose_record_is_under_way_is_of_the_cluster_that_writes_it() {
    let members = Members::start().await;
    let Members { blue, green, fleet, function, .. } = &members;
    let records = fleet.cloud_map.ensure_service("clusterset.shop-set", "green");
    blue.cluster_property(CLUSTER_ID, "green");
    for cluster in [blue, green] {
        exported(cluster, web(), &[]);
    }
    let operation_delay = Duration::from_mins(20);
    fleet.cloud_map.behave(Behaviour { operation_delay, ..Behaviour::default() });

    let report = sync(function).await;

    assert_eq!(obstacles(&report, "green")[0], "ClusterIdTaken");
    sleep(2 * operation_delay).await;
    let holders = fleet.cloud_map.instances(&records).into_values();
    let holders: BTreeSet<_> = holders.map(|it| it["cloud-map-sync/cluster"].clone()).collect();
    assert_eq!(holders, [fleet.sandbox.cluster_arn("blue")].into(), "{}", in_full(&report));
}

/// Lists do not show the record of the first one yet.
#[tokio::test(start_paused = true)]
async fn of_two_clusters_that_change_to_one_id_the_second_one_writes_no_record() {
    let members = Members::with_one_export_each().await;
    for cluster in [&members.blue, &members.green] {
        cluster.cluster_property(CLUSTER_ID, "lime");
    }
    members.fleet.cloud_map.adjust(|it| it.list_lag = Duration::from_secs(1));
    members.fleet.cloud_map.forget_calls();

    let report = sync(&members.function).await;

    let calls = members.fleet.cloud_map.calls().into_iter();
    let records = calls.filter(|it| it.operation == "RegisterInstance");
    let records = records.filter(|it| it.instance.as_deref() == Some("cluster"));
    assert_eq!(records.count(), 1, "{}", in_full(&report));
}

/// An object of an import that changed meanwhile is looked at again, with the exports of the clusters.
#[tokio::test]
async fn cluster_with_a_taken_id_does_not_stand_in_for_the_holder_in_a_second_look() {
    let members = Members::with_one_export_each().await;
    let Members { blue, green, function, .. } = &members;
    green.cluster_property(CLUSTER_ID, "blue");
    pods(blue, "web", &["10.0.0.1", "10.0.0.2"]);
    blue.fail(Fault::once(SLICES, FaultKind::Status(409)).of_method("PATCH"));

    let report = sync(function).await;

    assert_eq!(imported(blue, "web"), "blue 10.0.0.1:8080 10.0.0.2:8080", "{}", in_full(&report));
}
