//! Which ports an import has, under which names, who serves them, and when that is a conflict.

use insta::assert_snapshot;

use super::notation::{exports, merge_all, merged, port};
use crate::clusterset::merge::{served_ports, serves};
use crate::model::{ClustersetService, EndpointPort, ExportedPort, ImportType};

#[test]
fn equal_ports_in_any_order_are_no_conflict() {
    let all = merged("blue@1 http:80 https:443\ngreen@2 https:443 http:80");
    assert_snapshot!(all, @r"
    ClusterSetIP v4 of blue, green
      http:80/TCP <- blue, green
      https:443/TCP <- blue, green
    ");
}

#[test]
fn import_has_the_union_of_different_ports() {
    assert_snapshot!(merged("green@2 web:8080\nblue@1 http:80\nred@3 http:80 metrics:9090"), @r"
    ClusterSetIP v4 of blue, green, red
      http:80/TCP <- blue, red
      web:8080/TCP <- green
      metrics:9090/TCP <- red
    PortConflict: green, red against blue
    ");
}

#[test]
fn oldest_decides_about_a_name_with_two_numbers() {
    assert_snapshot!(merged("blue@2 tcp:42\ngreen@1 tcp:4242"), @r"
    ClusterSetIP v4 of blue, green
      tcp:4242/TCP <- green
    PortConflict: blue against green
    ");
}

#[test]
fn oldest_decides_about_a_number_with_two_names() {
    assert_snapshot!(merged("blue@1 http:80\ngreen@2 web:80"), @r"
    ClusterSetIP v4 of blue, green
      http:80/TCP <- blue, green
    PortConflict: green against blue
    ");
}

#[test]
fn cluster_id_decides_between_exports_of_one_age() {
    assert_snapshot!(merged("green@1 web:80\nblue@1 http:80"), @r"
    ClusterSetIP v4 of blue, green
      http:80/TCP <- blue, green
    PortConflict: green against blue
    ");
}

#[test]
fn name_counts_once_for_two_protocols() {
    assert_snapshot!(merged("blue@1 dns:53/UDP\ngreen@2 dns:53 dns-tcp:53"), @r"
    ClusterSetIP v4 of blue, green
      dns:53/UDP <- blue
      dns-tcp:53/TCP <- green
    PortConflict: green against blue
    ");
}

#[test]
fn port_that_was_not_added_keeps_no_name() {
    // Green's `http` is not in the import, so red's port of that number is added under its own name. Green serves it.
    assert_snapshot!(merged("blue@1 http:80\ngreen@2 http:81\nred@3 web:81"), @r"
    ClusterSetIP v4 of blue, green, red
      http:80/TCP <- blue
      web:81/TCP <- green, red
    PortConflict: green, red against blue
    ");
}

#[test]
fn application_protocol_alone_is_a_conflict() {
    assert_snapshot!(merged("blue@1 http:80=h2c\ngreen@2 http:80=http\nred@3 http:80"), @r"
    ClusterSetIP v4 of blue, green, red
      http:80/TCP=h2c <- blue, green, red
    PortConflict: green, red against blue
    ");
}

#[test]
fn application_protocol_comes_from_the_first_record_with_the_port() {
    assert_snapshot!(merged("blue@1 http:80 AWS\ngreen@2 http:80=h2c\nred@3 http:80=http"), @r"
    ClusterSetIP v4 of blue, green, red
      http:80/TCP=h2c <- blue, green, red
    PortConflict: red against blue
    ");
    let agreed = "blue@1 http:80 AWS\ngreen@2 http:80=h2c\nred@3 http:80 AWS";
    assert_snapshot!(merged(agreed), @r"
    ClusterSetIP v4 of blue, green, red
      http:80/TCP=h2c <- blue, green, red
    ");
}

#[test]
fn single_unnamed_port_stays_unnamed() {
    assert_snapshot!(merged("blue@1 :80\ngreen@2 :80"), @r"
    ClusterSetIP v4 of blue, green
      :80/TCP <- blue, green
    ");
    assert_snapshot!(merged("blue@1 :80\ngreen@2 http:80"), @r"
    ClusterSetIP v4 of blue, green
      :80/TCP <- blue, green
    PortConflict: green against blue
    ");
}

#[test]
fn unnamed_port_among_several_is_named_by_protocol_and_number() {
    assert_snapshot!(merged("blue@1 https:443\ngreen@2 :53/UDP"), @r"
    ClusterSetIP v4 of blue, green
      https:443/TCP <- blue
      udp-53:53/UDP <- green
    PortConflict: green against blue
    ");
}

#[test]
fn empty_name_counts_once() {
    assert_snapshot!(merged("blue@1 :80\ngreen@2 :8080"), @r"
    ClusterSetIP v4 of blue, green
      :80/TCP <- blue
    PortConflict: green against blue
    ");
}

#[test]
fn name_for_an_unnamed_port_can_be_taken() {
    assert_snapshot!(merged("blue@1 :80\ngreen@2 tcp-80:8080 tcp-80-2:81"), @r"
    ClusterSetIP v4 of blue, green
      tcp-80-3:80/TCP <- blue
      tcp-80:8080/TCP <- green
      tcp-80-2:81/TCP <- green
    PortConflict: green against blue
    ");
}

#[test]
fn export_without_ports_differs_from_one_with_ports() {
    assert_snapshot!(merged("blue@1 Headless\ngreen@2 Headless db:5432"), @r"
    Headless v4 of blue, green
      db:5432/TCP <- green
    PortConflict: green against blue
    ");
    assert_snapshot!(merged("blue@1 Headless\ngreen@2 Headless"), @r"
    Headless v4 of blue, green
    ");
}

#[test]
fn repeated_ports_of_one_export_are_no_conflict() {
    // No Service has them, but the instances of AWS's controller can, while the Service changes.
    assert_snapshot!(merged("blue@1 http:80 http:80=h2c http:8080 web:80"), @r"
    ClusterSetIP v4 of blue
      http:80/TCP <- blue
    ");
    let equal = "blue@1 http:80=h2c http:80 http:8080\ngreen@2 http:80=h2c http:80 http:8080";
    assert_snapshot!(merged(equal), @r"
    ClusterSetIP v4 of blue, green
      http:80/TCP=h2c <- blue, green
    ");
}

/// A port of an endpoint: `name:number` of the endpoint, and the Service's port.
fn endpoint(word: &str, of: &str) -> EndpointPort {
    let (own, of) = (port(word), port(of));
    EndpointPort {
        name: own.name,
        protocol: own.protocol,
        number: own.number,
        service_name: of.name,
        service_protocol: of.protocol,
        service_number: of.number,
        target: own.number.to_string(),
    }
}

#[test]
fn endpoint_serves_the_port_of_its_protocol_and_number() {
    let exports = exports("blue@1 http:80 dns:53/UDP\ngreen@2 web:80 http:81");
    let service = merge_all(&exports).service;
    let headless = ClustersetService { kind: ImportType::Headless, ..service.clone() };
    for (endpoint, expected) in [
        (Some(endpoint("web:8080", "web:80")), true),
        (Some(endpoint("http:8081", "http:81")), false),
        // The import has it, but green does not.
        (Some(endpoint("dns:5353/UDP", "dns:53/UDP")), false),
        (Some(endpoint("dns:5353", "dns:53")), false),
        (None, false),
    ] {
        let port = endpoint.as_ref();
        assert_eq!(serves(&service, &exports[1], port), expected, "{endpoint:?}");
        assert!(serves(&headless, &exports[1], port), "{endpoint:?}");
    }
    let served: Vec<&ExportedPort> = served_ports(&service, &exports[0]).collect();
    assert_eq!(served, [&port("http:80"), &port("dns:53/UDP")]);
}
