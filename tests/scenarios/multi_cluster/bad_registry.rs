//! Records that cannot be used, and a Cloud Map of another account, read in part, or that does not answer: nothing that
//! rests on it leaves an import, and while Cloud Map does not answer, the clusters of the function follow each other.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::model::GuardState;
use serde_json::json;

use super::guard::{count, guard};
use super::{
    CLUSTER_ID, CLUSTERSET, CREATED, LATER, Members, RECORD, condition, exported, exported_at,
    held_back, imported, in_full, obstacles, pods, service, web, writes,
};
use crate::run::{report, sync, sync_of, synced, warnings};
use testbed::cloud_map::{Fault, FaultKind, NamespaceKind, ServiceKind};

/// blue exports `web` with two pods, and `cart`. The function serves green alone and knows blue from Cloud Map.
async fn known_from_cloud_map() -> (Members, Function) {
    let members = Members::with_web(&["10.0.0.1", "10.0.0.2"]).await;
    exported(&members.blue, service("cart"), &["10.0.0.3"]);
    members.converge().await;
    let green_alone = members.serving("green", &[]).await;
    (members, green_alone)
}

const WEB_OF_BLUE: &str = "blue 10.0.0.1:8080 10.0.0.2:8080";

impl Members {
    /// The instances of `web` leave Cloud Map, and `cart` has another endpoint.
    fn blue_changes(&self) {
        for id in self.fleet.instances("shop", "web").into_keys() {
            self.fleet.cloud_map.withdraw(&self.place("web"), &id);
        }
        let (id, mut instance) = self.fleet.instance("shop", "cart");
        instance.insert("AWS_INSTANCE_IPV4".to_owned(), "10.0.0.4".to_owned());
        self.fleet.put(&self.place("cart"), &id, &instance);
    }
}

#[tokio::test]
async fn record_that_cannot_be_used_leaves_its_export_in_the_imports_and_is_reported() {
    let later = "a later release wrote it (schema 2, and this release reads 1)";
    for (key, value, expected) in [
        ("export", "{\"created\":", "its JSON is invalid: created: EOF while parsing"),
        ("schema", "2", later),
        ("service", "a_b", "its marks name no Service of Kubernetes"),
    ] {
        let (members, green_alone) = known_from_cloud_map().await;
        members.blue_changes();
        let records = members.fleet.cloud_map.service_id("clusterset.shop-set", "blue");
        let mut record = members.fleet.instances("clusterset.shop-set", "blue")[RECORD].clone();
        record.insert(format!("cloud-map-sync/{key}"), value.to_owned());
        members.fleet.put(&records, RECORD, &record);

        let report = sync(&green_alone).await;

        assert_eq!(imported(&members.green, "web"), WEB_OF_BLUE, "{}", in_full(&report));
        assert_eq!(imported(&members.green, "cart"), "blue 10.0.0.4:8080");
        let [("web", "UnusableRecord", detail)] = held_back(&report, "green")[..] else {
            panic!("{}", in_full(&report))
        };
        assert!(detail.contains(expected), "{detail}");
        // Its own function writes the record anew.
        members.converge().await;
    }
}

#[tokio::test]
async fn records_and_names_that_no_kubernetes_object_can_have_are_reported_or_of_no_member() {
    let (members, green_alone) = known_from_cloud_map().await;
    let other = members.fleet.cloud_map.ensure_service("clusterset.shop-set", "Not_An_Id");
    let records = members.fleet.instances("clusterset.shop-set", "blue");
    for (id, record) in &records {
        members.fleet.put(&other, id, record);
    }
    members.of_amber("a_b", "10.2.0.1");

    let report = synced(&green_alone).await;

    assert_eq!(imported(&members.green, "web"), WEB_OF_BLUE);
    let held_back = held_back(&report, "green");
    assert!(matches!(held_back[..], [("a_b", "ImpossibleName", _)]), "{held_back:?}");
    let warning = "clusterset.shop-set/Not_An_Id is in a namespace for cluster records, but its name is not a valid cluster id";
    let warnings = warnings(&report);
    assert!(warnings.iter().any(|it| it.starts_with(warning)), "{}", in_full(&report));
}

