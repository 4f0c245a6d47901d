//! Members that end: a cluster that is lost is an orphan and stale, and stays in the imports; what a cluster that is
//! purged, or gone, leaves behind; and the claims of exports when empty Cloud Map services are deleted.

use std::time::Duration;

use cloud_map_sync::model::GuardState;
use cloud_map_sync::report::Report;
use cloud_map_sync::time::Deadline;
use serde_json::json;

use super::{
    LATER, Members, exported, exported_at, imported, in_full, obstacle_lines, part, service,
    slices, stale_lines, web,
};
use crate::fleet::{annotated, give_pods, ips, refs};
use crate::run::{metric, purge, report, sync, synced, warnings};
use testbed::function::{invoke, invoke_until};

#[tokio::test]
async fn lost_cluster_stays_in_the_imports_until_it_is_purged_and_the_loss_is_confirmed() {
    let members = Members::start().await;
    exported(&members.green, web(), &refs(&ips("10.1.0", 1..=12)));
    members.converge().await;
    let endpoints = imported(&members.blue, "web");
    let arn = members.fleet.sandbox.cluster_arn("green");
    members.fleet.sandbox.aws().eks.delete(&arn);
    let function = members.serving("blue", &[]).await;
    members.clock.advance(Duration::from_hours(1));

    let lost = synced(&function).await;

    assert_eq!(lost.orphans.len(), 1);
    assert_eq!(lost.orphans[0].instances, 14, "endpoints, record and cluster record");
    assert_eq!(stale_lines(&lost, "blue").len(), 1);
    assert_eq!(part(&lost, "blue").guard, None);
    assert_eq!(imported(&members.blue, "web"), endpoints);

    let purged = purge(&function, &arn).await;
    assert!(purged.ok, "{}", in_full(&purged));
    assert_eq!(members.fleet.addresses("shop", "web"), [""; 0]);
    assert!(members.fleet.instances("clusterset.shop-set", "green").is_empty());
    assert_eq!(imported(&members.blue, "web"), endpoints, "a purge changes no cluster");

    let held = sync(&function).await;
    let guard = part(&held, "blue").guard.as_ref().expect("a verdict");
    assert_eq!((guard.state, guard.loss), (GuardState::Held, 12), "{}", in_full(&held));
    assert!(held.orphans.is_empty() && stale_lines(&held, "blue").is_empty());
    assert_eq!(imported(&members.blue, "web"), endpoints);

    let confirmed = report(&function, &json!({ "action": "confirm" })).await;
    assert!(confirmed.ok, "{}", in_full(&confirmed));
    assert_eq!(imported(&members.blue, "web"), "");
    assert_eq!(members.blue.service_import("shop", "web"), None);
}

#[tokio::test]
async fn purge_of_a_cluster_takes_its_exports_and_the_imports_of_others_end() {
    let members = Members::with_exports().await;
    let green = members.fleet.sandbox.cluster_arn("green");
    let function = members.serving("blue", &[]).await;
    let orphaned = sync(&function).await;
    assert_eq!(orphaned.orphans.len(), 1, "{}", in_full(&orphaned));
    assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.1", "10.1.0.1"]);

    let purged = purge(&function, &green).await;

    assert!(purged.ok, "{}", in_full(&purged));
    assert!(warnings(&purged)[0].contains("delete them there: kubectl delete"), "{purged}");
    assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.1"]);
    assert!(members.fleet.instances("clusterset.shop-set", "green").is_empty());
    let after = sync(&function).await;
    assert!(after.ok && after.orphans.is_empty(), "{}", in_full(&after));
    assert_eq!(imported(&members.blue, "web"), "blue 10.0.0.1:8080");
}

