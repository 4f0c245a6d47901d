//! The instances of exports in Cloud Map: endpoints that are leaving, addresses that are not imported, Services that
//! are gone or cannot be exported, and exports that are larger than a record, a Cloud Map service, or the records of a
//! cluster.

use cloud_map_sync::cloud_map::StripDataPrefix;
use serde_json::{Value, json};

use super::{
    CREATED, LATER, Members, RECORD, condition, exported, exported_at, held_back, imported,
    imported_from, in_full, message_of, pods, slices, web,
};
use crate::fleet::refs;
use crate::run::{report, sync, sync_of, synced};
use testbed::kubernetes::{ClusterIp, Export, KubernetesServer, Pod};

/// An ECS task or any other client of Cloud Map, by the command of the README.
#[tokio::test]
async fn any_client_discovers_the_ready_endpoints_of_all_members_and_no_record() {
    let members = Members::start().await;
    members.fleet.cloud_map.adjust(|it| it.discovery_on_any_host = true);
    exported(&members.blue, web(), &["10.0.0.1"]);
    exported(&members.green, web(), &["10.1.0.1"]);
    members.converge().await;
    let pods = [Pod::new("web-a", "10.0.0.1"), Pod::new("web-b", "10.0.0.2").not_ready()];
    members.blue.pods("shop", "web", &pods);
    members.converge().await;

    let client = aws_sdk_servicediscovery::Client::new(&members.fleet.sandbox.sdk_config().await);
    let found = client.discover_instances().namespace_name("shop").service_name("web");
    let found = found.customize().interceptor(StripDataPrefix).send().await.expect("an answer");
    let addresses = found.instances().iter().map(|it| {
        let attributes = it.attributes().expect("attributes");
        attributes.get("AWS_INSTANCE_IPV4").map_or("a record", String::as_str)
    });
    let mut addresses: Vec<&str> = addresses.collect();
    addresses.sort_unstable();
    assert_eq!(addresses, ["10.0.0.1", "10.1.0.1"]);
}

#[tokio::test]
async fn endpoint_that_serves_while_it_terminates_is_in_the_import_and_not_in_cloud_map() {
    let members = Members::with_web(&["10.0.0.1", "10.0.0.2"]).await;
    let Members { blue, green, fleet, .. } = &members;
    let leaving = [
        Pod::new("web-1", "10.0.0.1").terminating(),
        Pod::new("web-2", "10.0.0.2"),
        Pod::new("web-3", "10.0.0.3").not_ready().terminating(),
    ];
    blue.pods("shop", "web", &leaving);

    members.converge().await;

    for cluster in [blue, green] {
        let slice = &slices(cluster, "web")[0];
        let endpoints = slice["endpoints"].as_array().expect("endpoints");
        let conditions: Vec<(&Value, &Value)> =
            endpoints.iter().map(|it| (&it["addresses"][0], &it["conditions"])).collect();
        let expected = [
            (&json!("10.0.0.1"), &json!({"ready": false, "serving": true, "terminating": true})),
            (&json!("10.0.0.2"), &json!({"ready": true, "serving": true, "terminating": false})),
        ];
        assert_eq!(conditions, expected);
    }
    assert_eq!(fleet.addresses("shop", "web"), ["10.0.0.2"]);
}

/// Rules that allow everything, with ranges of addresses for a cluster.
fn policy(cluster: &str, names: &str, cidrs: &[&str]) -> String {
    let rule = |clusters: &str, names: &str| json!({"clusters": [clusters], "kubernetesNamespaces": ["*"], "cloudMapNamespaces": ["*"], "names": [names]});
    let mut first = rule(cluster, names);
    first["cidrs"] = json!(cidrs);
    json!([first, rule("*", "*")]).to_string()
}

