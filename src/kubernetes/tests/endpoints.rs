//! Endpoints from slices and from v1 Endpoints.

use std::collections::BTreeSet;
use std::net::IpAddr;

use insta::assert_snapshot;
use k8s_openapi::api::core::v1::Endpoints as CoreEndpoints;
use serde_json::{Value, json};

use crate::kubernetes::endpoints::{Endpoints, from_core};
use crate::kubernetes::object::EndpointSlice;
use crate::model::{Endpoint, NoAddress};

fn from_slices(slices: &[EndpointSlice]) -> Vec<Endpoint> {
    slices.iter().cloned().collect::<Endpoints>().all
}

fn slice(family: &str, ports: &Value, endpoints: &Value) -> EndpointSlice {
    let slice = json!({ "addressType": family, "ports": ports, "endpoints": endpoints });
    serde_json::from_value(slice).expect("an EndpointSlice")
}

fn ipv4(endpoints: &Value) -> EndpointSlice {
    slice("IPv4", &json!([{ "name": "http", "port": 8080 }]), endpoints)
}

fn pod(name: &str, address: &str) -> Value {
    let target =
        json!({ "kind": "Pod", "namespace": "shop", "name": name, "uid": format!("uid-{name}") });
    json!({ "addresses": [address], "targetRef": target, "zone": "a" })
}

