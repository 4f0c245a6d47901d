//! Cloud Map that is behind. An invocation that reads the exporter itself changes imports while the operations in
//! Cloud Map are under way, and endpoints stay in imports while Cloud Map does not show where they are registered.

use std::time::Duration;

use cloud_map_sync::time::Deadline;
use serde_json::json;
use tokio::time::sleep;

use super::{
    CLUSTER_ID, Members, RECORDS_ALONE, exported, exported_at, imported, in_full, obstacles, pods,
    service, web, writes,
};
use crate::run::{report, sync, sync_of};
use testbed::cloud_map::Behaviour;
use testbed::function::invoke_until;
use testbed::gate::Gate;
use testbed::kubernetes::KubernetesServer;

/// The pod of `web` in blue is replaced, and green exports `new`. Both are imported, and the run is cut short while Cloud
/// Map's operations are under way, which may take minutes where an account's rates are used up.
async fn ahead() -> Members {
    let members = Members::with_web(&["10.0.0.1"]).await;
    exported(&members.green, web(), &["10.1.0.1"]);
    members.converge().await;
    members.fleet.cloud_map.adjust(|it| it.operation_delay = Duration::from_hours(1));
    pods(&members.blue, "web", &["10.0.0.2"]);
    exported(&members.green, service("new"), &["10.1.0.2"]);
    members.until_imported(&of_web("10.0.0.2:8080")).await;
    members
}

impl Members {
    /// A full sync, cut short once `web` is imported at these endpoints, and `new`, in both clusters.
    pub async fn until_imported(&self, web: &str) {
        let has = |cluster| imported(cluster, "web") == web && !imported(cluster, "new").is_empty();
        self.until(|| self.clusters().into_iter().all(has)).await;
    }

    /// A full sync, cut short once something has come about.
    async fn until(&self, has_come: impl Fn() -> bool) {
        let look = async {
            while !has_come() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let payload = json!({ "action": "sync" });
        let end = Deadline::after(Duration::from_mins(1));
        tokio::select! {
            () = look => {}
            answer = invoke_until(&self.function, &payload, end) => {
                panic!("the run is over: {answer:?}")
            }
        }
    }
}

fn of_web(blue: &str) -> String {
    format!("blue {blue}, green 10.1.0.1:8080")
}

#[tokio::test]
async fn change_of_which_the_operation_is_under_way_is_taken_back_by_no_run() {
    let members = ahead().await;
    let before = [&members.blue, &members.green].map(|cluster| {
        cluster.service_import("shop", "new").expect("an import")["metadata"]["uid"].clone()
    });
    assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.1", "10.1.0.1"]);

    for minutes in [0, 6] {
        members.clock.advance(Duration::from_mins(minutes));
        for scope in [sync_of("green", "web"), sync_of("blue", "new")] {
            let report = report(&members.function, &scope).await;
            members.assert_imported("web", &of_web("10.0.0.2:8080"), &in_full(&report));
        }
    }

    assert_eq!(imported(&members.blue, "new"), "green 10.1.0.2:8080");
    let after = [&members.blue, &members.green].map(|cluster| {
        cluster.service_import("shop", "new").expect("an import")["metadata"]["uid"].clone()
    });
    assert_eq!(after, before);
}

/// The oldest export is headless, and ends: while its record is still there, the import has an IP.
#[tokio::test]
async fn message_about_another_cluster_takes_back_no_type_of_which_the_operation_is_under_way() {
    let members = Members::start().await;
    exported(&members.green, web().spec("clusterIP", "None"), &["10.1.0.1"]);
    exported_at(&members.blue, web(), &["10.0.0.1"], "2026-02-01T00:00:00Z");
    members.converge().await;
    members.fleet.cloud_map.adjust(|it| it.operation_delay = Duration::from_hours(1));
    members.green.unexport("shop", "web");
    let import = |it: &KubernetesServer| it.service_import("shop", "web").expect("an import");
    let ips = || members.clusters().map(|it| import(it)["spec"]["ips"].clone());
    members.until(|| ips().iter().all(|it| it[0].is_string())).await;
    let before = ips();

    members.sync_service("blue", "web").await;

    assert_eq!(ips(), before);
}

/// The record of an export says that Cloud Map has none of its endpoints until a change of the record has ended.
#[tokio::test]
async fn record_that_still_says_empty_takes_nothing_back_where_no_endpoint_can_be_seen() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    let cloud_map = &members.fleet.cloud_map;
    let records = cloud_map.service_id("clusterset.shop-set", "blue");
    for (id, mut record) in cloud_map.instances(&records) {
        if id != "cluster" {
            record.insert("cloud-map-sync/empty".to_owned(), "true".to_owned());
            members.fleet.put(&records, &id, &record);
        }
    }