#[tokio::test]
async fn address_outside_the_ranges_of_the_importing_cluster_is_not_imported() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    members.amber("web", &["10.2.0.1", "192.168.7.1", "192.168.7.2"]);
    let policy = policy("green", "*", &["10.0.0.0/8"]);
    let function = members.serving("blue,green", &[("NAME_POLICY", &policy)]).await;

    let report = synced(&function).await;

    assert_eq!(imported(&members.green, "web"), "amber 10.2.0.1:8080, blue 10.0.0.1:8080");
    assert_eq!(imported_from(&members.blue, "web")["amber"].len(), 3);
    let [(_, "AddressNotAllowed", detail)] = held_back(&report, "green")[..] else {
        panic!("{}", in_full(&report))
    };
    insta::assert_snapshot!(detail, @"2 addresses are not imported from cluster amber, since NAME_POLICY does not allow them for the Kubernetes namespace: 192.168.7.1, 192.168.7.2");
    assert_eq!(held_back(&report, "blue"), []);
    let question =
        json!({"action": "explain", "cluster": "green", "namespace": "shop", "service": "web"});
    let answer = members.ask(&function, &question).await.to_string();
    let reason = "not in the import: NAME_POLICY does not allow its address";
    assert_eq!(answer.matches(reason).count(), 2, "{answer}");
}

#[tokio::test]
async fn export_that_name_policy_keeps_out_of_cloud_map_is_imported_nowhere() {
    let members = Members::with_web(&["10.0.0.1", "192.168.7.1"]).await;
    let ranges = policy("blue", "*", &["10.0.0.0/8"]);
    let function = members.serving("blue,green", &[("NAME_POLICY", &ranges)]).await;
    sync(&function).await;
    assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080");

    let names = policy("blue", "api", &["10.0.0.0/8"]);
    let function = members.serving("blue,green", &[("NAME_POLICY", &names)]).await;
    let report = sync(&function).await;

    assert_eq!(members.green.service_import("shop", "web"), None, "{}", in_full(&report));
    assert_eq!(condition(&members.blue, "web", "Ready"), "False Failed");
    // A function that does not read the exporter goes by its records.
    sync(&members.serving("green", &[]).await).await;
    assert_eq!(members.green.service_import("shop", "web"), None);
}

fn conditions(cluster: &KubernetesServer, name: &str) -> [String; 2] {
    ["Valid", "Ready"].map(|kind| condition(cluster, name, kind))
}

#[tokio::test]
async fn derived_service_is_never_exported() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    members.blue.put(Export::new("shop", "derived-isrlchlhrq").created(CREATED).into());

    members.converge().await;

    let expected = ["False InvalidServiceType", "False Failed"];
    assert_eq!(conditions(&members.blue, "derived-isrlchlhrq"), expected);
    assert_eq!(members.green.service_import("shop", "derived-isrlchlhrq"), None);
}

#[tokio::test]
async fn service_that_is_deleted_or_becomes_an_external_name_ends_its_export() {
    for (is_deleted, expected) in [
        (true, ["False NoService", "False Pending"]),
        (false, ["False InvalidServiceType", "False Failed"]),
    ] {
        let members = Members::in_step(&["10.0.0.1"]).await;
        let Members { blue, green, fleet, .. } = &members;
        if is_deleted {
            blue.delete_service("shop", "web");
        } else {
            let spec = json!({ "type": "ExternalName", "externalName": "example.com" });
            blue.edit_service("shop", "web", |it| it["spec"] = spec);
        }

        members.converge().await;

        assert_eq!(conditions(blue, "web"), expected);
        assert_eq!(fleet.addresses("shop", "web"), [""; 0]);
        assert_eq!(fleet.instances("clusterset.shop-set", "blue").len(), 1, "its own record");
        for cluster in [blue, green] {
            assert_eq!(cluster.service_import("shop", "web"), None);
        }
    }
}

/// The import in green of an export of blue that green's own function knows from the record alone.
async fn read_by_another_function(members: &Members) -> Value {
    let green_alone = members.serving("green", &[]).await;
    members.green.delete("serviceimports", "shop", "web");
    synced(&green_alone).await;
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
    let pieces = records[RECORD].keys();
    assert_eq!(pieces.filter(|key| key.starts_with("cloud-map-sync/export")).count(), 5);
    assert_eq!(members.fleet.addresses("shop", "web").len(), 40);
    let import = read_by_another_function(&members).await;
    assert_eq!(import["spec"]["ports"].as_array().map(Vec::len), Some(40), "{import:#}");
    assert_eq!(import["metadata"]["annotations"]["team"], annotations[0].1);
    members.assert_settled().await;
}

