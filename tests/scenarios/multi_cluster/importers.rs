//! Clusters that only import. Each has one record in Cloud Map, that of itself: its imports know their Cloud Map by it.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::report::Report;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    CLUSTER_ID, Members, exported, held_back, imported, in_full, obstacle_lines, obstacles, part,
    pods, service, stale_lines, web, writes,
};
use crate::run::{plan, report, sync, sync_of, synced};
use testbed::cloud_map::{Behaviour, Call, Fault, FaultKind};
use testbed::kubernetes::Policy;

const GREEN: &str = r#"[{"cluster": "green", "multiCluster": "import"}]"#;

fn about(service: &str) -> Value {
    sync_of("green", service)
}

impl Members {
    /// blue exports `web`, by a function of its own, and amber, of AWS's controller, `mail`.
    async fn of_an_importer() -> (Self, Function) {
        let members = Self::start().await;
        exported(&members.blue, web(), &["10.0.0.1"]);
        members.amber("mail", &["10.2.0.9"]);
        let blue = members.serving("blue", &[]).await;
        assert!(sync(&blue).await.ok);
        (members, blue)
    }

    fn direction(&self, cluster: &str) -> Option<String> {
        let records = self.fleet.instances("clusterset.shop-set", cluster);
        records.get("cluster")?.get("cloud-map-sync/direction").cloned()
    }
}

#[tokio::test]
async fn record_of_a_cluster_that_only_imports_is_written_once_and_is_never_stale() {
    let (members, blue) = Members::of_an_importer().await;
    let green = members.serving(GREEN, &[]).await;
    assert!(sync(&green).await.ok);
    assert_eq!(members.direction("green").as_deref(), Some("import"));
    assert_eq!(members.direction("blue"), None);
    assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080");
    members.clock.advance(Duration::from_hours(24));
    members.fleet.cloud_map.forget_calls();

    let again = sync(&green).await;

    assert!(again.ok, "{}", in_full(&again));
    assert_eq!(members.fleet.cloud_map.writes(), 0, "{}", in_full(&again));
    let of_blue = sync(&blue).await;
    assert_eq!(stale_lines(&of_blue, "blue"), [""; 0], "{}", in_full(&of_blue));
}

/// Nothing in Cloud Map shows that the imports of such a message are of this Cloud Map: of amber there is no record.
#[tokio::test]
async fn message_before_the_first_full_sync_imports_nothing() {
    let (members, _) = Members::of_an_importer().await;
    let green = members.serving(GREEN, &[]).await;

    let before = report(&green, &about("mail")).await;
    assert!(before.ok && imported(&members.green, "mail").is_empty(), "{}", in_full(&before));
    let first = sync(&green).await;
    assert!(first.ok, "{}", in_full(&first));
    assert_eq!(imported(&members.green, "mail"), "amber 10.2.0.9:8080");

    members.amber("mail", &["10.2.0.9", "10.2.0.10"]);
    report(&green, &about("mail")).await;
    assert_eq!(imported(&members.green, "mail"), "amber 10.2.0.10:8080 10.2.0.9:8080");
}

#[tokio::test]
async fn cluster_that_begins_to_export_and_ends_has_the_record_of_each() {
    let (members, _) = Members::of_an_importer().await;
    let green = members.serving(GREEN, &[]).await;
    let exporting = members.serving("green", &[]).await;
    sync(&green).await;

    assert!(sync(&exporting).await.ok);
    assert_eq!(members.direction("green"), None);
    // Another function may still publish its exports.
    sync(&green).await;
    assert_eq!(members.direction("green"), None);
    members.clock.advance(Duration::from_mins(16));
    assert!(sync(&green).await.ok);
    assert_eq!(members.direction("green").as_deref(), Some("import"));
}

#[tokio::test]
async fn two_clusters_of_one_id_that_only_import_are_distinguished() {
    let (members, _) = Members::of_an_importer().await;
    let amsterdam = r#"[{"cluster": "blue", "multiCluster": "import", "clusterId": "green"}]"#;
    sync(&members.serving(GREEN, &[]).await).await;
    members.blue.cluster_property(CLUSTER_ID, "green");
    let other = members.serving(amsterdam, &[]).await;
    members.blue.forget_requests();

    for payload in [json!({ "action": "sync" }), json!({ "action": "sync", "cluster": "blue" })] {
        let report = report(&other, &payload).await;
        assert_eq!(obstacles(&report, "blue"), ["ClusterIdTaken"], "{}", in_full(&report));
    }

    assert_eq!(writes(&members.blue), [""; 0]);
}

