//! Each call that the clusterset needs, denied in turn, and a Cloud Map that was emptied: no endpoint and no import is lost
//! that is still right, and when all is well again one full sync does the rest. `rights` takes each right away.

use super::many::Many;
use super::{Members, exported, imported, in_full, pods, sources, web};
use crate::run::sync;
use testbed::cloud_map::{Fault as CloudMapFault, FaultKind as CloudMapFaultKind};
use testbed::kubernetes::{ClusterIp, Fault, FaultKind, KubernetesServer};

const CREATED: &str = "2026-01-01T00:00:00Z";

const CALLS: [&str; 7] = [
    "ListNamespaces",
    "ListServices",
    "ListInstances",
    "CreateService",
    "RegisterInstance",
    "DeregisterInstance",
    "GetOperation",
];

/// Both clusters export `web`, green `api`, and amber `cart`; then blue's `web` gets another port and one other pod, `api`
/// is not exported any more, `docs` has no pod left in green, and `mail` is exported.
async fn changed() -> Members {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1", "10.0.0.2"], CREATED);
    exported(&members.green, web(), &["10.1.0.1"], CREATED);
    exported(&members.green, service("api"), &["10.1.0.2"], CREATED);
    exported(&members.blue, service("docs"), &["10.0.0.9"], CREATED);
    exported(&members.green, service("docs"), &["10.1.0.9"], CREATED);
    members.amber("cart", &["10.2.0.1"]);
    members.converge().await;
    members.blue.service(web().port_of("TCP", "admin", 90, 9090));
    pods(&members.blue, "web", &["10.0.0.1", "10.0.0.3"]);
    members.green.unexport("shop", "api");
    pods(&members.green, "docs", &[]);
    exported(&members.blue, service("mail"), &["10.0.0.4"], CREATED);
    members
}

fn service(name: &str) -> ClusterIp {
    ClusterIp::new("shop", name).port_of("TCP", "http", 80, 8080)
}

fn clusters(members: &Members) -> [&KubernetesServer; 2] {
    [&members.blue, &members.green]
}

/// Everything that is right before and after is there.
fn assert_kept(members: &Members, denied: &str) {
    for cluster in clusters(members) {
        let web = imported(cluster, "web");
        for (source, endpoint) in [("blue", "10.0.0.1:8080"), ("green", "10.1.0.1:8080")] {
            let is_kept = web.get(source).is_some_and(|it| it.contains(endpoint));
            assert!(is_kept, "{denied}: {web:?}");
        }
        let cart = imported(cluster, "cart");
        assert_eq!(cart, sources([("amber", &["10.2.0.1:8080"])]), "{denied}");
        for name in ["web", "cart"] {
            let import = cluster.service_import("shop", name).expect(denied);
            assert!(import["spec"]["ips"][0].is_string(), "{denied}: {import}");
        }
    }
    let addresses = members.fleet.addresses("shop", "web");
    for address in ["10.0.0.1", "10.1.0.1"] {
        assert!(addresses.iter().any(|it| it == address), "{denied}: {addresses:?}");
    }
}

async fn assert_reached(members: &Members, denied: &str) {
    members.converge().await;
    for cluster in clusters(members) {
        let blue = ["10.0.0.1:8080", "10.0.0.1:9090", "10.0.0.3:8080", "10.0.0.3:9090"];
        let web: [(&str, &[&str]); 2] = [("blue", &blue), ("green", &["10.1.0.1:8080"])];
        assert_eq!(imported(cluster, "web"), sources(web), "{denied}");
        assert_eq!(imported(cluster, "mail"), sources([("blue", &["10.0.0.4:8080"])]), "{denied}");
        assert_eq!(imported(cluster, "docs"), sources([("blue", &["10.0.0.9:8080"])]), "{denied}");
        assert_eq!(cluster.service_import("shop", "api"), None, "{denied}");
    }
    let mut addresses = members.fleet.addresses("shop", "web");
    addresses.dedup();
    assert_eq!(addresses, ["10.0.0.1", "10.0.0.3", "10.1.0.1"], "{denied}");
}