/// It stays in `CLUSTERS` for its annotated Services, and their names would be empty until its next full sync.
#[tokio::test]
async fn purge_of_the_clusterset_alone_leaves_the_annotated_services() {
    let members = Members::with_exports().await;
    let Members { green, fleet, .. } = &members;
    green.service(annotated("mail", "prod", "mail"));
    give_pods(green, "mail", &["10.1.0.9"]);
    members.converge().await;
    let off = json!(["blue", { "cluster": "green", "multiCluster": "off" }]).to_string();
    let function = members.serving(&off, &[]).await;
    let before = fleet.instances("prod", "mail");
    let command = json!({ "action": "purge", "cluster": "green", "clusterset": true });
    let planned = report(&function, &command).await;
    assert_eq!(warnings(&planned).len(), 1, "it exists in EKS: {}", in_full(&planned));

    let confirmed =
        json!({ "action": "purge", "cluster": "green", "clusterset": true, "confirm": true });
    let purged = report(&function, &confirmed).await;

    assert!(purged.ok && purged.counts.imported > 0, "{}", in_full(&purged));
    assert_eq!(fleet.instances("prod", "mail"), before);
    assert!(fleet.instances("clusterset.shop-set", "green").is_empty());
    assert_eq!(fleet.addresses("shop", "web"), ["10.0.0.1"]);
    assert_eq!(green.service_import("shop", "web"), None);
    let created = json!({ "action": "status", "created": true });
    let status = invoke(&function, &created).await.response.expect("a status").to_string();
    assert!(status.contains(r#""name":"green","namespace":"clusterset.shop-set""#), "{status}");
}

/// Imports without a record of their cluster would be those of an unfamiliar Cloud Map.
#[tokio::test]
async fn purge_that_is_cut_short_has_taken_the_imports_before_the_record_of_their_cluster() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    members.fleet.cloud_map.adjust(|it| it.operation_delay = Duration::from_hours(1));
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
        let members = Members::with_web(&["10.0.0.1"]).await;
        members.green.bind_multi_cluster_roles(&["cloud-map-sync-import"]);
        let clusters = json!(["blue", { "cluster": "green", "multiCluster": "import" }]);
        sync(&members.serving(&clusters.to_string(), &[]).await).await;
        assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080");
        if is_refused {
            let path = "/apis/multicluster.x-k8s.io/v1beta1/serviceimports";
            members.green.refuse(path, 403);
        }
        let off = members.serving("blue,green", &[("MULTI_CLUSTER", "off")]).await;

        let purged = purge(&off, "green").await;

        assert_eq!(slices(&members.green, "web").len(), 0, "{}", in_full(&purged));
        assert_eq!(members.green.service_import("shop", "web").is_some(), is_refused);
        let said = obstacle_lines(&purged, "green");
        assert_eq!(said.len(), usize::from(is_refused), "{}", in_full(&purged));
        assert!(said.iter().all(|it| it.text.starts_with("cannot list the serviceimports")));
    }
}

impl Members {
    /// Both export `web`, and green alone exports `cart`.
    async fn with_exports() -> Self {
        let members = Self::start().await;
        exported_at(&members.blue, web(), &["10.0.0.1"], LATER);
        exported(&members.green, web(), &["10.1.0.1"]);
        exported(&members.green, service("cart"), &["10.1.0.2"]);
        members.converge().await;
        members
    }
}

fn stale(report: &Report) -> Vec<&str> {
    let members = stale_lines(report, "blue").into_iter();
    members.filter_map(|text| text.split(' ').nth(1)).collect()
}

#[tokio::test]
async fn member_without_a_heartbeat_is_reported_and_stays_in_the_imports() {
    let members = Members::with_exports().await;
    members.amber("cart", &["10.2.0.1"]);
    let blue_alone = members.serving("blue", &[]).await;
    let report = sync(&blue_alone).await;
    assert_eq!((stale(&report), metric(&report, "StaleClusters")), (vec![], Some(0)));
    members.clock.advance(Duration::from_mins(16));

    let report = sync(&blue_alone).await;

    assert_eq!(stale(&report), ["green"], "{}", in_full(&report));
    assert_eq!(metric(&report, "StaleClusters"), Some(1));
    let text = report.to_string();
    assert!(text.contains("! stale      member green (arn:aws:eks:"), "{text}");
    assert_eq!(imported(&members.blue, "web"), "blue 10.0.0.1:8080, green 10.1.0.1:8080");
    let about_web = members.sync_service("blue", "web").await;
    assert!(about_web.ok && stale(&about_web).is_empty(), "{}", in_full(&about_web));
    let later = members.serving("blue", &[("STALE_CLUSTERS_AFTER", "17m")]).await;
    assert_eq!(stale(&sync(&later).await), [""; 0]);

    // Read in the same run, green is well, whatever its record said before.
    members.clock.advance(Duration::from_hours(1));
    let report = sync(&members.function).await;
    assert_eq!((stale(&report), metric(&report, "StaleClusters")), (vec![], Some(0)));
}

#[tokio::test]
async fn heartbeat_is_written_by_a_full_sync_when_it_is_five_minutes_old() {
    let members = Members::with_exports().await;
    let heartbeat = || {
        let records = members.fleet.instances("clusterset.shop-set", "green");
        records["cluster"]["cloud-map-sync/heartbeat"].clone()
    };
    let first = heartbeat();
    members.clock.advance(Duration::from_mins(5));
    members.assert_settled().await;
    members.clock.advance(Duration::from_secs(1));
    members.sync_service("green", "web").await;
    assert_eq!(heartbeat(), first, "a message is no heartbeat");
    sync(&members.function).await;
    assert_eq!([first, heartbeat()], ["2026-11-21T10:51:00Z", "2026-11-21T10:56:01Z"]);
}

#[tokio::test]
async fn member_that_is_read_after_a_pause_is_not_stale_though_the_guard_holds_its_exports() {
    let members = Members::with_sixteen_pods().await;
    exported_at(&members.green, service("api"), &["10.1.0.1"], LATER);
    members.converge().await;
    let before = imported(&members.green, "api");
    members.clock.advance(Duration::from_hours(1));
    assert!(members.blue.unexport("shop", "api") && members.blue.unexport("shop", "cart"));

    let held = sync(&members.function).await;

    let guard = held.clusters[0].guard.as_ref();
    assert!(guard.is_some_and(|guard| guard.state.holds()), "{}", in_full(&held));
    assert_eq!(stale(&held), [""; 0]);
    assert_eq!(imported(&members.green, "api"), before);
}
