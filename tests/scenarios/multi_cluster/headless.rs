//! Headless imports, whose endpoints are found by DNS alone, and the conditions of endpoints that are leaving.

use serde_json::{Value, json};

use super::{ClusterIp, Members, condition, exported, imported, slices, sources, web};
use testbed::kubernetes::{KubernetesServer, Pod};

const OLD: &str = "2026-01-01T00:00:00Z";
const YOUNG: &str = "2026-02-01T00:00:00Z";

fn headless() -> ClusterIp {
    ClusterIp::new("shop", "web").spec("clusterIP", "None").spec("clusterIPs", json!(["None"]))
}

fn names(cluster: &KubernetesServer) -> Vec<String> {
    let ports = slices(cluster, "web").into_iter();
    let ports = ports.flat_map(|it| it["ports"].as_array().cloned().unwrap_or_default());
    let mut names: Vec<String> =
        ports.map(|it| format!("{} {}", it["name"].as_str().unwrap_or("-"), it["port"])).collect();
    names.sort();
    names
}

#[tokio::test]
async fn port_conflict_of_headless_exports_takes_no_endpoint_out() {
    let members = Members::start().await;
    let Members { blue, green, .. } = &members;
    exported(blue, headless().port_of("TCP", "http", 80, 8080), &["10.0.0.1"], OLD);
    exported(green, headless().port_of("TCP", "http", 81, 8081), &["10.1.0.1"], YOUNG);

    members.converge().await;

    for cluster in [blue, green] {
        let both = sources([("blue", &["10.0.0.1:8080"]), ("green", &["10.1.0.1:8081"])]);
        assert_eq!(imported(cluster, "web"), both);
        assert_eq!(names(cluster), ["http 8080", "http 8081"]);
        let import = cluster.service_import("shop", "web").expect("an import");
        assert_eq!(import["spec"]["ports"].as_array().map(Vec::len), Some(1), "{import:#}");
        assert_eq!(condition(cluster, "web", "Conflict"), "True PortConflict");
    }
}

#[tokio::test]
async fn one_address_with_two_targets_of_one_port_has_both() {
    let members = Members::start().await;
    let Members { blue, green, .. } = &members;
    blue.service(ClusterIp::new("shop", "web").port_of("TCP", "http", 80, "http"));
    let pods = [("web-1", 8080), ("web-2", 9090)]
        .map(|(name, port)| Pod::new(name, "10.0.0.1").container_port("http", port));
    blue.pods("shop", "web", &pods);
    blue.export("shop", "web");

    members.converge().await;

    let both = sources([("blue", &["10.0.0.1:8080", "10.0.0.1:9090"])]);
    assert_eq!(imported(green, "web"), both);
}

#[tokio::test]
async fn endpoint_that_serves_while_it_terminates_is_in_the_import_and_not_in_cloud_map() {
    let members = Members::start().await;
    let Members { blue, green, fleet, .. } = &members;
    exported(blue, web(), &["10.0.0.1", "10.0.0.2"], OLD);
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