#[tokio::test]
async fn call_that_is_denied_loses_nothing() {
    for operation in CALLS {
        let members = changed().await;
        let fault = CloudMapFault::on(operation, CloudMapFaultKind::AccessDenied);
        members.fleet.cloud_map.inject(fault.always());
        members.fleet.cloud_map.forget_calls();
        sync(&members.function).await;
        assert!(members.fleet.cloud_map.count(operation) > 0, "{operation}: not called");
        assert_kept(&members, operation);
        members.fleet.cloud_map.heal();
        assert_reached(&members, operation).await;
    }
}

#[tokio::test]
async fn emptied_cloud_map_takes_nothing_out_of_the_imports_and_gets_nothing() {
    let members = changed().await;
    let cloud_map = &members.fleet.cloud_map;
    for namespace in ["shop", "clusterset.shop-set"] {
        let id = cloud_map.find_namespace(namespace).expect("a namespace");
        for service in cloud_map.services(&id) {
            let found = cloud_map.find_service(namespace, &service.name).expect("a service");
            cloud_map.remove_service(&found);
        }
    }

    let report = sync(&members.function).await;

    for cluster in ["blue", "green"] {
        let obstacles = &super::part(&report, cluster).obstacles;
        assert_eq!(obstacles[0].reason, "UnfamiliarRegistry", "{}", in_full(&report));
    }
    for cluster in clusters(&members) {
        let web = imported(cluster, "web");
        assert!(web["blue"].contains("10.0.0.1:8080"), "{web:?}");
        assert_eq!(web["green"], sources([("green", &["10.1.0.1:8080"])])["green"]);
        assert_eq!(imported(cluster, "cart"), sources([("amber", &["10.2.0.1:8080"])]));
    }
    assert_eq!(members.fleet.addresses("shop", "web"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn status_of_an_export_that_is_refused_is_in_the_report() {
    let many = Many::start(1, &["shop"], &[]).await;
    exported(&many.clusters[0], web(), &["10.0.0.1"], CREATED);
    let path = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceexports/";
    let refused = Fault::always(path, FaultKind::Status(403)).of_method("PATCH");
    many.clusters[0].fail(refused);

    let report = sync(&many.function).await;

    let said = in_full(&report);
    assert!(said.contains("conditions not written"), "{said}");
    many.clusters[0].clear_faults();
    many.converge().await;
}

#[tokio::test(start_paused = true)]
async fn member_whose_record_the_limit_refuses_imports_nothing_until_it_has_one() {
    let many = Many::start(1, &["shop"], &[]).await;
    exported(&many.clusters[0], web(), &["10.0.0.1"], CREATED);
    let full = CloudMapFaultKind::Error(400, "ResourceLimitExceeded", "The limit is reached");
    many.fleet.cloud_map.inject(CloudMapFault::on("RegisterInstance", full).always());

    let report = sync(&many.function).await;

    assert!(in_full(&report).contains("The limit is reached"), "{}", in_full(&report));
    assert_eq!(many.clusters[0].objects("serviceimports", "shop").len(), 0);
    many.fleet.cloud_map.heal();
    many.converge().await;
    assert_eq!(many.clusters[0].objects("serviceimports", "shop").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn creation_whose_answer_is_lost_leaves_no_record_for_the_next_run() {
    for lost in [CloudMapFaultKind::DropAfterEffect, CloudMapFaultKind::Cut] {
        let many = Many::start(1, &["shop"], &[]).await;
        exported(&many.clusters[0], web(), &["10.0.0.1"], CREATED);
        many.fleet.cloud_map.inject(CloudMapFault::on("CreateService", lost));

        let report = sync(&many.function).await;

        assert!(report.ok, "{}", in_full(&report));
        many.fleet.cloud_map.heal();
        many.fleet.cloud_map.forget_calls();
        let next = sync(&many.function).await;
        assert_eq!(many.fleet.cloud_map.writes(), 0, "{report}\n{next}");
    }
}