    sync(&members.serving("green", &RECORDS_ALONE).await).await;

    assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080");
}

impl Members {
    /// blue exports `web` and `cart`, and amber, of AWS's controller, `web` and `mail`.
    async fn of_others() -> Self {
        let members = Self::start().await;
        exported(&members.blue, web(), &["10.0.0.1"]);
        exported(&members.blue, service("cart"), &["10.0.0.7"]);
        members.amber("web", &["10.2.0.1"]);
        members.amber("mail", &["10.2.0.9"]);
        members.converge().await;
        members
    }

    fn assert_all_stand(&self, why: &str) {
        let web = "amber 10.2.0.1:8080, blue 10.0.0.1:8080";
        assert_eq!(imported(&self.green, "web"), web, "{why}");
        assert_eq!(imported(&self.green, "cart"), "blue 10.0.0.7:8080", "{why}");
        assert_eq!(imported(&self.green, "mail"), "amber 10.2.0.9:8080", "{why}");
    }
}

/// The namespace of the records is in sight, and that of the endpoints is not.
#[tokio::test]
async fn endpoints_of_a_namespace_that_is_out_of_sight_stay() {
    let members = Members::of_others().await;
    let narrow = [("CLOUD_MAP_NAMESPACES", "clusterset.shop-set")];
    let narrow = members.serving("green", &narrow).await;
    members.green.forget_requests();

    for payload in [json!({ "action": "sync" }), sync_of("green", "web"), sync_of("green", "mail")]
    {
        members.assert_all_stand(&in_full(&report(&narrow, &payload).await));
    }

    assert_eq!(writes(&members.green), [""; 0]);
    // An export that ends does so in its record, which is in sight.
    members.blue.unexport("shop", "cart");
    report(&members.function, &json!({ "action": "sync", "cluster": "blue" })).await;
    assert_eq!(members.green.service_import("shop", "cart"), None);
    members.converge().await;
}

/// Its namespace is in sight, and has none of the name.
#[tokio::test]
async fn export_without_a_record_ends_with_its_service() {
    let members = Members::of_others().await;
    let mail = members.fleet.cloud_map.service_id("shop", "mail");
    members.fleet.cloud_map.remove_service(&mail);

    let report = sync(&members.function).await;

    assert_eq!(members.green.service_import("shop", "mail"), None, "{}", in_full(&report));
}

/// The record says that the export has no endpoints, so their service need not be in sight.
#[tokio::test]
async fn last_endpoint_leaves_also_if_its_service_is_deleted_before_another_function_has_seen_it_empty()
 {
    let members = Members::of_others().await;
    let green_alone = members.serving("green", &[]).await;
    let blue_alone = members.serving("blue", &[]).await;
    pods(&members.blue, "cart", &[]);
    sync(&blue_alone).await;
    let cart = members.fleet.cloud_map.service_id("shop", "cart");
    members.fleet.cloud_map.remove_service(&cart);

    let empty = sync(&green_alone).await;

    assert!(empty.ok, "{}", in_full(&empty));
    assert_eq!(imported(&members.green, "cart"), "");
    assert!(members.green.service_import("shop", "cart").is_some());
    // Before the endpoint comes, the record says that there may be some.
    pods(&members.blue, "cart", &["10.0.0.8"]);
    members.fleet.cloud_map.forget_calls();
    sync(&blue_alone).await;
    let calls = members.fleet.cloud_map.calls().into_iter();
    let registered = calls.filter(|it| it.operation == "RegisterInstance");
    let ids: Vec<String> = registered.filter_map(|it| it.instance).collect();
    let [record, endpoint] = ids.as_slice() else { panic!("{ids:?}") };
    assert!(record.starts_with("export-") && endpoint.starts_with("tcp-"), "{ids:?}");
    members.converge().await;
}

#[tokio::test]
async fn endpoints_and_exports_that_are_not_counted_yet_stay() {
    let members = Members::of_others().await;
    for uncounted in ["shop", "clusterset.shop-set"] {
        members.fleet.cloud_map.behave(Behaviour { uncounted, ..Behaviour::default() });
        let green_alone = members.serving("green", &[]).await;

        let report = sync(&green_alone).await;

        members.assert_all_stand(&in_full(&report));
    }
}

