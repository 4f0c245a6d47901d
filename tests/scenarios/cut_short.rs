//! Lists of endpoints that say that they are not whole.

use serde_json::{Value, json};

use crate::fleet::{Fleet, annotated};
use crate::run::{converge, held_back};

/// The endpoints controller leaves out addresses beyond the thousandth and says so; slices mirrored
/// from such a list say it, too.
#[tokio::test]
async fn list_that_the_cluster_cuts_short_registers_and_takes_nothing_out() {
    for slices in [false, true] {
        let fleet = Fleet::start().await;
        fleet.cluster.serve_slices(slices);
        fleet.service(annotated("web", "prod", "web").without_selector());
        let give = |addresses: &[&str], truncated: bool| {
            let list = if slices { mirrored(addresses) } else { core(addresses) };
            fleet.cluster.put(if truncated { cut_short(list) } else { list });
        };
        let function = fleet.function().await;
        give(&["10.0.1.1", "10.0.1.2"], false);
        converge(&fleet, &function).await;

        give(&["10.0.1.2", "10.0.1.3"], true);
        let report = converge(&fleet, &function).await;
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2", "10.0.1.3"]);
        assert_eq!(held_back(&report), ["EndpointsTruncated"], "{report}");
        let told = fleet.cluster.events("shop");
        assert!(told.iter().any(|event| event["reason"] == "EndpointsTruncated"), "{told:?}");

        give(&["10.0.1.2", "10.0.1.3"], false);
        converge(&fleet, &function).await;
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.2", "10.0.1.3"]);
    }
}

fn mirrored(addresses: &[&str]) -> Value {
    let endpoints: Vec<Value> =
        addresses.iter().map(|address| json!({ "addresses": [address] })).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": "web-0", "namespace": "shop", "labels": { "kubernetes.io/service-name": "web" },
        },
        "endpoints": endpoints, "ports": [{ "name": "http", "port": 8080 }],
    })
}

fn core(addresses: &[&str]) -> Value {
    let addresses: Vec<Value> = addresses.iter().map(|address| json!({ "ip": address })).collect();
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": { "name": "web", "namespace": "shop" },
        "subsets": [{ "addresses": addresses, "ports": [{ "name": "http", "port": 8080 }] }],
    })
}

fn cut_short(mut list: Value) -> Value {
    list["metadata"]["annotations"] =
        json!({ "endpoints.kubernetes.io/over-capacity": "truncated" });
    list
}