#[tokio::test]
async fn cloud_map_of_another_account_takes_nothing_out_of_the_imports_and_gets_nothing() {
    let (members, _) = known_from_cloud_map().await;
    let role = "arn:aws:iam::777788889999:role/registry-writer";
    members.fleet.sandbox.role(role, None);
    let empty = members.fleet.sandbox.cloud_map_of("eu-central-1", "777788889999");
    let entry = |name: &str| json!({ "cluster": name, "registryRoleArn": role });
    let clusters = json!([entry("blue"), entry("green")]).to_string();
    let elsewhere = members.serving(&clusters, &[]).await;

    let report = sync(&elsewhere).await;

    for cluster in ["blue", "green"] {
        assert_eq!(obstacles(&report, cluster), ["UnfamiliarRegistry"], "{}", in_full(&report));
    }
    assert_eq!(empty.writes(), 0);
    assert_eq!(imported(&members.green, "web"), WEB_OF_BLUE);
    assert_eq!(members.fleet.addresses("shop", "web").len(), 2);
    members.converge().await;
}

#[tokio::test]
async fn emptied_cloud_map_takes_nothing_out_of_the_imports_and_gets_nothing() {
    let (members, _) = known_from_cloud_map().await;
    let cloud_map = &members.fleet.cloud_map;
    for namespace in ["shop", "clusterset.shop-set"] {
        let id = cloud_map.find_namespace(namespace).expect("a namespace");
        cloud_map.services(&id).iter().for_each(|it| cloud_map.remove_service(&it.id));
    }

    let report = sync(&members.function).await;
    for cluster in ["blue", "green"] {
        assert_eq!(obstacles(&report, cluster), ["UnfamiliarRegistry"], "{}", in_full(&report));
    }
    assert_eq!(imported(&members.green, "web"), WEB_OF_BLUE);
    assert_eq!(members.fleet.addresses("shop", "web"), [""; 0]);
}

/// The records of the other function's cluster come back once its Cloud Map is confirmed, too.
#[tokio::test]
async fn confirmation_by_one_function_leaves_the_imports_of_another_s_clusters() {
    let members = Members::with_one_export_each().await;
    let Members { blue, green, fleet, .. } = &members;
    let [of_blue, of_green] =
        [members.serving("blue", &[]).await, members.serving("green", &[]).await];
    for function in [&of_blue, &of_green, &of_blue] {
        sync(function).await;
    }
    let cart = blue.service_import("shop", "cart").expect("an import");
    for namespace in ["shop", "clusterset.shop-set"] {
        let id = fleet.cloud_map.find_namespace(namespace).expect("a namespace");
        fleet.cloud_map.services(&id).iter().for_each(|it| fleet.cloud_map.remove_service(&it.id));
    }
    green.keep_ready("shop", "web");
    blue.keep_ready("shop", "cart");

    for cluster in ["blue", "green"] {
        let confirm = json!({ "action": "confirm", "cluster": cluster });
        let confirmed = report(&members.serving(cluster, &[]).await, &confirm).await;
        assert!(confirmed.ok, "{}", in_full(&confirmed));
    }
    for function in [&of_blue, &of_green] {
        assert!(sync(function).await.ok);
    }

    let after = blue.service_import("shop", "cart").expect("an import");
    assert_eq!(after["spec"]["ips"], cart["spec"]["ips"]);
    members.assert_imported("web", "blue 10.0.0.1:8080", "");
    members.assert_imported("cart", "green 10.1.0.1:8080", "");
    assert_eq!((blue.gaps(), green.gaps()), (vec![], vec![]));
}

