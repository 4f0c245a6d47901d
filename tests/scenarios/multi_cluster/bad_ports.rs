//! Ports that Kubernetes accepts in one cluster and not beside those of another, and a Service without any.

use serde_json::Value;

use super::{Members, condition, exported, imported, slices, sources, web};
use testbed::kubernetes::{ClusterIp, Headless, KubernetesServer};

const OLD: &str = "2026-01-01T00:00:00Z";
const YOUNG: &str = "2026-02-01T00:00:00Z";

fn one_port(name: &str, number: u16, target: u16) -> ClusterIp {
    ClusterIp::new("shop", "web").port_of("TCP", name, number, target)
}

/// Name and number of each port of the import `web`.
fn ports(cluster: &KubernetesServer) -> Vec<String> {
    let import = cluster.service_import("shop", "web").expect("an import");
    let ports = import["spec"]["ports"].as_array().cloned().unwrap_or_default();
    ports.iter().map(|it| format!("{}:{}", it["name"].as_str().unwrap_or(""), it["port"])).collect()
}

/// Both export `web`, blue first; ports of the import, and its endpoints.
async fn merged(of_blue: ClusterIp, of_green: ClusterIp) -> Members {
    let members = Members::start().await;
    exported(&members.blue, of_blue, &["10.0.0.1"], OLD);
    exported(&members.green, of_green, &["10.1.0.1"], YOUNG);
    members.converge().await;
    members
}

#[tokio::test]
async fn unnamed_port_has_a_name_beside_that_of_another_cluster() {
    let members = merged(one_port("", 80, 8080), one_port("admin", 81, 8081)).await;
    let each = sources([("blue", &["10.0.0.1:8080"]), ("green", &["10.1.0.1:8081"])]);
    for cluster in [&members.blue, &members.green] {
        assert_eq!(ports(cluster), ["tcp-80:80", "admin:81"]);
        assert_eq!(imported(cluster, "web"), each);
        let names: Vec<Value> =
            slices(cluster, "web").iter().map(|it| it["ports"][0]["name"].clone()).collect();
        assert!(names.contains(&"tcp-80".into()) && names.contains(&"admin".into()), "{names:?}");
        assert_eq!(condition(cluster, "web", "Conflict"), "True PortConflict");
    }
}

#[tokio::test]
async fn one_number_under_two_names_is_one_port_of_both() {
    let members = merged(web(), one_port("web", 80, 8081)).await;
    let both = sources([("blue", &["10.0.0.1:8080"]), ("green", &["10.1.0.1:8081"])]);
    for cluster in [&members.blue, &members.green] {
        assert_eq!(ports(cluster), ["http:80"]);
        assert_eq!(imported(cluster, "web"), both);
        assert_eq!(condition(cluster, "web", "Conflict"), "True PortConflict");
    }
}

#[tokio::test]
async fn one_name_with_two_numbers_leads_to_the_older_export_alone() {
    let members = merged(web(), one_port("http", 81, 8081)).await;
    for cluster in [&members.blue, &members.green] {
        assert_eq!(ports(cluster), ["http:80"]);
        assert_eq!(imported(cluster, "web"), sources([("blue", &["10.0.0.1:8080"])]));
        assert_eq!(condition(cluster, "web", "Conflict"), "True PortConflict");
    }
}

#[tokio::test]
async fn headless_service_without_ports_is_imported_by_its_addresses() {
    let members = Members::start().await;
    members.blue.service(Headless::new("shop", "web"));
    super::pods(&members.blue, "web", &["10.0.0.1"]);
    members.blue.put(testbed::kubernetes::Export::new("shop", "web").created(OLD).into());

    members.converge().await;

    assert_eq!(condition(&members.blue, "web", "Ready"), "True Exported");
    assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.1"]);
    for cluster in [&members.blue, &members.green] {
        assert_eq!(ports(cluster), [""; 0]);
        let slices = slices(cluster, "web");
        assert_eq!(slices.len(), 1);
        assert_eq!(slices[0]["endpoints"][0]["addresses"][0], "10.0.0.1");
    }
}
