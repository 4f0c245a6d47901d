//! Exports that are larger than a record, a Cloud Map service, or the records of a cluster.

use serde_json::Value;

use super::bad_exports::{conditions, export_of_many};
use super::{Members, condition, exported, imported, in_full, message_of, pods, slices, web};
use crate::run::sync;
use testbed::kubernetes::{ClusterIp, Export};

const CREATED: &str = "2026-01-01T00:00:00Z";

/// The import in green of an export of blue that green's own function knows from the record alone.
async fn read_by_another_function(members: &Members) -> Value {
    let green_alone = members.serving("green", &[]).await;
    members.green.delete("serviceimports", "shop", "web");
    let report = sync(&green_alone).await;
    assert!(report.ok, "{}", in_full(&report));
    members.green.service_import("shop", "web").expect("an import")
}

#[tokio::test]
async fn forty_ports_and_unicode_are_in_the_pieces_of_a_record() {
    let members = Members::start().await;
    let service = (0..40).fold(ClusterIp::new("shop", "web"), |service, index| {
        let name = format!("a-long-port-{index:02}");
        service
            .port_of("TCP", &name, 8000 + index, 8000 + index)
            .with(|it| it.app_protocol("kubernetes.io/h2c"))
    });
    members.blue.service(service);
    pods(&members.blue, "web", &["10.0.0.1"]);
    let annotations = [("team", "Käse, 漢字 und 😀\n\"quoted\"")];
    let export = Export::new("shop", "web").created(CREATED).annotations(&annotations);
    members.blue.put(export.into());

    members.converge().await;

    assert_eq!(conditions(&members.blue, "web"), ["True Valid", "True Exported"]);
    let records = members.fleet.instances("clusterset.shop-set", "blue");
    let pieces = records["export-7cb0d844a658ca77f191"].keys();
    assert_eq!(pieces.filter(|key| key.starts_with("cloud-map-sync/export")).count(), 5);
    assert_eq!(members.fleet.addresses("shop", "web").len(), 40);
    let import = read_by_another_function(&members).await;
    assert_eq!(import["spec"]["ports"].as_array().map(Vec::len), Some(40), "{import:#}");
    assert_eq!(import["metadata"]["annotations"]["team"], annotations[0].1);
    members.assert_settled().await;
}

#[tokio::test]
async fn labels_and_annotations_of_100_kb_are_left_out_by_every_member_and_reported() {
    let members = Members::start().await;
    let long = "x".repeat(100 * 1024);
    members.blue.service(web());
    pods(&members.blue, "web", &["10.0.0.1"]);
    let export = Export::new("shop", "web").created(CREATED).labels(&[("team", "shop")]);
    members.blue.put(export.annotations(&[("note", &long)]).into());

    members.converge().await;

    let told = "labels and annotations are left out, since they do not fit";
    assert_eq!(conditions(&members.blue, "web"), ["True Valid", "True Exported"]);
    assert_eq!(message_of(&members.blue, "web", "Ready"), told);
    let here = members.green.service_import("shop", "web").expect("an import");
    let there = read_by_another_function(&members).await;
    for import in [here, there] {
        assert_eq!(import["metadata"]["labels"]["team"], Value::Null, "{import:.300}");
        assert_eq!(import["metadata"]["annotations"]["note"], Value::Null);
    }
    members.assert_settled().await;
}

#[tokio::test]
async fn export_that_no_record_can_hold_has_none_and_others_go_on() {
    let members = Members::start().await;
    let service = (0..100).fold(ClusterIp::new("shop", "web"), |service, index| {
        service.port_of("TCP", &format!("a-long-port-{index:02}"), 8000 + index, 8000 + index)
    });
    exported(&members.blue, service, &[], CREATED);
    exported(&members.blue, ClusterIp::new("shop", "api").port("http", 80), &["10.0.0.2"], CREATED);

    let report = sync(&members.function).await;

    assert!(report.to_string().contains("ExportTooLarge"), "{report}");
    assert_eq!(condition(&members.blue, "web", "Ready"), "False Failed");
    let told = message_of(&members.blue, "web", "Ready");
    assert!(told.starts_with("ExportTooLarge: the properties of its 100 ports have "), "{told}");
    assert_eq!(condition(&members.blue, "api", "Ready"), "True Exported");
    let records = members.fleet.instances("clusterset.shop-set", "blue");
    assert_eq!(records.len(), 2, "of api and of the cluster: {records:?}");
    assert!(!imported(&members.green, "api").is_empty());
    // Without a record it counts for no member, whoever serves it.
    for cluster in [&members.blue, &members.green] {
        assert_eq!(cluster.service_import("shop", "web"), None);
    }
    members.assert_settled().await;
}

#[tokio::test]
async fn endpoints_past_the_thousandth_are_imported_by_served_clusters_and_reported_with_numbers() {
    let members = Members::start().await;
    export_of_many(&members, "web", 1001);

    let report = sync(&members.function).await;

    assert!(report.ok, "{report}");
    assert_eq!(members.fleet.addresses("shop", "web").len(), 1000);
    assert_eq!(condition(&members.blue, "web", "Ready"), "True Exported");
    assert_eq!(
        message_of(&members.blue, "web", "Ready"),
        "ServiceFull: 1000 of 1001 instances fit: a Cloud Map service can have 1000, and 0 in it are not ours"
    );
    for cluster in [&members.blue, &members.green] {
        assert_eq!(imported(cluster, "web")["blue"].len(), 1001);
        assert_eq!(slices(cluster, "web").len(), 11);
    }
    members.assert_settled().await;
}

#[tokio::test]
async fn thousandth_export_of_a_cluster_is_held_back_with_the_number() {
    let members = Members::start().await;
    let function = members.serving("blue", &[("MULTI_CLUSTER", "export")]).await;
    for index in 0..1000 {
        let service = ClusterIp::new("shop", &format!("web-{index:04}"));
        exported(&members.blue, service.port("http", 80), &[], CREATED);
    }

    let report = sync(&function).await;

    assert!(report.to_string().contains("TooManyExports"), "{report}");
    let records = members.fleet.instances("clusterset.shop-set", "blue");
    assert_eq!(records.len(), 1000, "999 exports and the cluster");
    let ready = |index| condition(&members.blue, &format!("web-{index:04}"), "Ready");
    let of_all: Vec<String> = (0..1000).map(ready).collect();
    assert_eq!(of_all.iter().filter(|it| *it == "True Exported").count(), 999);
    let held = of_all.iter().position(|it| it == "False Failed").expect("one is held back");
    assert_eq!(
        message_of(&members.blue, &format!("web-{held:04}"), "Ready"),
        "TooManyExports: a cluster can have 999 exports"
    );
    members.blue.unexport("shop", &format!("web-{:04}", (held + 1) % 1000));
    sync(&function).await;
    sync(&function).await;
    assert_eq!(ready(held), "True Exported");
}
