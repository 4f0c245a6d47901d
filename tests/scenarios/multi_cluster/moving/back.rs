//! The way back: AWS's controller runs again, and what is left of ours is purged.

use cloud_map_sync::report::Report;
use serde_json::{Value, json};

use super::super::{imported, in_full, pods};
use super::{Moving, of};
use crate::run::report;
use testbed::aws_controller::FINALIZER;

#[tokio::test]
async fn cluster_moves_back_without_a_gap() {
    let moving = Moving::start().await;
    let Moving { members, amber, aws, .. } = &moving;
    moving.keep_ready();
    moving.take_finalizers_off();
    moving.allow_adoption("web");
    assert!(moving.adopt().await.ok);
    moving.converge(&moving.function).await;
    members.fleet.cloud_map.allow_adoption(&[]);
    for service in amber.objects("services", "shop") {
        let name = service["metadata"]["name"].as_str().expect("a name");
        if name.starts_with("imported-") {
            amber.delete("services", "shop", name);
        }
    }
    // One more pod: this one is registered under an id of ours.
    pods(amber, "web", &["10.2.0.1", "10.2.0.2", "10.2.0.3"]);
    moving.converge(&moving.function).await;

    let clusters = json!([
        { "cluster": "blue" }, { "cluster": "green" },
        { "cluster": "amber", "multiCluster": "off" },
    ])
    .to_string();
    let settings =
        [("CLUSTERS", &*clusters), ("MULTI_CLUSTER", "on"), ("CREATE_NAMESPACES", "true")];
    let function = members.fleet.function_with(&settings).await;
    aws.run();
    moving.converge(&function).await;
    let purge = json!({ "action": "purge", "cluster": "amber", "confirm": true });
    let report = report(&function, &purge).await;

    assert!(report.ok, "{}", in_full(&report));
    moving.converge(&function).await;
    moving.assert_no_gap();
    assert!(members.fleet.instances("clusterset.shop-set", "amber").is_empty());
    let web = members.fleet.instances("shop", "web");
    let ids = ["tcp-10_2_0_1-8080", "tcp-10_2_0_2-8080", "tcp-10_2_0_3-8080"];
    assert_eq!(web.keys().collect::<Vec<_>>(), ids);
    assert!(web.values().all(|it| !it.contains_key("cloud-map-sync/exporter")));
    for name in ["web", "api"] {
        let import = amber.service_import("shop", name).expect("an import of AWS's controller");
        assert_eq!(import["metadata"]["labels"]["cloud-map-sync/owner"], Value::Null);
        assert!(
            import["metadata"]["annotations"]["multicluster.k8s.aws/derived-service"].is_string()
        );
    }
    let ours = |plural: &str| {
        let all = amber.objects(plural, "shop").into_iter();
        let labelled = |it: &Value| !it["metadata"]["labels"]["cloud-map-sync/owner"].is_null();
        all.filter(labelled).count()
    };
    assert_eq!([ours("services"), ours("endpointslices"), ours("serviceimports")], [0; 3]);
    let green = imported(&members.green, "web");
    assert_eq!(green["amber"].len(), 3, "{green:?}");
    assert_eq!(
        amber.service_export("shop", "web").expect("it stays")["metadata"]["finalizers"][0],
        FINALIZER
    );
}

#[tokio::test]
async fn purge_before_awss_controller_serves_the_imports_leaves_them() {
    let moving = Moving::start().await;
    let Moving { amber, aws, .. } = &moving;
    moving.take_finalizers_off();
    moving.allow_adoption("web");
    assert!(moving.adopt().await.ok);
    moving.converge(&moving.function).await;
    let imports = amber.objects("serviceimports", "");
    let purge = json!({ "action": "purge", "cluster": "amber" });

    let held = |report: &Report| {
        let part = of(report, "amber").multi_cluster.clone().expect("a part");
        assert_eq!(part.changes.len(), 0, "{}", in_full(report));
        part.held_back.iter().map(|line| line.reason.to_string()).collect::<Vec<_>>()
    };
    let planned = report(&moving.function, &purge).await;
    assert_eq!(held(&planned), ["ServicesOfAws"; 2], "old Services are never deleted by us");
    aws.export();
    let planned = report(&moving.function, &purge).await;
    assert_eq!(held(&planned), ["NotTakenBack"; 2], "their IPs are still ours");
    assert_eq!(amber.objects("serviceimports", ""), imports);
}