/// The message is about a Service that no cluster exports: its own import does not stand, and others do.
#[tokio::test]
async fn first_message_in_another_cloud_map_writes_no_record_there() {
    let members = Members::of_others().await;
    let records = members.fleet.cloud_map.service_id("clusterset.shop-set", "green");
    members.fleet.cloud_map.withdraw(&records, "cluster");
    let process = members.serving("green", &[]).await;
    members.fleet.cloud_map.forget_calls();

    for service in ["other", "web"] {
        let report = report(&process, &sync_of("green", service)).await;
        assert_eq!(obstacles(&report, "green"), ["UnfamiliarRegistry"], "{}", in_full(&report));
    }

    assert_eq!(members.fleet.cloud_map.writes(), 0);
    members.assert_all_stand("nothing leaves");
}

#[tokio::test]
async fn cluster_whose_id_is_taken_imports_nothing_by_message_or_full_sync() {
    let members = Members::of_others().await;
    members.green.cluster_property(CLUSTER_ID, "blue");
    exported(&members.blue, service("new"), &["10.0.0.8"]);
    members.green.forget_requests();

    report(&members.function, &json!({ "action": "sync", "cluster": "blue" })).await;
    sync(&members.function).await;

    assert_eq!(imported(&members.blue, "new"), "blue 10.0.0.8:8080");
    let of_import = |it: &String| it.contains("imports") || it.contains("endpointslices");
    let written: Vec<String> = writes(&members.green).into_iter().filter(of_import).collect();
    assert_eq!(written, [""; 0]);
}

/// A run has read Cloud Map, and then waits for the cluster; another one imports a new endpoint meanwhile.
#[tokio::test]
async fn endpoint_that_came_after_cloud_map_was_read_stays() {
    let members = Members::of_others().await;
    let late = members.fleet.sandbox.another_process();
    let settings = [("CLUSTERS", "green"), ("MULTI_CLUSTER", "on")];
    let green_alone = late.function(&settings).await.with_clock(members.clock.clock());
    let gate = Gate::holding(&[&late.access_key().id]);
    members.green.hold_at(&gate);
    members.fleet.cloud_map.forget_calls();

    let meanwhile = async {
        while members.fleet.cloud_map.count("ListInstances") < 4 {
            gate.admit(0);
            sleep(Duration::from_millis(5)).await;
        }
        pods(&members.blue, "web", &["10.0.0.1", "10.0.0.2"]);
        exported(&members.blue, service("new"), &[]);
        sync(&members.function).await;
        gate.open();
    };
    let (report, ()) = tokio::join!(sync(&green_alone), meanwhile);

    let web = "amber 10.2.0.1:8080, blue 10.0.0.1:8080 10.0.0.2:8080";
    assert_eq!(imported(&members.green, "web"), web, "{}", in_full(&report));
    assert!(members.green.service_import("shop", "new").is_some(), "{}", in_full(&report));
    members.converge().await;
}

/// AWS's controller has begun to export the name, which the function may not read, or the lists do not count yet.
#[tokio::test]
async fn import_keeps_its_ip_while_it_is_unknown_whether_another_cluster_exports_it() {
    for may_read in [false, true] {
        let members = Members::of_others().await;
        let cloud_map = &members.fleet.cloud_map;
        members.amber("cart", &["10.2.0.7"]);
        let cart = cloud_map.service_id("shop", "cart");
        if may_read {
            cloud_map.adjust(|it| it.uncounted = "shop");
        } else {
            cloud_map.deny_in(&cart, "ListInstances");
        }
        let ips =
            || members.green.service_import("shop", "cart").map(|it| it["spec"]["ips"].clone());
        let before = ips();
        members.blue.unexport("shop", "cart");

        let report = sync(&members.function).await;

        let of_amber = "amber 10.2.0.7:8080";
        let now = if may_read { of_amber } else { "" };
        assert_eq!(imported(&members.green, "cart"), now, "{}", in_full(&report));
        cloud_map.heal();
        cloud_map.behave(Behaviour::default());
        members.converge().await;
        assert_eq!(imported(&members.green, "cart"), of_amber);
        assert_eq!((ips(), before.is_some()), (before, true));
    }
}
