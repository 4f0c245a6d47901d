//! Messages, several in a batch: each is about one cluster and its names, which are read in every served cluster. What another party deregisters of a member (its endpoints, and the records of its exports) is registered again by
//! full syncs.

use std::time::Duration;

use serde_json::{Value, json};

use super::many::Many;
use super::{CREATED, Members, SLICES, exported, imported, in_full, pods, service, web};
use crate::queue::{batch_of, failures, scope};
use crate::run::{documents, synced};
use testbed::function::invoke;
use testbed::kubernetes::{Export, Fault, FaultKind};

fn about(cluster: &str) -> Value {
    scope(cluster, "web")
}

async fn hand_over(many: &Many, bodies: &[Value]) -> Vec<String> {
    failures(&invoke(&many.function, &batch_of(bodies)).await)
}

#[tokio::test(start_paused = true)]
async fn namespace_that_is_created_gets_the_imports_of_its_name() {
    let many = Many::start(2, &[], &[]).await;
    many.clusters[0].namespace("shop");
    exported(&many.clusters[0], web(), &["10.0.0.1"]);
    many.converge().await;
    assert_eq!(many.clusters[1].service_import("shop", "web"), None);
    many.clusters[1].namespace("shop");

    let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
    let event = json!({
        "type": "ADD", "body": body, "group": "", "version": "v1", "resource": "namespaces",
        "metadata": { "cluster": "c1" },
    });
    assert_eq!(hand_over(&many, &[event]).await, [""; 0]);

    assert_eq!(imported(&many.clusters[1], "web"), "c0 10.0.0.1:8080");
}

const EXPORT: &str = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceexports/web";
const EXPORTS: &str = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceexports";

/// The message is about a new pod of `shop/web` in `c0`, which both import. What `c1` does not take is left to its full sync,
/// and counted until then.
#[tokio::test(start_paused = true)]
async fn message_returns_if_a_change_of_its_own_cluster_fails_that_a_retry_can_make() {
    let denied = FaultKind::Denied(422, "no");
    for (name, cluster, method, path, kind, returns) in [
        ("slice of the exporter", 0, "PATCH", SLICES, FaultKind::Status(503), true),
        ("slice of another importer", 1, "PATCH", SLICES, FaultKind::Status(503), false),
        ("slice, invalid", 0, "PATCH", SLICES, denied.clone(), false),
        ("slice, forbidden", 1, "PATCH", SLICES, FaultKind::Status(403), false),
        ("conditions", 0, "PATCH", EXPORT, FaultKind::Status(503), true),
        ("conditions, invalid", 0, "PATCH", EXPORT, denied, false),
        ("the named cluster", 0, "GET", EXPORTS, FaultKind::Status(503), true),
        ("another importer", 1, "GET", "/", FaultKind::Status(503), false),
    ] {
        let many = Many::start(2, &["shop"], &[]).await;
        exported(&many.clusters[0], web(), &["10.0.0.1"]);
        many.converge().await;
        pods(&many.clusters[0], "web", &["10.0.0.1", "10.0.0.2"]);
        if path == EXPORT {
            many.clusters[0].unexport("shop", "web");
            many.clusters[0].put(Export::new("shop", "web").created(CREATED).into());
        }
        many.clusters[cluster].fail(Fault::always(path, kind).of_method(method));

        let answer = invoke(&many.function, &batch_of(&[about("c0"), scope("c0", "api")])).await;
        let failed = failures(&answer);
        let report = answer.report.expect("a report");

        let expected: &[&str] = match (returns, name) {
            (true, "the named cluster") => &["0", "1"],
            (true, _) => &["0"],
            (false, _) => &[],
        };
        assert_eq!(failed, expected, "{name}");
        let counted = documents(&report).iter().any(|it| it["ClustersetUnfinished"] != 0);
        assert!(!report.ok && counted, "{name}: {}", in_full(&report));
    }
}

/// Another party deregisters the first instance of a service whose id begins so, and a full sync follows.
async fn deregister(members: &Members, service: &str, form: &str) {
    let cloud_map = &members.fleet.cloud_map;
    let mut ids = cloud_map.instances(service).into_keys();
    let id = ids.find(|id| id.starts_with(form)).expect("an instance");
    cloud_map.withdraw(service, &id);
    synced(&members.function).await;
}

fn exports(members: &Members, service: &str) -> usize {
    let ids = members.fleet.cloud_map.instances(service).into_keys();
    ids.filter(|id| id.starts_with("export-")).count()
}

#[tokio::test]
async fn deregistered_endpoint_and_record_are_registered_again_and_imports_stay() {
    let members = Members::in_step(&["10.0.0.1", "10.0.0.2"]).await;
    members.clock.advance(Duration::from_mins(1));
    let find = |namespace: &str, name: &str| members.fleet.cloud_map.service_id(namespace, name);
    let endpoints = find("shop", "web");
    let records = find("clusterset.shop-set", "blue");
    let all = "blue 10.0.0.1:8080 10.0.0.2:8080";

    deregister(&members, &endpoints, "tcp-").await;
    assert_eq!(members.fleet.cloud_map.instances(&endpoints).len(), 2);
    assert_eq!(imported(&members.green, "web"), all);

    exported(&members.blue, service("cart"), &["10.0.0.3"]);
    members.converge().await;
    members.clock.advance(Duration::from_mins(1));
    deregister(&members, &records, "export-").await;
    assert_eq!(exports(&members, &records), 2);
    assert_eq!(imported(&members.green, "web"), all);
    members.assert_settled().await;
}

/// blue and green both export `web` and `api`, all in step.
async fn both_export() -> Members {
    let members = Members::start().await;
    for (number, cluster) in [(0, &members.blue), (1, &members.green)] {
        let api = service("api");
        exported(cluster, web(), &[&format!("10.{number}.0.1")]);
        exported(cluster, api, &[&format!("10.{number}.0.2")]);
    }
    members.converge().await;
    members
}

#[tokio::test]
async fn names_of_a_batch_are_read_in_every_served_cluster_and_no_others() {
    let batches: [&[Value]; 6] = [
        &[scope("blue", "api"), scope("green", "web")],
        &[json!({ "cluster": "blue", "namespace": "other" }), scope("green", "web")],
        &[json!({ "action": "sync", "cluster": "blue" }), scope("green", "web")],
        &[scope("blue", "web"), scope("green", "api")],
        &[scope("blue", "other"), scope("green", "another")],
        &[scope("blue", "other"), json!({ "cluster": "green", "namespace": "shop" })],
    ];
    for bodies in batches {
        let members = both_export().await;
        pods(&members.green, "web", &["10.1.0.1", "10.1.0.9"]);

        let invoked = invoke(&members.function, &batch_of(bodies)).await;

        assert_eq!(failures(&invoked), [""; 0], "{bodies:?}");
        // Every served cluster is read about the names of a batch.
        let is_read = bodies.iter().any(|it| {
            it["service"] == "web" || it["service"].is_null() && it["namespace"] != "other"
        });
        let web = "blue 10.0.0.1:8080, green 10.1.0.1:8080".to_owned();
        let web = web + if is_read { " 10.1.0.9:8080" } else { "" };
        let api = "blue 10.0.0.2:8080, green 10.1.0.2:8080";
        let why = format!("{bodies:?}");
        members.assert_imported("web", &web, &why);
        members.assert_imported("api", api, &why);
    }
}
