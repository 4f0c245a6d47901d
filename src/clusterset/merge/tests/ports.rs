//! The ports of an import, their names, the exporters whose endpoints serve them, and the conflicts of ports.

use insta::assert_snapshot;

use super::notation::{exports, merge_all, merged, port};
use crate::clusterset::merge::{includes_endpoint, served_ports};
use crate::model::{ClustersetService, EndpointPort, ExportedPort, ImportType};

#[test]
fn the_oldest_export_decides_each_port() {
    for (case, exports, expected) in [
        (
            "equal ports in any order are no conflict",
            "blue@1 http:80 https:443\ngreen@2 https:443 http:80",
            "v4 of blue, green; http:80 <- blue, green; https:443 <- blue, green",
        ),
        (
            "import has the union of different ports",
            "green@2 web:8080\nblue@1 http:80\nred@3 http:80 metrics:9090",
            "v4 of blue, green, red; http:80 <- blue, red; web:8080 <- green; metrics:9090 <- red; PortConflict: green, red against blue",
        ),
        (
            "oldest decides about a name with two numbers",
            "blue@2 tcp:42\ngreen@1 tcp:4242",
            "v4 of blue, green; tcp:4242 <- green; PortConflict: blue against green",
        ),
        (
            "oldest decides about a number with two names",
            "blue@1 http:80\ngreen@2 web:80",
            "v4 of blue, green; http:80 <- blue, green; PortConflict: green against blue",
        ),
        (
            "cluster id decides between exports of one age",
            "green@1 web:80\nblue@1 http:80",
            "v4 of blue, green; http:80 <- blue, green; PortConflict: green against blue",
        ),
        (
            "name counts once for two protocols",
            "blue@1 dns:53/UDP\ngreen@2 dns:53 dns-tcp:53",
            "v4 of blue, green; dns:53/UDP <- blue; dns-tcp:53 <- green; PortConflict: green against blue",
        ),
        (
            "application protocol alone is a conflict",
            "blue@1 http:80=h2c\ngreen@2 http:80=http\nred@3 http:80",
            "v4 of blue, green, red; http:80=h2c <- blue, green, red; PortConflict: green, red against blue",
        ),
        (
            "application protocol comes from the first record with the port",
            "blue@1 http:80 AWS\ngreen@2 http:80=h2c\nred@3 http:80=http",
            "v4 of blue, green, red; http:80=h2c <- blue, green, red; PortConflict: red against blue",
        ),
        (
            "application protocol comes from the first record with the port",
            "blue@1 http:80 AWS\ngreen@2 http:80=h2c\nred@3 http:80 AWS",
            "v4 of blue, green, red; http:80=h2c <- blue, green, red",
        ),
        (
            "single unnamed port stays unnamed",
            "blue@1 :80\ngreen@2 :80",
            "v4 of blue, green; :80 <- blue, green",
        ),
        (
            "single unnamed port stays unnamed",
            "blue@1 :80\ngreen@2 http:80",
            "v4 of blue, green; :80 <- blue, green; PortConflict: green against blue",
        ),
        (
            "unnamed port among several is named by protocol and number",
            "blue@1 https:443\ngreen@2 :53/UDP",
            "v4 of blue, green; https:443 <- blue; udp-53:53/UDP <- green; PortConflict: green against blue",
        ),
        (
            "empty name counts once",
            "blue@1 :80\ngreen@2 :8080",
            "v4 of blue, green; :80 <- blue; PortConflict: green against blue",
        ),
        (
            "name for an unnamed port can be taken",
            "blue@1 :80\ngreen@2 tcp-80:8080 tcp-80-2:81",
            "v4 of blue, green; tcp-80-3:80 <- blue; tcp-80:8080 <- green; tcp-80-2:81 <- green; PortConflict: green against blue",
        ),
        (
            "export without ports differs from one with ports",
            "blue@1 Headless\ngreen@2 Headless db:5432",
            "Headless v4 of blue, green; db:5432 <- green; PortConflict: green against blue",
        ),
        (
            "export without ports differs from one with ports",
            "blue@1 Headless\ngreen@2 Headless",
            "Headless v4 of blue, green",
        ),
    ] {
        assert_eq!(merged(exports), expected, "{case}");
    }
}

#[test]
fn port_that_was_not_added_keeps_no_name() {
    // Green's `http` is not in the import, so red's port of that number is added under its own name. Green serves it.
    assert_snapshot!(merged("blue@1 http:80\ngreen@2 http:81\nred@3 web:81"), @r"v4 of blue, green, red; http:80 <- blue; web:81 <- green, red; PortConflict: green, red against blue");
}

#[test]
fn repeated_ports_of_one_export_are_no_conflict() {
    // No Service has them, but the instances of AWS's controller can, while the Service changes.
    assert_snapshot!(merged("blue@1 http:80 http:80=h2c http:8080 web:80"), @r"v4 of blue; http:80 <- blue");
    let equal = "blue@1 http:80=h2c http:80 http:8080\ngreen@2 http:80=h2c http:80 http:8080";
    assert_snapshot!(merged(equal), @r"v4 of blue, green; http:80=h2c <- blue, green");
}

/// A port of an endpoint: `name:number` of the endpoint, and the Service's port.
fn endpoint(word: &str, of: &str) -> EndpointPort {
    let own = port(word);
    let of = port(of);
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
        assert_eq!(includes_endpoint(&service, &exports[1], port), expected, "{endpoint:?}");
        assert!(includes_endpoint(&headless, &exports[1], port), "{endpoint:?}");
    }
    let served: Vec<&ExportedPort> = served_ports(&service, &exports[0]).collect();
    assert_eq!(served, [&port("http:80"), &port("dns:53/UDP")]);
}
