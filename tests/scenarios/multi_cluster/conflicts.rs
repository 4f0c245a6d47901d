//! Two clusters export one name.

use super::{Members, condition, exported, imported, sources, web};
use testbed::kubernetes::ClusterIp;

const OLD: &str = "2026-01-01T00:00:00Z";
const YOUNG: &str = "2026-02-01T00:00:00Z";

#[tokio::test]
async fn exports_of_two_clusters_are_one_import_with_the_endpoints_of_both() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], OLD);
    exported(&members.green, web(), &["10.1.0.1"], YOUNG);

    members.converge().await;

    let both = sources([("blue", &["10.0.0.1:8080"]), ("green", &["10.1.0.1:8080"])]);
    for cluster in [&members.blue, &members.green] {
        assert_eq!(imported(cluster, "web"), both);
        assert_eq!(condition(cluster, "web", "Conflict"), "False NoConflicts");
    }
}

#[tokio::test]
async fn ports_that_differ_are_a_conflict_on_both_and_each_port_leads_to_its_own_cluster() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], OLD);
    let other = ClusterIp::new("shop", "web").port_of("TCP", "admin", 81, 8081);
    exported(&members.green, other, &["10.1.0.1"], YOUNG);

    members.converge().await;

    let each = sources([("blue", &["10.0.0.1:8080"]), ("green", &["10.1.0.1:8081"])]);
    for cluster in [&members.blue, &members.green] {
        assert_eq!(imported(cluster, "web"), each);
        assert_eq!(condition(cluster, "web", "Conflict"), "True PortConflict");
        let import = cluster.service_import("shop", "web").expect("an import");
        let ports: Vec<_> = import["spec"]["ports"].as_array().expect("ports").clone();
        assert_eq!(ports.iter().map(|it| it["port"].clone()).collect::<Vec<_>>(), [80, 81]);
    }
}
