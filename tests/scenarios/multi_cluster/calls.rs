//! What services across clusters cost: the number of calls to Cloud Map and of requests to each cluster; and a
//! clusterset in a Cloud Map that is too large for the time of a sync, whose other members' names are read in each
//! run.

use std::time::Duration;

use cloud_map_sync::function::Function;
use tokio::time::advance;

use super::many::Many;
use super::{Members, exported, imported, in_full, obstacles, pods, service, web, writes};
use crate::queue::{batch_about, failures};
use crate::run::{counts, sync, synced};
use testbed::cloud_map::Call;
use testbed::function::invoke;
use testbed::kubernetes::ClusterIp;

/// All members export `shop/web`, and everything is in step.
async fn in_step(count: usize) -> Many {
    let many = Many::start(count, &["shop"], &[]).await;
    for (index, cluster) in many.clusters.iter().enumerate() {
        exported(cluster, web(), &[&format!("10.{index}.0.1")]);
    }
    many.converge().await;
    many
}

async fn send_change(function: &Function, service: &str) {
    let answer = invoke(function, &batch_about("c0", service)).await;
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
async fn pod_that_changed_costs_three_reads_of_the_export_and_three_reads_and_a_patch_of_the_import_in_each_member()
 {
    // What it costs in Cloud Map `growth` has.
    for count in [2, 8] {
        let many = in_step(count).await;
        pods(&many.clusters[0], "web", &["10.0.0.1", "10.0.0.2"]);

        send_change(&many.function, "web").await;

        let of_annotations = ["GET endpointslices?service-name=web", "GET services/web"];
        let of_export = [of_annotations[0], of_annotations[1], "GET serviceexports/web"];
        let mut source = [&of_annotations[..], &of_export, &IMPORTED].concat();
        source.sort_unstable();
        assert_eq!(many.asked(0), source);
        let mut others = [&of_export[..], &IMPORTED].concat();
        others.sort_unstable();
        for importer in 1..count {
            assert_eq!(many.asked(importer), others, "c{importer} of {count}");
        }
        many.assert_settled().await;
    }
}

#[tokio::test(start_paused = true)]
async fn message_about_a_service_without_an_export_lists_nothing() {
    let many = in_step(2).await;
    many.clusters[0].service(service("plain"));

    send_change(&many.function, "plain").await;

    assert_eq!(many.cloud_map(), counts([]));
    let lists = many.asked(0).into_iter().filter(|it| !it.contains("plain"));
    let lists: Vec<String> = lists.collect();
    // The name of the derived Service, and the namespace, since there is no import.
    assert_eq!(lists, ["GET /api/v1/namespaces/shop", "GET services/derived-i907dlh7dv"]);
}

#[tokio::test(start_paused = true)]
async fn members_of_one_function_create_a_service_that_all_of_them_export_once() {
    let many = Many::start(3, &["shop"], &[]).await;
    for (index, cluster) in many.clusters.iter().enumerate() {
        for export in 0..10 {
            let service = ClusterIp::new("shop", &format!("web-{export}"));
            let pod = format!("10.{index}.{export}.1");
            exported(cluster, service.port_of("TCP", "http", 80, 8080), &[&pod]);
        }
    }
    many.forget();

    synced(&many.function).await;

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
    assert_eq!(obstacles(&report, "c0")[0], "NoMultiClusterApi");
}

const SERVICES: [&str; 6] = ["cart", "list", "mail", "pay", "user", "web"];

/// Members of which blue has as many Services that are not exported, each with a pod.
async fn with_others() -> Members {
    let members = Members::start().await;
    for (index, name) in SERVICES.into_iter().enumerate() {
        members.fleet.web(&format!("own-{name}"), "prod", &[&format!("10.0.{index}.1")]);
    }
    members
}

#[tokio::test]
async fn endpoint_of_a_member_that_another_function_serves_leaves_with_the_next_sync() {
    let members = with_others().await;
    for (index, name) in SERVICES.into_iter().enumerate() {
        exported(&members.green, service(name), &[&format!("10.1.{index}.1")]);
    }
    members.converge().await;
    let green = members.serving("green", &[]).await;
    let blue = members.serving("blue", &[]).await;
    let blue = blue.with_max_instance_reads(1);
    for _ in 0..2 * SERVICES.len() {
        sync(&blue).await;
    }
    for (index, name) in SERVICES.into_iter().enumerate() {
        pods(&members.green, name, &[&format!("10.1.{index}.2")]);
    }
    assert!(sync(&green).await.ok);
    // What blue was ahead of Cloud Map with counts for five minutes.
    members.clock.advance(Duration::from_mins(6));

    let report = sync(&blue).await;

    for (index, name) in SERVICES.into_iter().enumerate() {
        let now = format!("green 10.1.{index}.2:8080");
        assert_eq!(imported(&members.blue, name), now, "{}", in_full(&report));
    }
}

#[tokio::test]
async fn new_process_leaves_imports_as_they_are_and_follows_its_own_exports() {
    let members = with_others().await;
    for (index, name) in SERVICES.into_iter().enumerate() {
        let service = service(name);
        exported(&members.green, service.clone(), &[&format!("10.1.{index}.1")]);
        exported(&members.blue, service, &[&format!("10.0.{index}.9")]);
    }
    members.converge().await;
    members.fleet.cloud_map.forget_calls();
    let function = members.serving("blue", &[]).await.with_max_instance_reads(1);
    pods(&members.blue, "web", &["10.0.5.8"]);

    for _ in 0..2 * SERVICES.len() + 2 {
        let report = sync(&function).await;
        let web = "blue 10.0.5.8:8080, green 10.1.5.1:8080";
        assert_eq!(imported(&members.blue, "web"), web, "{}", in_full(&report));
    }

    let writes = members.fleet.cloud_map.calls().into_iter().filter(Call::is_write);
    let writes: Vec<String> = writes.map(|it| it.operation).collect();
    assert_eq!(writes, ["RegisterInstance", "DeregisterInstance"]);
}

#[tokio::test]
async fn status_of_an_export_rests_on_no_failure_of_an_earlier_run() {
    let members = with_others().await;
    exported(&members.blue, web(), &["10.0.5.9"]);
    members.converge().await;
    let cloud_map = &members.fleet.cloud_map;
    let function = members.serving("blue", &[]).await.with_max_instance_reads(1);
    cloud_map.deny_in(&members.place("web"), "ListInstances");
    let is_denied = |it: &Call| it.operation == "ListInstances" && it.status != 200;
    let mut runs = 0;
    // Of all that is known it is read last.
    while runs < 3 * SERVICES.len() || !cloud_map.calls().iter().any(is_denied) {
        cloud_map.forget_calls();
        assert!(!sync(&function).await.ok);
        runs += 1;
    }
    assert!(!writes(&members.blue).is_empty());
    cloud_map.heal();
    members.converge().await;
    members.blue.forget_requests();

    for _ in 0..2 * SERVICES.len() {
        sync(&function).await;
        assert_eq!(writes(&members.blue), [""; 0]);
    }
}

/// The list of all services stands. A new member, and a new export of a member, are found by their records.
#[tokio::test]
async fn new_exports_are_imported_while_the_list_of_services_stands() {
    let members = with_others().await;
    exported(&members.green, service("web"), &["10.1.0.1"]);
    let green = members.serving("green", &[]).await;
    let cloud_map = &members.fleet.cloud_map;
    cloud_map.adjust(|it| it.page_limit = 2);
    let blue = members.serving("blue", &[]).await.with_max_instance_reads(1);
    for _ in 0..2 * SERVICES.len() {
        sync(&blue).await;
    }
    for name in ["web", "cart"] {
        exported(&members.green, service(name), &["10.1.0.1"]);
        synced(&green).await;

        let report = synced(&blue).await;

        let now = "green 10.1.0.1:8080";
        assert_eq!(imported(&members.blue, name), now, "{}", in_full(&report));
    }
    cloud_map.forget_calls();
    synced(&blue).await;
    // The records alone: the list of a namespace has as many pages as that of all.
    let pages = members.fleet.all_services().len().div_ceil(2);
    assert_eq!(cloud_map.count("ListServices"), pages);
}
