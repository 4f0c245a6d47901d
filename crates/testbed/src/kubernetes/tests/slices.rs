//! EndpointSlices that clients write.

use serde_json::{Value, json};

use super::client::{Cluster, SLICES, slice};

#[test]
fn a_slice_has_the_defaults_of_the_server() {
    let mut cluster = Cluster::new();
    let created = cluster.created(SLICES, &slice("web", &["10.0.0.1"]));
    assert_eq!(created["ports"], json!([{"name": "", "port": 80, "protocol": "TCP"}]));
    let (_, emptied) = cluster.patch(&format!("{SLICES}/web"), &json!({"endpoints": []}));
    assert_eq!(emptied.get("endpoints"), Some(&Value::Null));
}

#[test]
fn addresses_are_of_the_type_of_the_slice_and_of_use() {
    for (kind, address, expected) in [
        ("IPv4", "10.0.0.1", ""),
        ("IPv6", "fd00::1", ""),
        ("FQDN", "web.example.com", ""),
        ("IPv4", "fd00::1", "must be an IPv4 address"),
        ("IPv6", "10.0.0.1", "must be an IPv6 address"),
        ("IPv6", "FD00::1", "canonical"),
        ("IPv4", "web", "must be a valid IP address"),
        ("IPv4", "127.0.0.1", "loopback"),
        ("IPv4", "169.254.0.1", "link-local range"),
        ("IPv4", "0.0.0.0", "unspecified"),
        ("IPv6", "fe80::1", "link-local range"),
        ("", "10.0.0.1", "addressType: Required value"),
        ("IPv5", "10.0.0.1", "addressType: Unsupported value"),
    ] {
        let mut object = slice("web", &[address]);
        object["addressType"] = kind.into();
        let (status, body) = Cluster::new().create(SLICES, &object);
        let message = body["message"].as_str().unwrap_or_default();
        assert_eq!(status, if expected.is_empty() { 201 } else { 422 }, "{kind} {address}");
        assert!(message.contains(expected), "{kind} {address}: {message}");
    }
}

#[test]
fn a_slice_keeps_its_type_and_its_limits() {
    let mut cluster = Cluster::new();
    cluster.created(SLICES, &slice("web", &[]));
    let many = |number: usize| {
        let of =
            |index: usize| json!({"addresses": [format!("10.0.{}.{}", index / 250, index % 250)]});
        json!({"endpoints": (0..number).map(of).collect::<Vec<_>>()})
    };
    let zones: Vec<Value> = (0..9).map(|zone| json!({"name": format!("z{zone}")})).collect();
    let with = |key: &str, value: Value| {
        let mut endpoint = json!({"addresses": ["10.0.0.1"]});
        endpoint[key] = value;
        json!({"endpoints": [endpoint]})
    };
    for (patch, expected) in [
        (
            json!({"addressType": "IPv6"}),
            "addressType: Invalid value: \"IPv6\": field is immutable",
        ),
        (many(1001), "endpoints: Too many: 1001: must have at most 1000 items"),
        (with("addresses", json!([])), "endpoints[0].addresses: Required value"),
        (with("hostname", json!("Web")), "endpoints[0].hostname: Invalid value: \"Web\""),
        (with("nodeName", json!("a b")), "endpoints[0].nodeName: Invalid value: \"a b\""),
        (with("hints", json!({"forZones": zones})), "endpoints[0].hints.forZones: Too many: 9"),
        (json!({"ports": [{"port": 80}, {"port": 81}]}), "ports[1].name: Duplicate value: \"\""),
        (json!({"ports": [{"name": "A", "port": 80}]}), "ports[0].name: Invalid value: \"A\""),
    ] {
        let (status, body) = cluster.patch(&format!("{SLICES}/web"), &patch);
        let message = body["message"].as_str().unwrap_or_default();
        assert!(status == 422 && message.contains(expected), "{expected}: {message}");
    }
    assert_eq!(cluster.patch(&format!("{SLICES}/web"), &many(1000)).0, 200);
}