#[tokio::test]
async fn cloud_map_that_is_read_in_part_takes_nothing_out_of_the_imports() {
    for place in ["clusterset.shop-set/blue", "shop/web"] {
        let denied = FaultKind::AccessDenied;
        for (kind, after) in [(denied.clone(), 0), (denied, 1), (FaultKind::ExpiredToken, 0)] {
            let (members, green_alone) = known_from_cloud_map().await;
            pods(&members.blue, "web", &["10.0.0.1", "10.0.0.2", "10.0.0.5"]);
            members.converge().await;
            let before = imported(&members.green, "web");
            let (namespace, name) = place.split_once('/').expect("a place");
            members.fleet.cloud_map.adjust(|it| it.page_limit = 1);
            let service = members.fleet.cloud_map.service_id(namespace, name);
            let cut = Fault::on("ListInstances", kind).service(&service);
            members.fleet.cloud_map.inject(cut.after(after).always());
            // Two are left, on two pages.
            let last = members.fleet.instances("shop", "web").into_keys().next_back();
            members.fleet.cloud_map.withdraw(&members.place("web"), &last.expect("an instance"));
            members.green.forget_requests();

            let report = sync(&green_alone).await;

            assert!(!report.ok, "{place} {after}: {}", in_full(&report));
            assert_eq!(obstacles(&report, "green"), ["Unreadable"], "{}", in_full(&report));
            assert_eq!(imported(&members.green, "web"), before, "{}", in_full(&report));
            assert_eq!(imported(&members.green, "cart"), "blue 10.0.0.3:8080");
            assert_eq!(writes(&members.green), [""; 0]);
            members.fleet.cloud_map.heal();
            assert!(sync(&green_alone).await.ok, "{place} {after}");
            pods(&members.blue, "web", &["10.0.0.1"]);
            members.converge().await;
            assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080");
        }
    }
}

#[tokio::test]
async fn list_of_exports_that_is_cut_short_takes_nothing_out_of_the_imports() {
    use testbed::kubernetes::{Export, Fault, FaultKind};
    let (members, _) = known_from_cloud_map().await;
    for index in 0..500 {
        members.blue.put(Export::new("shop", &format!("a-{index}")).created(CREATED).into());
    }
    let exports = "/apis/multicluster.x-k8s.io/v1beta1/serviceexports";
    for kind in [FaultKind::SecondPageFails, FaultKind::Expired410OnContinue] {
        members.blue.fail(Fault::always(exports, kind));

        let report = sync(&members.function).await;

        assert_eq!(obstacles(&report, "blue"), ["Unreadable"], "{}", in_full(&report));
        assert_eq!(imported(&members.green, "web"), WEB_OF_BLUE);
        assert_eq!(members.fleet.addresses("shop", "web").len(), 2);
        members.blue.clear_faults();
    }
}

/// Somebody shares a namespace of that name with the account, or makes one.
#[tokio::test]
async fn of_several_namespaces_of_records_the_one_with_the_own_records_is_used() {
    let (members, green_alone) = known_from_cloud_map().await;
    let other = members.fleet.cloud_map.namespace("clusterset.shop-set", NamespaceKind::Http);
    members.fleet.cloud_map.service(&other, "blue", ServiceKind::Http);
    let blue = members.serving("blue", &[]).await;
    pods(&members.blue, "web", &["10.0.0.9"]);

    for function in [&blue, &green_alone] {
        synced(function).await;
    }

    assert_eq!(imported(&members.green, "web"), "blue 10.0.0.9:8080");
    members.blue.unexport("shop", "cart");
    let of_cart = sync_of("blue", "cart");
    let message = report(&members.serving("blue,green", &[]).await, &of_cart).await;
    assert!(message.ok, "{}", in_full(&message));
    assert_eq!(members.green.service_import("shop", "cart"), None);
    let services = members.fleet.cloud_map.services(&other);
    assert!(members.fleet.cloud_map.instances(&services[0].id).is_empty());
}

#[tokio::test]
async fn export_that_is_imported_as_it_was_before_is_ready_and_says_so() {
    let (members, _) = known_from_cloud_map().await;
    let denied = Fault::on("RegisterInstance", FaultKind::AccessDenied).instance(RECORD);
    members.fleet.cloud_map.inject(denied.always());
    members.blue.service(web().port_of("TCP", "admin", 81, 8081));

    let failed = sync(&members.function).await;

    assert!(!failed.ok, "{}", in_full(&failed));
    assert_eq!(condition(&members.blue, "web", "Ready"), "True Exported");
    members.fleet.cloud_map.heal();
    members.converge().await;
}

impl Members {
    /// blue, green and amber export `web`, and blue alone `cart`.
    async fn exporting() -> Self {
        let members = Self::start().await;
        exported(&members.blue, web(), &["10.0.0.1", "10.0.0.2"]);
        exported_at(&members.green, web(), &["10.1.0.1"], LATER);
        exported(&members.blue, service("cart"), &["10.0.0.7"]);
        members.amber("web", &["10.2.0.1"]);
        members.converge().await;
        members
    }

    fn no_answers(&self) {
        for operation in ["ListNamespaces", "ListServices", "ListInstances", "GetInstance"] {
            self.fleet.cloud_map.deny(operation);
        }
        self.fleet.cloud_map.forget_calls();
    }

