//! Which endpoints are registered, however the API server tells of them.

use serde_json::{Value, json};

use crate::fleet::{Fleet, annotated};
use crate::run::{converge, converged, held_back, plan, said_of};
use testbed::kubernetes::{Fault, FaultKind, Pod};

/// A slice of a Service of `shop` as somebody writes it by hand.
fn slice(service: &str, name: &str, addresses: &[String], condition: &Value) -> Value {
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|address| json!({ "addresses": [address], "conditions": condition }))
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": service},
        },
        "endpoints": endpoints, "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

#[tokio::test]
async fn address_with_leading_zeros_is_a_line_and_its_instance_stays() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web").without_selector());
    let put = |first: &str| {
        let addresses = [first.to_owned(), "10.1.0.6".to_owned()];
        fleet.cluster.put(slice("web", "web-0", &addresses, &json!({})));
    };
    let function = fleet.function().await;
    put("10.1.0.5");
    converge(&fleet, &function).await;
    put("010.001.000.005");

    let report = converge(&fleet, &function).await;

    assert_eq!(held_back(&report), ["AddressMalformed"], "{report}");
    let line = said_of(&report, "AddressMalformed");
    assert!(line.contains("\"010.001.000.005\"") && line.contains("as 10.1.0.5"), "{line}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.1.0.5", "10.1.0.6"]);

    put("10.1.0.7");
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.1.0.6", "10.1.0.7"]);
}

/// 600 slices of three endpoints: two pages of 500.
#[tokio::test]
async fn slices_and_services_of_several_pages_are_read_to_the_end() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web").without_selector());
    for index in 0..600 {
        let address = |last| format!("10.{}.{}.{last}", 1 + index / 256, index % 256);
        let addresses = [1, 2, 3].map(address);
        fleet.cluster.put(slice("web", &format!("web-{index}"), &addresses, &json!({})));
        fleet.web(&format!("small-{index}"), "prod", &[]);
    }
    fleet.web("zz-last", "prod", &["10.9.9.9"]);
    fleet.cluster.forget_requests();

    let report = plan(&fleet.function().await).await;

    assert_eq!(report.counts.registered, 1001, "{:?}", report.counts);
    assert!(report.to_string().contains("1000 of 1800 instances fit"), "{report}");
    let continued = fleet.cluster.requests().into_iter();
    let continued = continued.filter(|request| request.query.contains("continue=")).count();
    assert!(continued >= 2, "{continued}");
}

#[tokio::test]
async fn list_whose_continue_token_expires_is_begun_again() {
    let fleet = Fleet::start().await;
    for index in 0..501 {
        fleet.web(&format!("small-{index}"), "prod", &[]);
    }
    fleet.web("zz-last", "prod", &["10.9.9.9"]);
    fleet.cluster.fail(Fault::once("/api/v1/services", FaultKind::Expired410OnContinue));
    let function = fleet.function().await;

    let report = plan(&function).await;
    assert!(report.ok, "{report}");
    assert_eq!(report.counts.registered, 1, "{:?}", report.counts);
    let statuses: Vec<u16> =
        fleet.cluster.requests().into_iter().map(|request| request.status).collect();
    assert_eq!(statuses[..4], [200, 410, 200, 200]);
}

#[tokio::test]
async fn server_before_kubernetes_1_31_is_read_without_the_field_selector() {
    let fleet = Fleet::start().await;
    fleet.cluster.set_minor_version(30);
    fleet.web("web", "prod", &["10.0.1.1"]);
    fleet.service(annotated("balanced", "prod", "balanced").cluster_ip("10.100.0.7"));
    fleet.pods("balanced", &["10.0.1.2"]);

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(report.counts.registered, 1, "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn server_without_endpoint_slices_is_read_through_v1_endpoints() {
    let fleet = Fleet::start().await;
    fleet.cluster.serve_slices(false);
    fleet.service(annotated("web", "prod", "web").annotate("cloudmap.controller/port", "http"));
    let pods = [
        Pod::new("web-0", "10.0.1.1"),
        Pod::new("web-1", "10.0.1.2").not_ready(),
        Pod::new("web-2", "10.0.1.3").terminating(),
    ];
    fleet.cluster.pods("shop", "web", &pods);
    fleet.web("cart", "prod", &["10.0.2.1"]);
    let function = converged(&fleet).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
    assert_eq!(fleet.values("prod", "web", "AWS_INSTANCE_PORT"), ["8080"]);

    fleet.cluster.delete_service("shop", "cart");
    fleet.pods("web", &["10.0.1.4"]);
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.4"]);
    assert_eq!(fleet.instances("prod", "cart").len(), 0);
}

/// The endpoints controller leaves out addresses beyond the thousandth, and slices mirrored from its list say so, too.
#[tokio::test]
async fn list_that_the_cluster_cuts_short_registers_and_takes_nothing_out() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web").without_selector());
    let put = |addresses: [&str; 2], is_cut: bool| {
        let mut slice = slice("web", "web-0", &addresses.map(str::to_owned), &json!({}));
        if is_cut {
            let annotations = json!({ "endpoints.kubernetes.io/over-capacity": "truncated" });
            slice["metadata"]["annotations"] = annotations;
        }
        fleet.cluster.put(slice);
    };
    let function = fleet.function().await;
    put(["10.0.1.1", "10.0.1.2"], false);
    converge(&fleet, &function).await;

    put(["10.0.1.2", "10.0.1.3"], true);
    let report = converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2", "10.0.1.3"]);
    assert_eq!(held_back(&report), ["EndpointsTruncated"], "{report}");
}
