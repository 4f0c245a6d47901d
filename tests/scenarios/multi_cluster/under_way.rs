//! Imports that are ahead of Cloud Map: an invocation that reads the exporter itself changes them while the operations are
//! under way, and another one takes the exporter from Cloud Map.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::time::Deadline;
use serde_json::json;

use super::{AHEAD, Members, exported, imported, pods, service, sources, web};
use crate::run::sync;
use testbed::cloud_map::Behaviour;
use testbed::function::invoke_until;
use testbed::kubernetes::KubernetesServer;

const CREATED: &str = "2026-01-01T00:00:00Z";

/// The pod of `web` in blue is replaced, and green exports `new`. Both are imported, and the run is cut short while Cloud
/// Map's operations are under way.
async fn ahead() -> Members {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    exported(&members.green, web(), &["10.1.0.1"], CREATED);
    members.converge().await;
    let operation_delay = Duration::from_hours(1);
    members.fleet.cloud_map.behave(Behaviour { operation_delay, ..Behaviour::default() });
    pods(&members.blue, "web", &["10.0.0.2"]);
    let new = service("new");
    exported(&members.green, new, &["10.1.0.2"], CREATED);
    let is_ahead = |it| imported(it, "web") == of_web("10.0.0.2:8080");
    let has_new = |it| !imported(it, "new").is_empty();
    let both = [&members.blue, &members.green];
    members.until(|| both.into_iter().all(|it| is_ahead(it) && has_new(it))).await;
    members
}

impl Members {
    /// A full sync, cut short once something has come about.
    async fn until(&self, has_come: impl Fn() -> bool) {
        let look = async {
            while !has_come() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let (payload, end) = (json!({ "action": "sync" }), Deadline::after(Duration::from_mins(1)));
        tokio::select! {
            () = look => {}
            answer = invoke_until(&self.function, &payload, end) => {
                panic!("the run is over: {answer:?}")
            }
        }
    }
}

fn of_web(blue: &str) -> BTreeMap<String, BTreeSet<String>> {
    sources([("blue", &[blue]), ("green", &["10.1.0.1:8080"])])
}

fn assert_imported(members: &Members, of_blue: &str) {
    for cluster in [&members.blue, &members.green] {
        assert_eq!(imported(cluster, "web"), of_web(of_blue));
    }
}

/// Another function for both, which only imports.
async fn importer(members: &Members) -> Function {
    let settings = [("CLUSTERS", "blue,green"), ("MULTI_CLUSTER", "import")];
    members.fleet.function_with(&settings).await.with_clock(members.clock.clock())
}

fn notes(cluster: &KubernetesServer) -> usize {
    let slices = super::slices(cluster, "web").into_iter();
    slices.filter(|it| !it["metadata"]["annotations"][AHEAD].is_null()).count()
}

#[tokio::test]
async fn message_about_another_cluster_takes_back_no_change_of_which_the_operation_is_under_way() {
    let members = ahead().await;

    members.sync_service("green", "web").await;

    assert_imported(&members, "10.0.0.2:8080");
}

#[tokio::test]
async fn another_function_takes_back_no_change_of_which_the_operation_is_under_way() {
    let members = ahead().await;
    let uid = |cluster: &KubernetesServer| {
        cluster.service_import("shop", "new").expect("an import")["metadata"]["uid"].clone()
    };
    let before = [&members.blue, &members.green].map(uid);

    sync(&importer(&members).await).await;

    assert_imported(&members, "10.0.0.2:8080");
    let new = sources([("green", &["10.1.0.2:8080"])]);
    assert_eq!(imported(&members.blue, "new"), new);
    assert_eq!([&members.blue, &members.green].map(uid), before);
}

#[tokio::test]
async fn change_that_does_not_reach_cloud_map_is_taken_back_after_minutes() {
    let members = ahead().await;
    let importer = importer(&members).await;
    members.clock.advance(Duration::from_mins(6));

    sync(&importer).await;

    assert_imported(&members, "10.0.0.1:8080");
}

#[tokio::test]
async fn only_a_read_of_the_exporter_says_that_an_import_is_ahead() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    members.converge().await;
    assert_eq!(notes(&members.green), 1);
    members.fleet.cloud_map.behave(Behaviour::default());
    members.amber("web", &["10.2.0.1"]);

    members.converge().await;

    assert_eq!((notes(&members.green), super::slices(&members.green, "web").len()), (1, 2));
}

/// The oldest export is headless, and ends: while its record is still there, the import has an IP.
#[tokio::test]
async fn message_about_another_cluster_takes_back_no_type_of_which_the_operation_is_under_way() {
    let members = Members::start().await;
    exported(&members.green, web().spec("clusterIP", "None"), &["10.1.0.1"], CREATED);
    exported(&members.blue, web(), &["10.0.0.1"], "2026-02-01T00:00:00Z");
    members.converge().await;
    let operation_delay = Duration::from_hours(1);
    members.fleet.cloud_map.behave(Behaviour { operation_delay, ..Behaviour::default() });
    members.green.unexport("shop", "web");
    let ips = || {
        let import = |it: &KubernetesServer| it.service_import("shop", "web").expect("an import");
        [&members.blue, &members.green].map(|it| import(it)["spec"]["ips"].clone())
    };
    members.until(|| ips().iter().all(|it| it[0].is_string())).await;
    let before = ips();

    members.sync_service("blue", "web").await;

    assert_eq!(ips(), before);
}

/// The record of an export says that Cloud Map has none of its endpoints until a change of the record has ended.
#[tokio::test]
async fn record_that_still_says_empty_takes_nothing_back_where_no_endpoint_can_be_seen() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    members.converge().await;
    let cloud_map = &members.fleet.cloud_map;
    let records = cloud_map.find_service("clusterset.shop-set", "blue").expect("records");
    for (id, mut record) in cloud_map.instances(&records) {
        if id != "cluster" {
            record.insert("cloud-map-sync/empty".to_owned(), "true".to_owned());
            members.register(&records, &id, &record);
        }
    }
    let used = [("CLOUD_MAP_NAMESPACES", "clusterset.shop-set"), ("CREATE_NAMESPACES", "false")];

    sync(&members.serving("green", &used).await).await;

    assert_eq!(imported(&members.green, "web"), sources([("blue", &["10.0.0.1:8080"])]));
}
