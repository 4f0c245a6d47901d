//! One export and its import, from the beginning to the end.

use std::time::Duration;

use cloud_map_sync::time::Deadline;
use serde_json::json;

use super::{Members, condition, exported, imported, pods, slices, web};
use crate::run::sync;
use testbed::cloud_map::{Fault, FaultKind, RecordType, ServiceKind};
use testbed::function::invoke_until;
use testbed::kubernetes::ClusterIp;

#[tokio::test]
async fn export_becomes_an_import_in_every_member_and_the_next_sync_writes_nothing() {
    let members = Members::with_web(&["10.0.0.1", "10.0.0.2"]).await;
    let Members { blue, green, fleet, .. } = &members;

    members.converge().await;

    for cluster in [blue, green] {
        assert_eq!(imported(cluster, "web"), "blue 10.0.0.1:8080 10.0.0.2:8080");
        let import = cluster.service_import("shop", "web").expect("an import");
        assert_eq!(import["spec"]["type"], "ClusterSetIP");
        assert_eq!(import["spec"]["ports"][0]["port"], 80);
        assert_eq!(import["status"]["clusters"][0]["cluster"], "blue");
        let derived = cluster.service_object("shop", "derived-isrlchlhrq").expect("a Service");
        assert_eq!(import["spec"]["ips"][0], derived["spec"]["clusterIP"]);
        let slice = &slices(cluster, "web")[0];
        assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "derived-isrlchlhrq");
    }
    assert_eq!(condition(blue, "web", "Valid"), "True Valid");
    assert_eq!(condition(blue, "web", "Ready"), "True Exported");
    assert_eq!(condition(blue, "web", "Conflict"), "False NoConflicts");
    assert_eq!(fleet.addresses("shop", "web"), ["10.0.0.1", "10.0.0.2"]);
    let records = fleet.instances("clusterset.shop-set", "blue");
    assert_eq!(records.keys().collect::<Vec<_>>(), ["cluster", "export-7cb0d844a658ca77f191"]);
}

#[tokio::test]
async fn namespace_of_records_that_a_run_created_is_known_to_the_next_one() {
    let members = Members::start().await;
    // A remembered namespace without services would be looked for again.
    members.of_amber("cart", "10.2.0.1");
    members.fleet.dns_service("old", &[RecordType::A]);
    members.fleet.cloud_map.service(&members.fleet.http, "old", ServiceKind::Http);
    exported(&members.blue, web(), &["10.0.0.1"]);
    sync(&members.function).await;

    let report = sync(&members.function).await;

    for cluster in &report.clusters {
        let obstacles = &cluster.multi_cluster.as_ref().expect("a member").obstacles;
        assert!(obstacles.is_empty(), "{report}");
    }
}

#[tokio::test]
async fn pod_that_goes_leaves_the_imports_and_one_that_comes_is_added_to_them() {
    let members = Members::in_step(&["10.0.0.1", "10.0.0.2"]).await;
    pods(&members.blue, "web", &["10.0.0.2", "10.0.0.3"]);

    let report = members.sync_service("blue", "web").await;

    assert!(report.ok, "{report}");
    for cluster in [&members.blue, &members.green] {
        assert_eq!(imported(cluster, "web"), "blue 10.0.0.2:8080 10.0.0.3:8080");
    }
    members.assert_settled().await;
}

#[tokio::test]
async fn service_scaled_to_zero_keeps_its_import_and_ip_and_one_unexported_loses_all() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    let Members { blue, green, fleet, .. } = &members;
    let ip = || green.service_import("shop", "web").map(|import| import["spec"]["ips"].clone());
    let before = ip();
    pods(blue, "web", &[]);

    members.converge().await;

    assert_eq!(imported(green, "web"), "");
    assert_eq!(ip(), before);
    blue.unexport("shop", "web");
    members.converge().await;
    for cluster in [blue, green] {
        assert_eq!(cluster.service_import("shop", "web"), None);
        assert_eq!(cluster.service_object("shop", "derived-isrlchlhrq"), None);
        assert!(slices(cluster, "web").is_empty());
    }
    let records = fleet.instances("clusterset.shop-set", "blue");
    assert_eq!(records.keys().collect::<Vec<_>>(), ["cluster"]);
}

impl Members {
    /// A full sync imports `web` of `blue` at these endpoints, and `new`, into both clusters, and then is not over.
    async fn are_imported_before_the_run_ends(&self, web: &str) {
        let are_imported = async {
            let has =
                |cluster| imported(cluster, "web") == web && !imported(cluster, "new").is_empty();
            while !has(&self.blue) || !has(&self.green) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let sync = json!({ "action": "sync" });
        tokio::select! {
            () = are_imported => {}
            answer = invoke_until(&self.function, &sync, Deadline::after(Duration::from_mins(1))) => {
                panic!("the run is over and they are not imported: {answer:?}")
            }
        }
    }
}

/// Of the first sync only the records of the members are awaited.
#[tokio::test]
async fn imports_of_new_members_do_not_wait_for_their_registrations() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    exported(&members.green, ClusterIp::new("shop", "new").port("http", 8080), &["10.1.0.1"]);
    let late = FaultKind::Late(Duration::from_hours(1));
    members.fleet.cloud_map.inject(Fault::on("RegisterInstance", late).after(2).times(10));

    members.are_imported_before_the_run_ends("blue 10.0.0.1:8080").await;

    assert_eq!(condition(&members.blue, "web", "Ready"), "none");
}

/// Cloud Map's operations may take minutes where an account's rates are used up.
#[tokio::test]
async fn imports_of_served_clusters_do_not_wait_for_the_operations_of_cloud_map() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    members.fleet.cloud_map.adjust(|it| it.operation_delay = Duration::from_hours(1));
    pods(&members.blue, "web", &["10.0.0.2"]);
    let new = ClusterIp::new("shop", "new").port("http", 8080);
    exported(&members.green, new, &["10.1.0.1"]);

    members.are_imported_before_the_run_ends("blue 10.0.0.2:8080").await;

    assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.1"]);
    assert_eq!(condition(&members.green, "new", "Ready"), "none");
}
