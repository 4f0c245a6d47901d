//! What services across clusters cost: the number of calls to Cloud Map and of requests to each cluster. A run that
//! begins to cost more fails here.

use std::time::Duration;

use cloud_map_sync::function::Function;
use serde_json::json;
use tokio::time::advance;

use super::many::Many;
use super::{exported, in_full, part, pods, service, web};
use crate::queue::{batch, failures, message};
use crate::run::sync;
use testbed::function::invoke;
use testbed::kubernetes::ClusterIp;

const CREATED: &str = "2026-01-01T00:00:00Z";

/// All members export `shop/web`, and everything is in step.
async fn in_step(count: usize) -> Many {
    let many = Many::start(count, &["shop"], &[]).await;
    for (index, cluster) in many.clusters.iter().enumerate() {
        exported(cluster, web(), &[&format!("10.{index}.0.1")], CREATED);
    }
    many.converge().await;
    many
}

async fn tell(function: &Function, service: &str) {
    let body = json!({ "cluster": "c0", "namespace": "shop", "service": service });
    let answer = invoke(function, &batch(&[message(service, &body)])).await;
    assert_eq!(failures(&answer), [""; 0], "{:?}", answer.report);
}

/// The reads of an import, and one patch.
const IMPORTED: [&str; 4] = [
    "GET endpointslices?cloud-map-sync/owner=cloud-map-sync,service-name=web",
    "GET serviceimports/web",
    "GET services/derived-isrlchlhrq",
    "PATCH endpointslices/imported-isrlchlhrq-0cb1e317-1",
];

#[tokio::test(start_paused = true)]
async fn pod_that_changed_costs_three_reads_there_and_three_reads_and_a_patch_in_each_importer() {
    for count in [2, 8] {
        let many = in_step(count).await;
        pods(&many.clusters[0], "web", &["10.0.0.1", "10.0.0.2"]);

        tell(&many.function, "web").await;

        // One of each member for its record; the source's own is compared with what it should be.
        let calls = [("GetInstance", count), ("GetOperation", 1), ("ListInstances", 1)];
        assert_eq!(many.cloud_map(), Many::of(&[&calls[..], &[("RegisterInstance", 1)]].concat()));
        let of_annotations = ["GET endpointslices?service-name=web", "GET services/web"];
        let of_export = [of_annotations[0], of_annotations[1], "GET serviceexports/web"];
        let mut source = [&of_annotations[..], &of_export, &IMPORTED].concat();
        source.sort_unstable();
        assert_eq!(many.asked(0), source);
        for importer in 1..count {
            assert_eq!(many.asked(importer), IMPORTED, "c{importer} of {count}");
        }
        many.assert_settled().await;
    }
}

#[tokio::test(start_paused = true)]
async fn message_about_a_service_without_an_export_lists_nothing() {
    let many = in_step(2).await;
    many.clusters[0].service(service("plain"));

    tell(&many.function, "plain").await;

    // One of each member for its record.
    assert_eq!(many.cloud_map(), Many::of(&[("GetInstance", 2)]));
    let lists = many.asked(0).into_iter().filter(|it| !it.contains("plain"));
    // The name of the derived Service, and the namespace, since there is no import.
    assert_eq!(
        lists.collect::<Vec<_>>(),
        ["GET /api/v1/namespaces/shop", "GET services/derived-i907dlh7dv"]
    );
}

#[tokio::test(start_paused = true)]
async fn members_of_one_function_create_a_service_that_all_of_them_export_once() {
    let many = Many::start(3, &["shop"], &[]).await;
    for (index, cluster) in many.clusters.iter().enumerate() {
        for export in 0..10 {
            let service = ClusterIp::new("shop", &format!("web-{export}"));
            let pod = format!("10.{index}.{export}.1");
            exported(cluster, service.port_of("TCP", "http", 80, 8080), &[&pod], CREATED);
        }
    }
    many.forget();

    let report = sync(&many.function).await;

    assert!(report.ok, "{}", in_full(&report));
    let calls = many.fleet.cloud_map.counts();
    // Ten, and one for the records of each member.
    assert_eq!((calls["CreateService"], calls.get("ListTagsForResource")), (13, None), "{calls:?}");
    many.assert_settled().await;
}

/// The definitions are asked for again after five minutes: they go, come and change while a process is warm.
#[tokio::test(start_paused = true)]
async fn served_apis_are_asked_for_again_after_five_minutes() {
    let many = in_step(1).await;
    let asked = async || {
        many.forget();
        let report = sync(&many.function).await;
        let asked = many.asked(0).into_iter();
        let asked: Vec<String> =
            asked.filter(|it| it == "GET /apis" || it.starts_with("GET /openapi")).collect();
        (report, asked)
    };
    assert_eq!(asked().await.1, [""; 0]);

    advance(Duration::from_mins(5)).await;
    let declared = "GET /openapi/v3/apis/multicluster.x-k8s.io/v1beta1";
    assert_eq!(asked().await.1, ["GET /apis", declared]);
    assert_eq!(asked().await.1, [""; 0]);

    many.clusters[0].serve_multi_cluster_versions(&["v1alpha1"]);
    advance(Duration::from_mins(5)).await;
    let (report, _) = asked().await;
    assert_eq!(part(&report, "c0").obstacles[0].reason, "NoMultiClusterApi");
}
