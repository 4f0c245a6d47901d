//! The signs of AWS's controller that anyone who writes in a namespace can set: its finalizer on a ServiceExport, its
//! annotation on a ServiceImport. Each is about its own name. A cluster belongs to that controller only by instances under
//! the cluster's id.

use serde_json::{Value, json};

use super::{
    CLUSTERSET, Members, amber_id, condition, exported, foreign_import, held_back, imported,
    in_full, obstacles, pods, service, web,
};
use crate::run::{report, said_of, sync_of};
use testbed::aws_controller::{ANNOTATION, FINALIZER, endpoint};
use testbed::kubernetes::KubernetesServer;

/// A full sync, and messages about both Services of `blue`.
fn runs() -> [Vec<Value>; 2] {
    [vec![json!({ "action": "sync" })], ["web", "cart"].map(|name| sync_of("blue", name)).into()]
}

/// Sets the finalizers of the export of `shop/web`.
fn set_finalizers(cluster: &KubernetesServer, finalizers: &[&str]) {
    let mut export = cluster.service_export("shop", "web").expect("the export");
    export["metadata"]["finalizers"] = json!(finalizers);
    cluster.put(export);
}

#[tokio::test]
async fn export_with_the_finalizer_of_awss_controller_stays_as_it_is_and_others_go_on() {
    for payloads in runs() {
        let members = Members::start().await;
        let Members { blue, fleet, .. } = &members;
        exported(blue, web(), &["10.0.0.1"]);
        exported(blue, service("cart"), &["10.0.0.2"]);
        exported(&members.green, service("mail"), &["10.1.0.1"]);
        members.converge().await;
        set_finalizers(blue, &[FINALIZER]);
        pods(blue, "web", &["10.0.0.9"]);
        pods(blue, "cart", &["10.0.0.3"]);

        for payload in &payloads {
            let report = report(&members.function, payload).await;

            assert_eq!(obstacles(&report, "blue"), [""; 0], "{}", in_full(&report));
            if payload["service"] != "cart" {
                let held = said_of(&report, "AnotherController");
                assert!(held.contains("finalizer"), "{}", in_full(&report));
            }
        }

        members.assert_imported("cart", "blue 10.0.0.3:8080", &format!("{payloads:?}"));
        members.assert_imported("web", "blue 10.0.0.1:8080", &format!("{payloads:?}"));
        assert_eq!(fleet.addresses("shop", "web"), ["10.0.0.1"], "{payloads:?}");
        assert_eq!(imported(blue, "mail"), "green 10.1.0.1:8080");
        assert_eq!(condition(blue, "web", "Ready"), "True Exported", "as it was before");
        set_finalizers(blue, &[]);
        members.converge().await;
        members.assert_imported("web", "blue 10.0.0.9:8080", "");
    }
}

#[tokio::test]
async fn new_export_with_the_finalizer_of_awss_controller_is_exported_once_it_is_off() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"]);
    set_finalizers(&members.blue, &[FINALIZER]);
    exported(&members.blue, service("cart"), &["10.0.0.2"]);

    members.converge().await;

    members.assert_imported("cart", "blue 10.0.0.2:8080", "");
    members.assert_imported("web", "", "");
    assert_eq!(condition(&members.blue, "web", "Ready"), "False Failed");
    set_finalizers(&members.blue, &[]);
    members.converge().await;
    members.assert_imported("web", "blue 10.0.0.1:8080", "");
}

#[tokio::test]
async fn import_with_the_annotation_of_awss_controller_is_left_alone_and_others_go_on() {
    for payloads in runs() {
        let members = Members::start().await;
        exported(&members.blue, service("cart"), &["10.0.0.2"]);
        members.converge().await;
        exported(&members.blue, web(), &["10.0.0.1"]);
        pods(&members.blue, "cart", &["10.0.0.3"]);
        let mut import = foreign_import("web");
        import["metadata"]["annotations"] = json!({ ANNOTATION: "{}" });
        let import = members.green.put(import);

        for payload in &payloads {
            let report = report(&members.function, payload).await;

            assert_eq!(obstacles(&report, "green"), [""; 0], "{}", in_full(&report));
            if payload["service"] != "cart" {
                let [("web", "ForeignObject", _)] = held_back(&report, "green")[..] else {
                    panic!("{}", in_full(&report))
                };
            }
        }

        assert_eq!(imported(&members.green, "cart"), "blue 10.0.0.3:8080", "{payloads:?}");
        assert_eq!(members.green.service_import("shop", "web"), Some(import), "{payloads:?}");
        assert_eq!(imported(&members.blue, "web"), "blue 10.0.0.1:8080", "{payloads:?}");
    }
}

/// The cluster has a record of ours, so it does not belong to AWS's controller.
#[tokio::test]
async fn export_waits_while_its_name_has_instances_of_awss_controller_under_the_cluster_id() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    let Members { blue, fleet, .. } = &members;
    let cart = members.place("cart");
    for address in ["10.0.0.7", "10.0.0.8"] {
        let of_aws = endpoint("blue", CLUSTERSET, address);
        fleet.cloud_map.instance(&cart, &amber_id(address), &of_aws);
    }
    exported(blue, service("cart"), &["10.0.0.2"]);
    pods(blue, "web", &["10.0.0.3"]);

    let report = members.converge().await;

    let held = said_of(&report, "AnotherController");
    assert!(held.starts_with("2 instances under this name"), "{held}");
    assert_eq!(condition(blue, "cart", "Ready"), "False Failed");
    assert_eq!(fleet.addresses("shop", "cart"), ["10.0.0.7", "10.0.0.8"], "others see AWS's");
    assert_eq!(imported(&members.green, "cart"), "blue 10.0.0.2:8080");
    members.assert_imported("web", "blue 10.0.0.3:8080", "");
}