#[tokio::test]
async fn imports_lose_nothing_in_another_cloud_map() {
    let (members, blue) = Members::of_an_importer().await;
    let role = "arn:aws:iam::777788889999:role/registry-writer";
    members.fleet.sandbox.role(role, None);
    let elsewhere = members.fleet.sandbox.cloud_map_of("eu-central-1", "777788889999");
    let of_role =
        json!([{ "cluster": "green", "multiCluster": "import", "registryRoleArn": role }]);
    let own = members.serving(GREEN, &[]).await;
    assert!(sync(&own).await.ok);
    let other = members.serving(&of_role.to_string(), &[]).await;
    members.green.forget_requests();

    for payload in [json!({ "action": "sync" }), about("web")] {
        let report = report(&other, &payload).await;
        assert_eq!(obstacles(&report, "green"), ["UnfamiliarRegistry"], "{}", in_full(&report));
    }

    assert_eq!((elsewhere.writes(), writes(&members.green)), (0, vec![]));
    members.blue.unexport("shop", "web");
    sync(&blue).await;
    assert!(sync(&own).await.ok, "its own Cloud Map");
    assert_eq!(members.green.service_import("shop", "web"), None);
}

/// A person deleted all imports, and left them.
#[tokio::test]
async fn slices_without_an_import_lose_nothing_in_another_cloud_map() {
    let (members, _) = Members::of_an_importer().await;
    let role = "arn:aws:iam::777788889999:role/registry-writer";
    members.fleet.sandbox.role(role, None);
    let elsewhere = members.fleet.sandbox.cloud_map_of("eu-central-1", "777788889999");
    let other = json!([{ "cluster": "green", "registryRoleArn": role }]);
    assert!(sync(&members.serving(GREEN, &[]).await).await.ok);
    let other = members.serving(&other.to_string(), &[]).await;
    for name in ["web", "mail"] {
        for mut slice in super::slices(&members.green, name) {
            slice["metadata"]["ownerReferences"] = json!([]);
            members.green.put(slice);
        }
        members.green.delete("serviceimports", "shop", name);
    }

    for payload in [about("web"), about("other"), json!({ "action": "sync" })] {
        let report = report(&other, &payload).await;
        assert_eq!(elsewhere.writes(), 0, "{}", in_full(&report));
    }

    assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080");
}

#[tokio::test]
async fn without_the_right_to_write_its_record_a_cluster_imports_nothing() {
    let (members, _) = Members::of_an_importer().await;
    let denied = Fault::on("RegisterInstance", FaultKind::AccessDenied).instance("cluster");
    members.fleet.cloud_map.inject(denied.always());
    let green = members.serving(GREEN, &[]).await;

    let first = sync(&green).await;

    assert_eq!(obstacles(&first, "green"), ["NoRecord"], "{}", in_full(&first));
    assert_eq!(members.green.service_import("shop", "web"), None);

    members.fleet.cloud_map.heal();
    assert!(sync(&green).await.ok);
    assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080");
}

/// The next function, which also exports, would find imports in a Cloud Map that does not know the cluster.
#[tokio::test(start_paused = true)]
async fn without_time_or_room_for_its_first_record_a_cluster_imports_nothing_yet() {
    let operation_delay = Duration::from_mins(20);
    let slow = Behaviour { operation_delay, ..Behaviour::default() };
    let full = Behaviour { instances_per_namespace: 0, ..Behaviour::default() };
    for behaviour in [slow, full] {
        let members = Members::start().await;
        members.amber("mail", &["10.2.0.9"]);
        members.fleet.cloud_map.behave(behaviour);

        let first = sync(&members.serving(GREEN, &[]).await).await;

        assert_eq!(members.green.service_import("shop", "mail"), None, "{}", in_full(&first));
        members.fleet.cloud_map.behave(Behaviour::default());
        sleep(operation_delay).await;
        let second = sync(&members.serving("green", &[]).await).await;
        assert!(second.ok, "{}", in_full(&second));
        assert_eq!(imported(&members.green, "mail"), "amber 10.2.0.9:8080");
    }
}