/// One line for each endpoint: pod, addresses, zone, ports.
fn format_endpoints(endpoints: &[Endpoint]) -> String {
    let lines = endpoints.iter().map(|endpoint| {
        let addresses: Vec<String> = endpoint.addresses().map(|it| it.to_string()).collect();
        let pod = endpoint.pod.as_deref();
        let zone = endpoint.zone.as_deref();
        let pod = pod.unwrap_or("-");
        let zone = zone.unwrap_or("-");
        format!("{pod} {} {zone} {:?}", addresses.join("+"), endpoint.ports)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn missing_conditions_have_defaults() {
    let cases = [
        (json!(null), "ready serving"),
        (json!({}), "ready serving"),
        (json!({ "ready": true }), "ready serving"),
        (json!({ "ready": false }), ""),
        (json!({ "ready": null, "serving": false }), "ready"),
        (json!({ "ready": false, "serving": false, "terminating": false }), ""),
        (json!({ "ready": false, "serving": true }), "serving"),
        // With publishNotReadyAddresses every endpoint is marked as ready, also a terminating one.
        (
            json!({ "ready": true, "serving": true, "terminating": true }),
            "ready serving terminating",
        ),
        (json!({ "ready": true, "serving": false, "terminating": true }), "ready terminating"),
        (json!({ "ready": false, "serving": true, "terminating": true }), "serving terminating"),
        (json!({ "ready": false, "serving": false, "terminating": true }), "terminating"),
        (json!({ "ready": false, "terminating": true }), "serving terminating"),
        (json!({ "terminating": true }), "ready serving terminating"),
    ];
    for (conditions, expected) in cases {
        let mut endpoint = pod("one", "10.0.0.1");
        endpoint["conditions"] = conditions.clone();
        let found = from_slices(&[ipv4(&json!([endpoint]))]);
        assert_eq!(found.iter().map(condition).collect::<Vec<_>>(), [expected], "{conditions}");
    }
}

fn condition(endpoint: &Endpoint) -> String {
    let Endpoint { ready, serving, terminating, .. } = endpoint;
    let words = [(ready, "ready"), (serving, "serving"), (terminating, "terminating")];
    let words = words.into_iter().filter_map(|(holds, word)| holds.then_some(word));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_pod_in_slices_of_both_families_is_one_endpoint() {
    let http = json!([{ "name": "http", "port": 8080 }]);
    let slices = [
        slice("IPv6", &http, &json!([pod("one", "fd00::1"), pod("two", "fd00::2")])),
        slice("IPv4", &http, &json!([pod("one", "10.0.0.1")])),
    ];
    assert_snapshot!(format_endpoints(&from_slices(&slices)), @r#"
    one 10.0.0.1+fd00::1 a {"http": 8080}
    two fd00::2 a {"http": 8080}
    "#);
}

#[test]
fn a_pod_in_slices_of_several_port_sets_has_them_all() {
    let grpc = json!([{ "name": "grpc", "port": 9090 }]);
    let slices = [
        ipv4(&json!([pod("one", "10.0.0.1")])),
        slice("IPv4", &grpc, &json!([pod("one", "10.0.0.1")])),
    ];
    assert_snapshot!(format_endpoints(&from_slices(&slices)), @r#"one 10.0.0.1 a {"grpc": 9090, "http": 8080}"#);
}

#[test]
fn one_ready_entry_is_enough_while_a_pod_moves_between_slices() {
    let mut stale = pod("one", "10.0.0.1");
    stale["conditions"] = json!({ "ready": false });
    let slices = [ipv4(&json!([stale])), ipv4(&json!([pod("one", "10.0.0.1")]))];
    let found = from_slices(&slices);
    assert_eq!(found.iter().map(condition).collect::<Vec<_>>(), ["ready serving"]);
}

#[test]
fn entry_that_is_not_serving_only_adds_addresses_and_ports() {
    let mut stale = pod("one", "10.0.0.9");
    stale["conditions"] = json!({ "ready": false });
    let mut other = pod("one", "fd00::1");
    other["conditions"] = json!({ "ready": false, "serving": false, "terminating": false });
    let http = |number: u16| json!([{ "name": "http", "port": number }]);
    let slices = [
        slice("IPv4", &http(9999), &json!([stale])),
        slice("IPv6", &http(9999), &json!([other])),
        slice("IPv4", &http(8080), &json!([pod("one", "10.0.0.1")])),
    ];
    let found = from_slices(&slices);
    assert_snapshot!(format_endpoints(&found), @r#"one 10.0.0.1+fd00::1 a {"http": 8080}"#);
    assert_eq!(condition(&found[0]), "ready serving");
}

/// Kubernetes takes more ports than it documents.
#[test]
fn endpoint_keeps_the_first_hundred_ports_of_all_its_slices() {
    let of_letter = |letter: char| {
        let port = |port| json!({ "name": format!("{letter}{port:03}"), "port": 1000 + port });
        let ports: Value = (0..150).map(port).collect();
        slice("IPv4", &ports, &json!([pod("one", "10.0.0.1")]))
    };
    let found = from_slices(&['b', 'a'].map(of_letter));
    let names: Vec<&str> = found[0].ports.keys().map(String::as_str).collect();
    assert_eq!((names.len(), names[0], names[99]), (100, "a000", "a099"));
}

#[test]
fn pod_is_terminating_if_all_its_entries_are() {
    let entry = |terminating: bool| {
        let mut entry = pod("one", "10.0.0.1");
        entry["conditions"] =
            json!({ "ready": false, "serving": false, "terminating": terminating });
        ipv4(&json!([entry]))
    };
    for (others, expected) in [(false, ""), (true, "terminating")] {
        let found = from_slices(&[entry(true), entry(others)]);
        assert_eq!(found.iter().map(condition).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn endpoints_without_a_pod_are_identified_by_address() {
    let node = json!({ "kind": "Node", "name": "n1" });
    let entries = json!([
        { "addresses": ["10.0.0.1"] },
        { "addresses": ["10.0.0.1"] },
        { "addresses": ["10.0.0.2"], "targetRef": { "kind": "Pod" } },
        { "addresses": ["10.0.0.3"], "targetRef": node },
        { "addresses": ["10.0.0.4"], "targetRef": node },
    ]);
    assert_snapshot!(format_endpoints(&from_slices(&[ipv4(&entries)])), @r#"
    - 10.0.0.1 - {"http": 8080}
    - 10.0.0.2 - {"http": 8080}
    - 10.0.0.3 - {"http": 8080}
    - 10.0.0.4 - {"http": 8080}
    "#);
}

#[test]
fn pods_on_the_network_of_a_host_are_separate_endpoints() {
    let slices = [ipv4(&json!([pod("one", "10.0.0.1"), pod("two", "10.0.0.1")]))];
    assert_snapshot!(format_endpoints(&from_slices(&slices)), @r#"
    one 10.0.0.1 a {"http": 8080}
    two 10.0.0.1 a {"http": 8080}
    "#);
}

#[test]
fn only_the_first_address_of_an_entry_counts() {
    let mut two = pod("one", "10.0.0.1");
    two["addresses"] = json!(["10.0.0.1", "10.0.0.2"]);
    assert_snapshot!(format_endpoints(&from_slices(&[ipv4(&json!([two]))])), @r#"one 10.0.0.1 a {"http": 8080}"#);
}

#[test]
fn slices_without_endpoints_or_addresses_are_empty() {
    let none = json!(null);
    let nothing = [ipv4(&none), ipv4(&json!([])), ipv4(&json!([{ "addresses": [] }]))];
    assert_eq!(from_slices(&nothing), []);
    let portless = [slice("IPv4", &none, &json!([pod("one", "10.0.0.1")]))];
    assert_snapshot!(format_endpoints(&from_slices(&portless)), @"one 10.0.0.1 a {}");
}

#[test]
fn endpoints_of_a_slice_of_fqdns_have_host_names_and_no_addresses() {
    let entries = json!([{ "addresses": ["db.example.com"] }, { "addresses": ["10.0.0.1"] }]);
    let found = from_slices(&[slice("FQDN", &json!(null), &entries)]);
    let names: Vec<_> = found.into_iter().map(|endpoint| endpoint.malformed).collect();
    let expected = ["10.0.0.1", "db.example.com"];
    assert_eq!(names, expected.map(|name| Some(NoAddress::HostName(name.into()))));
}

#[test]
fn text_that_is_no_address_is_an_endpoint_without_one() {
    let entries = json!([{ "addresses": ["010.001.000.005"] }, { "addresses": ["x"] }]);
    let found = from_slices(&[ipv4(&entries)]);
    let texts: Vec<_> = found.into_iter().map(|endpoint| endpoint.malformed).collect();
    let expected = ["010.001.000.005", "x"];
    assert_eq!(texts, expected.map(|text| Some(NoAddress::Malformed(text.into()))));
    let core = json!({ "subsets": [{ "addresses": [{ "ip": "010.001.000.005" }] }] });
    let core: CoreEndpoints = serde_json::from_value(core).expect("Endpoints");
    let malformed = from_core(&core).all[0].malformed.clone();
    assert_eq!(malformed, Some(NoAddress::Malformed("010.001.000.005".into())));
}

#[test]
fn a_port_without_a_name_or_a_number_is_read_as_such() {
    let ports = json!([{ "port": 8080 }, { "name": "all", "port": null }, { "name": "odd", "port": 70000 }]);
    let slices = [slice("IPv4", &ports, &json!([pod("one", "10.0.0.1")]))];
    assert_snapshot!(format_endpoints(&from_slices(&slices)), @r#"one 10.0.0.1 a {"": 8080}"#);
}

#[test]
fn the_order_of_slices_and_entries_does_not_matter() {
    let mut slices = vec![
        ipv4(&json!([pod("one", "10.0.0.1"), pod("two", "10.0.0.2")])),
        slice("IPv6", &json!([{ "name": "grpc", "port": 9090 }]), &json!([pod("one", "fd00::1")])),
    ];
    let endpoints = from_slices(&slices);
    slices.reverse();
    for slice in &mut slices {
        slice.endpoints.reverse();
    }
    assert_eq!(from_slices(&slices), endpoints);
}

#[test]
fn first_endpoints_are_the_same_in_any_order_and_serving_ones_come_first() {
    let entry = |number: usize, is_ready: bool| {
        let mut entry = pod(&format!("pod-{number}"), &format!("10.{}.0.1", number / 256));
        entry["addresses"] = json!([format!("10.0.{}.{}", number / 256, number % 256)]);
        entry["conditions"] = json!({ "ready": is_ready });
        entry
    };
    let entries = |numbers: Vec<usize>, is_ready| {
        let entries: Vec<Value> = numbers.into_iter().map(|it| entry(it, is_ready)).collect();
        ipv4(&json!(entries))
    };
    let collect = |slices: Vec<EndpointSlice>| {
        let Endpoints { all, left_out, .. } = slices.into_iter().collect();
        let addresses: BTreeSet<IpAddr> = all.iter().flat_map(Endpoint::addresses).collect();
        (addresses, left_out)
    };
    let slices = |numbers: Vec<usize>| {
        let chunks = numbers.chunks(250);
        chunks.map(|chunk| entries(chunk.to_vec(), true)).collect::<Vec<_>>()
    };
    let (first, left_out) = collect(slices((0..12_000).collect()));
    assert_eq!((first.len(), left_out), (5_000, 7_000));
    assert_eq!(collect(slices((0..12_000).rev().collect())), (first.clone(), 7_000));
    // If some endpoints are gone, most of the first 5,000 stay the same.
    let (fewer, _) = collect(slices((0..11_900).collect()));
    assert!(fewer.intersection(&first).count() > 4_900);

    let ready = slices((0..4_900).collect());
    let others = vec![entries((4_500..5_500).collect(), false)];
    let (mixed, left_out) = collect([ready.clone(), others].concat());
    assert_eq!((mixed.len(), left_out), (5_000, 500));
    assert!(mixed.is_superset(&collect(ready).0));
}

#[test]
fn core_endpoints_give_the_addresses_of_all_subsets() {
    let target = json!({ "kind": "Pod", "namespace": "shop", "name": "one", "uid": "1" });
    let core = json!({ "subsets": [
        {
            "addresses": [{ "ip": "10.0.0.1", "targetRef": target }, { "ip": "10.0.0.2" }],
            "notReadyAddresses": [{ "ip": "10.0.0.3" }],
            "ports": [{ "name": "http", "port": 8080 }],
        },
        { "addresses": [{ "ip": "10.0.0.1", "targetRef": target }], "ports": [{ "name": "grpc", "port": 9090 }] },
        { "notReadyAddresses": [{ "ip": "10.0.0.2" }, { "ip": "10.0.0.3" }] },
    ]});
    let core: CoreEndpoints = serde_json::from_value(core).expect("Endpoints");
    let found = from_core(&core).all;
    assert_snapshot!(format_endpoints(&found), @r#"
    one 10.0.0.1 - {"grpc": 9090, "http": 8080}
    - 10.0.0.2 - {"http": 8080}
    - 10.0.0.3 - {"http": 8080}
    "#);
    let conditions: Vec<String> = found.iter().map(condition).collect();
    assert_eq!(conditions, ["ready serving", "ready serving", ""]);
    assert_eq!(from_core(&CoreEndpoints::default()).all, []);
}

/// The API server accepts any text for a pod or a zone, and Cloud Map refuses an instance with an invalid attribute.
#[test]
fn names_of_pods_and_zones_that_cannot_exist_are_left_out() {
    let mut odd = pod("größe", "10.0.0.1");
    odd["zone"] = "a\nb".into();
    let mut long = pod(&"a".repeat(2_000), "10.0.0.2");
    long["zone"] = "z".repeat(2_000).into();
    let zero =
        slice("IPv4", &json!([{ "name": "http", "port": 0 }]), &json!([pod("one", "10.0.0.3")]));

    let found = from_slices(&[ipv4(&json!([odd, long])), zero]);

    assert_snapshot!(format_endpoints(&found), @r#"
    - 10.0.0.2 - {"http": 8080}
    - 10.0.0.1 - {"http": 8080}
    one 10.0.0.3 a {}
    "#);
}
