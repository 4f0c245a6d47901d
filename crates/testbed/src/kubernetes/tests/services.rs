//! Services that clients write: addresses, families and ports.

use serde_json::{Value, json};

use super::client::{Cluster, SERVICES, ours};
use crate::kubernetes::{ClusterIp, Headless, Pod};

fn service(spec: &Value) -> Value {
    let mut object = ours("web", json!({"spec": {"ports": [{"port": 80}]}}));
    for (key, value) in spec.as_object().expect("fields") {
        object["spec"][key] = value.clone();
    }
    object
}

fn families(spec: &Value) -> String {
    let list = |key: &str| {
        let list = spec[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        list.collect::<Vec<_>>().join(",")
    };
    format!(
        "{} {} {}",
        spec["ipFamilyPolicy"].as_str().unwrap_or("-"),
        list("ipFamilies"),
        list("clusterIPs")
    )
}

#[test]
fn a_service_gets_the_addresses_of_its_families() {
    let (v4, v6): (&[&str], &[&str]) = (&["IPv4"], &["IPv6", "IPv4"]);
    for (cluster, spec, expected) in [
        (v4, json!({}), "SingleStack IPv4 10.96.0.2"),
        (v6, json!({}), "SingleStack IPv6 fd00:96::1"),
        (v4, json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv4 10.96.0.2"),
        (
            v6,
            json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]}),
            "PreferDualStack IPv4,IPv6 10.96.0.2,fd00:96::2",
        ),
        (
            v6,
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "RequireDualStack IPv6,IPv4 fd00:96::1,10.96.0.3",
        ),
        (v6, json!({"ipFamilies": ["IPv4"]}), "SingleStack IPv4 10.96.0.2"),
        (v4, json!({"clusterIP": "None"}), "RequireDualStack IPv4,IPv6 None"),
        (v4, json!({"clusterIP": "None", "selector": {"a": "b"}}), "SingleStack IPv4 None"),
    ] {
        let mut blue = Cluster::new();
        blue.world.addresses.families =
            cluster.iter().map(|it| if *it == "IPv4" { "IPv4" } else { "IPv6" }).collect();
        let created = blue.created(SERVICES, &service(&spec));
        assert_eq!(families(&created["spec"]), expected, "{spec}");
        assert_eq!(created["spec"]["clusterIP"], created["spec"]["clusterIPs"][0]);
    }
}

#[test]
fn families_that_the_cluster_lacks_are_refused() {
    for (spec, expected) in [
        (
            json!({"ipFamilies": ["IPv6"]}),
            "Service \"web\" is invalid: spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured \
             on this cluster",
        ),
        (
            json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"}),
            "Service \"web\" is invalid: spec.ipFamilies[1]: Invalid value: \"IPv6\": not configured \
             on this cluster",
        ),
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "Service \"web\" is invalid: spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": \
             this cluster is not configured for dual-stack services",
        ),
        (
            json!({"ipFamilies": ["IPv4", "IPv6"]}),
            "Service \"web\" is invalid: spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must \
             be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        ),
    ] {
        let (status, body) = Cluster::new().create(SERVICES, &service(&spec));
        assert_eq!((status, body["message"].as_str()), (422, Some(expected)));
    }
}

#[test]
fn the_first_address_stays_and_the_second_comes_and_goes() {
    let mut cluster = Cluster::new();
    cluster.world.addresses.families = vec!["IPv4", "IPv6"];
    let path = format!("{SERVICES}/web");
    let created = cluster.created(SERVICES, &service(&json!({})));
    let mut patch = |spec: Value| cluster.patch(&path, &json!({ "spec": spec }));

    let both = json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]});
    let (_, dual) = patch(both);
    assert_eq!(families(&dual["spec"]), "PreferDualStack IPv4,IPv6 10.96.0.2,fd00:96::2");
    for (spec, expected) in [
        (json!({"ipFamilies": ["IPv4"]}), "must be 'SingleStack' to release"),
        (json!({"clusterIP": "10.96.9.9", "clusterIPs": ["10.96.9.9"]}), "must be 'SingleStack'"),
    ] {
        let (status, body) = patch(spec.clone());
        let message = body["message"].as_str().unwrap_or_default();
        assert!(status == 422 && message.contains(expected), "{spec}: {message}");
    }
    let (_, single) = patch(json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]}));
    assert_eq!(families(&single["spec"]), "SingleStack IPv4 10.96.0.2");
    assert_eq!(single["metadata"]["uid"], created["metadata"]["uid"]);
}

#[test]
fn a_value_that_is_newer_than_the_server_is_refused() {
    let spec = json!({"trafficDistribution": "PreferSameZone"});
    for (minor, expected) in [(32, 422), (33, 201)] {
        let mut cluster = Cluster::new();
        cluster.world.minor = minor;
        let (status, body) = cluster.create(SERVICES, &service(&spec));
        assert_eq!(status, expected, "{body}");
        if status == 422 {
            assert_eq!(body["details"]["causes"][0]["field"], "spec.trafficDistribution");
        }
    }
}

#[test]
fn an_ordinary_service_of_a_test_has_an_address_and_slices() {
    let mut cluster = Cluster::new();
    let web = ClusterIp::new("shop", "web").port("http", 80).port_of("UDP", "dns", 53, 5353);
    let first = cluster.world.put(web.clone().into());
    cluster.world.set_pods("shop", "web", &[Pod::new("web-1", "10.0.0.1")]);
    let again = cluster.world.put(web.with(|it| it.label("a", "b")).into());
    assert_eq!(first["spec"]["clusterIP"], "10.96.0.2");
    assert_eq!(first["spec"]["clusterIPs"], again["spec"]["clusterIPs"]);

    let slices = cluster.get("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices").1;
    let slice = &slices["items"][0];
    assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "web");
    assert_eq!(slice["metadata"]["labels"].get("service.kubernetes.io/headless"), None);
    assert_eq!(slice["endpoints"][0]["addresses"], json!(["10.0.0.1"]));
    assert_eq!(slice["ports"][1], json!({"name": "dns", "port": 5353, "protocol": "UDP"}));

    let headless = cluster.world.put(Headless::new("shop", "db").build());
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
}