    /// A run beside which Cloud Map does not answer, in a process that has read the records before.
    async fn away(&self, scope: &serde_json::Value) -> cloud_map_sync::report::Report {
        report(&self.function, scope).await
    }
}

#[tokio::test]
async fn served_clusters_follow_each_other_and_all_else_stays() {
    for scope in [json!({ "action": "sync" }), sync_of("blue", "web")] {
        let members = Members::exporting().await;
        members.no_answers();
        pods(&members.blue, "web", &["10.0.0.2", "10.0.0.3"]);

        let report = members.away(&scope).await;

        assert!(!report.ok, "{}", in_full(&report));
        assert_eq!(obstacles(&report, "blue")[0], "Unreadable");
        let web = "amber 10.2.0.1:8080, blue 10.0.0.2:8080 10.0.0.3:8080, green 10.1.0.1:8080";
        members.assert_imported("web", web, &in_full(&report));
        assert_eq!(members.fleet.cloud_map.writes(), 0);
        members.forget();
        let again = members.away(&scope).await;
        members.assert_nothing_written(&in_full(&again));
        members.fleet.cloud_map.heal();
        members.converge().await;
    }
}

#[tokio::test]
async fn import_does_not_end_and_keeps_type_and_properties_of_members_that_were_not_read() {
    let members = Members::exporting().await;
    members.no_answers();
    members.blue.unexport("shop", "cart");
    members.blue.unexport("shop", "web");
    let specs = || {
        let imports = members.green.objects("serviceimports", "shop").into_iter();
        imports.map(|import| import["spec"].clone()).collect::<Vec<_>>()
    };
    let before = specs();

    let report = members.away(&json!({ "action": "sync" })).await;

    members.assert_imported("cart", "blue 10.0.0.7:8080", &in_full(&report));
    let web = "amber 10.2.0.1:8080, green 10.1.0.1:8080";
    members.assert_imported("web", web, &in_full(&report));
    assert_eq!(specs(), before);
    members.fleet.cloud_map.heal();
    members.converge().await;
    assert!(imported(&members.green, "cart").is_empty());
}

#[tokio::test]
async fn guard_notes_a_large_loss_of_imports_while_cloud_map_does_not_answer_and_lets_it_pass() {
    let members = Members::with_sixteen_pods().await;
    members.no_answers();
    for name in ["api", "cart"] {
        pods(&members.blue, name, &[]);
    }

    for (state, left) in [(GuardState::Held, 8), (GuardState::Lifted, 0)] {
        let report = members.away(&json!({ "action": "sync" })).await;

        assert_eq!(guard(&report, "green").state, state, "{}", in_full(&report));
        assert_eq!(count(&members.green, "api"), left, "{}", in_full(&report));
        members.clock.advance(Duration::from_mins(20));
    }
}

#[tokio::test]
async fn cluster_that_was_no_member_before_exports_and_imports_nothing() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    assert!(sync(&members.serving("blue", &[]).await).await.ok);
    members.no_answers();
    exported_at(&members.green, web(), &["10.1.0.1"], LATER);

    let report = members.away(&json!({ "action": "sync" })).await;

    assert_eq!(imported(&members.blue, "web"), "blue 10.0.0.1:8080");
    assert!(imported(&members.green, "web").is_empty(), "{}", in_full(&report));
}

#[tokio::test]
async fn two_clusters_with_one_id_are_not_followed() {
    // A function that serves one of them does not know of the other.
    let scopes = || [json!({ "action": "sync" }), sync_of("green", "web")];
    let all = ["blue,green", "green"].map(|it| scopes().map(|scope| (it, scope)));
    for (served, scope) in all.concat() {
        let members = Members::exporting().await;
        members.no_answers();
        members.green.cluster_property(CLUSTER_ID, "blue");
        members.green.cluster_property("clusterset.k8s.io", CLUSTERSET);
        pods(&members.blue, "web", &["10.0.0.3"]);
        pods(&members.green, "web", &["10.1.0.3"]);

        report(&members.serving(served, &[]).await, &scope).await;

        let web = "amber 10.2.0.1:8080, blue 10.0.0.1:8080 10.0.0.2:8080, green 10.1.0.1:8080";
        members.assert_imported("web", web, &format!("{served}: {scope}"));
    }
}