#[tokio::test]
async fn labels_and_annotations_that_cannot_be_imported_are_left_out_and_reported() {
    let invalid = "labels \"a b\" and annotations \"x/y/z\" are left out of imports: no Kubernetes object can have them";
    let too_large = "labels and annotations are left out, since they do not fit";
    let long = "x".repeat(100 * 1024);
    for (label, note, expected, team) in [
        ("c", ("note", &*long), too_large, Value::Null),
        ("a b", ("x/y/z", "1"), invalid, json!("shop")),
    ] {
        let members = Members::start().await;
        exported(&members.blue, web(), &["10.0.0.1"]);
        let export = Export::new("shop", "web").created(CREATED).annotations(&[note]);
        members.blue.put(export.labels(&[("team", "shop"), (label, "x")]).into());

        let report = members.converge().await;

        assert_eq!(conditions(&members.blue, "web"), ["True Valid", "True Exported"]);
        assert_eq!(message_of(&members.blue, "web", "Ready"), expected);
        assert!(report.to_string().contains(expected), "{report}");
        let here = members.green.service_import("shop", "web").expect("an import");
        let there = read_by_another_function(&members).await;
        for import in [here, there] {
            let metadata = &import["metadata"];
            assert_eq!(metadata["labels"]["team"], team, "{import:.300}");
            let left_out = [&metadata["labels"][label], &metadata["annotations"][note.0]];
            assert_eq!(left_out, [&Value::Null; 2], "{import:.300}");
        }
        members.assert_settled().await;
    }
}

#[tokio::test]
async fn export_that_no_record_can_hold_has_none_and_others_go_on() {
    let members = Members::start().await;
    let service = (0..100).fold(ClusterIp::new("shop", "web"), |service, index| {
        service.port_of("TCP", &format!("a-long-port-{index:02}"), 8000 + index, 8000 + index)
    });
    exported(&members.blue, service, &[]);
    exported(&members.blue, ClusterIp::new("shop", "api").port("http", 80), &["10.0.0.2"]);

    let report = sync(&members.function).await;

    assert!(report.to_string().contains("ExportTooLarge"), "{report}");
    assert_eq!(condition(&members.blue, "web", "Ready"), "False Failed");
    let expected = message_of(&members.blue, "web", "Ready");
    assert!(
        expected.starts_with("ExportTooLarge: the properties of its 100 ports have "),
        "{expected}"
    );
    assert_eq!(condition(&members.blue, "api", "Ready"), "True Exported");
    let records = members.fleet.instances("clusterset.shop-set", "blue");
    assert_eq!(records.len(), 2, "of api and of the cluster: {records:?}");
    assert!(!imported(&members.green, "api").is_empty());
    // A function that does not serve blue does not know of it.
    for cluster in [&members.blue, &members.green] {
        assert!(cluster.service_import("shop", "web").is_some());
    }
    members.assert_settled().await;
}

