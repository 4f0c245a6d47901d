//! Endpoints that stand in imports while Cloud Map does not show where they are registered: what is not shown is not
//! gone.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::{Members, exported, imported, in_full, part, pods, service, sources, web, writes};
use crate::run::report;
use testbed::cloud_map::{Behaviour, Fault, FaultKind};
use testbed::gate::Gate;

const CREATED: &str = "2026-01-01T00:00:00Z";

impl Members {
    /// blue exports `web` and `cart`, and amber, of AWS's controller, `web` and `mail`.
    async fn of_others() -> Self {
        let members = Self::start().await;
        exported(&members.blue, web(), &["10.0.0.1"], CREATED);
        exported(&members.blue, service("cart"), &["10.0.0.7"], CREATED);
        members.amber("web", &["10.2.0.1"]);
        members.amber("mail", &["10.2.0.9"]);
        members.converge().await;
        members
    }

    fn assert_all_stand(&self, why: &str) {
        let web = sources([("blue", &["10.0.0.1:8080"]), ("amber", &["10.2.0.1:8080"])]);
        assert_eq!(imported(&self.green, "web"), web, "{why}");
        assert_eq!(imported(&self.green, "cart"), sources([("blue", &["10.0.0.7:8080"])]), "{why}");
        assert_eq!(
            imported(&self.green, "mail"),
            sources([("amber", &["10.2.0.9:8080"])]),
            "{why}"
        );
    }
}

/// The namespace of the records is in sight, and that of the endpoints is not.
#[tokio::test]
async fn endpoints_of_a_namespace_that_is_out_of_sight_stay() {
    let members = Members::of_others().await;
    let narrow = [("CLOUD_MAP_NAMESPACES", "clusterset.shop-set")];
    let narrow = members.serving("green", &narrow).await;
    members.green.forget_requests();

    for payload in [
        json!({ "action": "sync" }),
        json!({ "action": "sync", "cluster": "green", "namespace": "shop", "service": "web" }),
        json!({ "action": "sync", "cluster": "green", "namespace": "shop", "service": "mail" }),
    ] {
        let report = report(&narrow, &payload).await;
        members.assert_all_stand(&in_full(&report));
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
    let mail = members.fleet.cloud_map.find_service("shop", "mail").expect("a service");
    members.fleet.cloud_map.remove_service(&mail);

    let report = report(&members.function, &json!({ "action": "sync" })).await;

    assert_eq!(members.green.service_import("shop", "mail"), None, "{}", in_full(&report));
}

/// The record says that the export has no endpoints, so their service need not be in sight.
#[tokio::test]
async fn last_endpoint_leaves_also_if_its_service_is_deleted_before_another_function_has_seen_it_empty()
 {
    let members = Members::of_others().await;
    let green_alone = members.serving("green", &[]).await;
    let blue_alone = members.serving("blue", &[]).await;
    let whole = json!({ "action": "sync" });
    pods(&members.blue, "cart", &[]);
    report(&blue_alone, &whole).await;
    let cart = members.fleet.cloud_map.find_service("shop", "cart").expect("a service");
    members.fleet.cloud_map.remove_service(&cart);

    let empty = report(&green_alone, &whole).await;

    assert!(empty.ok, "{}", in_full(&empty));
    assert_eq!(imported(&members.green, "cart"), sources([]));
    assert!(members.green.service_import("shop", "cart").is_some());
    // Before the endpoint comes, the record says that there may be some.
    pods(&members.blue, "cart", &["10.0.0.8"]);
    members.fleet.cloud_map.forget_calls();
    report(&blue_alone, &whole).await;
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

        let report = report(&green_alone, &json!({ "action": "sync" })).await;

        members.assert_all_stand(&in_full(&report));
    }
}

/// The message is about a Service that nobody exports: its own import does not stand, and others do.
#[tokio::test]
async fn first_message_in_another_cloud_map_writes_no_record_there() {
    let members = Members::of_others().await;
    let records = members.fleet.cloud_map.find_service("clusterset.shop-set", "green");
    let records = records.expect("the records of green");
    members.fleet.cloud_map.withdraw(&records, "cluster");
    let process = members.serving("green", &[]).await;
    members.fleet.cloud_map.forget_calls();

    for service in ["other", "web"] {
        let payload = json!({ "action": "sync", "cluster": "green", "namespace": "shop", "service": service });
        let report = report(&process, &payload).await;
        let obstacles = &part(&report, "green").obstacles;
        assert_eq!(obstacles[0].reason, "UnfamiliarRegistry", "{}", in_full(&report));
    }

    assert_eq!(members.fleet.cloud_map.writes(), 0);
    members.assert_all_stand("nothing leaves");
}

#[tokio::test]
async fn cluster_whose_id_is_taken_imports_nothing_by_message_or_full_sync() {
    let members = Members::of_others().await;
    members.green.cluster_property("cluster.clusterset.k8s.io", "blue");
    exported(&members.blue, service("new"), &["10.0.0.8"], CREATED);
    let whole = json!({ "action": "sync" });
    let of_blue = json!({ "action": "sync", "cluster": "blue" });
    members.green.forget_requests();

    for payload in [&of_blue, &whole] {
        report(&members.function, payload).await;
    }

    let new = imported(&members.blue, "new");
    assert_eq!(new, sources([("blue", &["10.0.0.8:8080"])]));
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
    let whole = json!({ "action": "sync" });

    let meanwhile = async {
        while members.fleet.cloud_map.count("ListInstances") < 4 {
            sleep(Duration::from_millis(5)).await;
        }
        pods(&members.blue, "web", &["10.0.0.1", "10.0.0.2"]);
        exported(&members.blue, service("new"), &[], CREATED);
        report(&members.function, &whole).await;
        gate.open();
    };
    let (report, ()) = tokio::join!(report(&green_alone, &whole), meanwhile);

    let web =
        sources([("blue", &["10.0.0.1:8080", "10.0.0.2:8080"]), ("amber", &["10.2.0.1:8080"])]);
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
        let cart = cloud_map.find_service("shop", "cart").expect("a service");
        if may_read {
            cloud_map.behave(Behaviour { uncounted: "shop", ..Behaviour::default() });
        } else {
            let denied = Fault::on("ListInstances", FaultKind::AccessDenied).service(&cart);
            cloud_map.inject(denied.always());
        }
        let ips =
            || members.green.service_import("shop", "cart").map(|it| it["spec"]["ips"].clone());
        let before = ips();
        members.blue.unexport("shop", "cart");

        let whole = json!({ "action": "sync" });
        let report = report(&members.function, &whole).await;

        let of_amber = sources([("amber", &["10.2.0.7:8080"])]);
        let now = if may_read { of_amber.clone() } else { sources([]) };
        assert_eq!(imported(&members.green, "cart"), now, "{}", in_full(&report));
        cloud_map.heal();
        cloud_map.behave(Behaviour::default());
        members.converge().await;
        assert_eq!(imported(&members.green, "cart"), of_amber);
        assert_eq!((ips(), before.is_some()), (before, true));
    }
}