/// Two functions introduce green at once, and the one that only imports is the last to write its record: lists do not show
/// yet what the other one has written.
#[tokio::test]
async fn export_stays_though_the_record_of_its_cluster_says_that_it_only_imports() {
    let members = Members::start().await;
    exported(&members.green, web(), &[]);
    let both = members.serving(r#"["blue", "green"]"#, &[]).await;
    assert!(sync(&both).await.ok);
    let imports = || members.clusters().map(|it| it.service_import("shop", "web"));
    let before = imports();
    let records = members.fleet.cloud_map.service_id("clusterset.shop-set", "green");
    let mut own = members.fleet.instances("clusterset.shop-set", "green")["cluster"].clone();
    own.insert("cloud-map-sync/direction".to_owned(), "import".to_owned());
    members.fleet.put(&records, "cluster", &own);
    members.clock.advance(Duration::from_mins(2));

    for step in ["the record of green is read again", "it is remembered"] {
        let report = report(&both, &sync_of("blue", "web")).await;
        assert_eq!(imports(), before, "{step}: {}", in_full(&report));
    }
}

#[tokio::test]
async fn message_reads_no_record_of_a_cluster_that_only_imports() {
    let (members, _) = Members::of_an_importer().await;
    let both = members.serving(&format!("[\"blue\", {}", &GREEN[1..]), &[]).await;
    for _ in ["writes it", "reads it"] {
        assert!(sync(&both).await.ok);
    }
    let records = members.fleet.cloud_map.find_service("clusterset.shop-set", "green");
    members.clock.advance(Duration::from_mins(4));
    for step in ["the record of blue is read again", "it is remembered"] {
        members.fleet.cloud_map.forget_calls();
        let report = report(&both, &sync_of("blue", "web")).await;
        assert!(report.ok, "{step}: {}", in_full(&report));
        let calls = members.fleet.cloud_map.calls();
        let of_green = calls.iter().filter(|it| it.service == records);
        assert_eq!(of_green.collect::<Vec<_>>(), [] as [&Call; 0], "{step}");
    }
}

#[tokio::test]
async fn imports_stand_still_under_another_policy_with_one_line_and_exports_follow_it() {
    for policy in ["upsert-only", "create-only"] {
        let members = Members::with_web(&["10.0.0.1"]).await;
        members.converge().await;
        let function = members.serving("blue,green", &[("POLICY", policy)]).await;
        exported(&members.blue, service("api"), &["10.0.0.2"]);
        pods(&members.blue, "web", &["10.0.0.1", "10.0.0.3"]);
        members.forget();

        for _ in 0..2 {
            let report = synced(&function).await;

            for cluster in ["blue", "green"] {
                let obstacles = obstacle_lines(&report, cluster);
                let details: Vec<&str> = obstacles.iter().map(|it| it.text.as_str()).collect();
                let line = format!("POLICY={policy} keeps the imports of this cluster as they are");
                assert_eq!(details, [line], "{}", in_full(&report));
                assert!(held_back(&report, cluster).is_empty(), "{}", in_full(&report));
            }
        }

        assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.1", "10.0.0.3"]);
        assert_eq!(members.fleet.addresses("shop", "api"), ["10.0.0.2"]);
        members.assert_imported("web", "blue 10.0.0.1:8080", policy);
        assert_eq!(members.green.service_import("shop", "api"), None);
        members.converge().await;
        members.assert_imported("web", "blue 10.0.0.1:8080 10.0.0.3:8080", policy);
    }
}

fn assert_imports_of_green(report: &Report, expected: usize, why: &str) {
    assert_eq!(part(report, "green").imports, expected, "{why}: {}", in_full(report));
}

#[tokio::test]
async fn imports_are_counted_as_they_stand_in_the_cluster_after_the_run() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    let Members { green, fleet, clock, function, .. } = &members;
    members.amber("mail", &["10.2.0.9"]);
    green.enforce_admission(Some(Policy { excluded: vec!["shop".to_owned()] }));
    assert_imports_of_green(&sync(function).await, 0, "the namespace is excluded");
    green.enforce_admission(Some(Policy::default()));
    clock.advance(Duration::from_mins(11));
    assert_imports_of_green(&plan(function).await, 2, "both are to be created");
    assert_imports_of_green(&synced(function).await, 2, "both were created");

    fleet.cloud_map.deny("ListNamespaces");
    assert_imports_of_green(&sync(function).await, 2, "Cloud Map cannot be read");
    fleet.cloud_map.heal();

    members.amber("mail", &[]);
    let mail = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceimports/mail";
    green.refuse_method("DELETE", mail, 500);
    assert_imports_of_green(&sync(function).await, 2, "the API server does not delete one");
    green.clear_faults();
    assert_imports_of_green(&plan(function).await, 1, "one is to be deleted");
    assert_imports_of_green(&synced(function).await, 1, "one was deleted");
}