#[tokio::test]
async fn endpoints_past_the_thousandth_are_imported_by_served_clusters_and_reported_with_numbers() {
    let members = Members::start().await;
    let addresses = (0..1001).map(|index| format!("10.0.{}.{}", index / 250, index % 250 + 1));
    exported(&members.blue, web(), &refs(&addresses.collect::<Vec<_>>()));

    synced(&members.function).await;
    assert_eq!(members.fleet.addresses("shop", "web").len(), 1000);
    assert_eq!(condition(&members.blue, "web", "Ready"), "True Exported");
    let expected = "ServiceFull: 1000 of 1001 instances fit: a Cloud Map service can have 1000, and 0 in it are not ours";
    assert_eq!(message_of(&members.blue, "web", "Ready"), expected);
    for cluster in members.clusters() {
        assert_eq!(imported_from(cluster, "web")["blue"].len(), 1001);
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
        exported(&members.blue, service.port("http", 80), &[]);
    }

    let report = sync(&function).await;

    assert!(report.to_string().contains("TooManyExports"), "{report}");
    let records = members.fleet.instances("clusterset.shop-set", "blue");
    assert_eq!(records.len(), 1000, "999 exports and the cluster");
    let lists = members.fleet.cloud_map.count("ListInstances");
    assert!(lists < 20, "{lists} reads of all records");
    let ready = |index| condition(&members.blue, &format!("web-{index:04}"), "Ready");
    let of_all: Vec<String> = (0..1000).map(ready).collect();
    assert_eq!(of_all.iter().filter(|it| *it == "True Exported").count(), 999);
    let held = of_all.iter().position(|it| it == "False Failed").expect("one is held back");
    let expected = message_of(&members.blue, &format!("web-{held:04}"), "Ready");
    assert_eq!(expected, "TooManyExports: a cluster can have 999 exports");
    members.blue.unexport("shop", &format!("web-{:04}", (held + 1) % 1000));
    sync(&function).await;
    sync(&function).await;
    assert_eq!(ready(held), "True Exported");
}

/// A release may delete its objects and make them again. Importers take the age of an export from its record.
#[tokio::test]
async fn export_that_is_made_again_rewrites_its_record_and_no_instance() {
    let members = Members::in_step(&["10.0.0.1", "10.0.0.2"]).await;
    let Members { blue, fleet, .. } = &members;
    let other = ClusterIp::new("shop", "web").port_of("TCP", "admin", 81, 8081);
    exported_at(&members.green, other, &["10.1.0.1"], LATER);
    members.converge().await;
    assert_eq!(condition(blue, "web", "Conflict"), "True PortConflict");
    let port = |cluster: &KubernetesServer| {
        cluster.service_import("shop", "web").expect("an import")["spec"]["ports"][0]["port"]
            .clone()
    };
    assert_eq!(port(blue), 80);
    let before = instances_of(&members, "10.0.0.");
    blue.unexport("shop", "web");
    blue.put(Export::new("shop", "web").created("2026-03-01T00:00:00Z").into());

    synced(&members.function).await;

    assert_eq!(instances_of(&members, "10.0.0."), before);
    assert_eq!(port(&members.green), 81, "the other one is older now");
    members.assert_settled().await;
    let alone = members.serving("green", &[]).await;
    synced(&alone).await;
    assert_eq!(port(&members.green), 81, "by the record");
    pods(blue, "web", &["10.0.0.2", "10.0.0.3"]);
    members.converge().await;
    let created = fleet.values("shop", "web", "SERVICE_EXPORT_CREATION_TIMESTAMP");
    let newest = created.iter().filter(|it| *it == "1772323200000");
    assert_eq!(newest.count(), 1, "{created:?}");
}

/// The instances of `shop/web` with addresses that begin so.
fn instances_of(members: &Members, network: &str) -> Vec<(String, Value)> {
    let all = members.fleet.instances("shop", "web").into_iter();
    let own = all.filter(|(_, it)| it["AWS_INSTANCE_IPV4"].starts_with(network));
    own.map(|(id, attributes)| (id, json!(attributes))).collect()
}

/// A label has it, as that of a node in a data centre may.
#[tokio::test]
async fn zone_that_is_no_dns_name_is_in_the_import_whatever_the_source() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    members.blue.pods("shop", "web", &[Pod::new("web-1", "10.0.0.1").zone("DC1_east")]);
    members.converge().await;
    let zone = || slices(&members.green, "web")[0]["endpoints"][0]["zone"].clone();
    assert_eq!(zone(), "DC1_east");
    let alone = members.serving("green", &[]).await;

    for function in [&members.function, &alone] {
        for payload in [sync_of("green", "web"), json!({ "action": "sync" })] {
            report(function, &payload).await;
            assert_eq!(zone(), "DC1_east", "{payload}");
        }
    }
}
