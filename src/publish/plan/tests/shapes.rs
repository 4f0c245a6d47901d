//! The instances that endpoints become: addresses, families and ports against the records of the service.

use insta::assert_snapshot;

use super::world::{A, AAAA, BOTH, HTTP, SRV, World, ours, own, pod, service, web_of, with};
use crate::model::attributes::PORT;
use crate::model::{HealthCheck, ServiceKind};

/// The plan for one pod with these addresses in a service of these records.
fn one(kind: ServiceKind, addresses: &str) -> String {
    World::of(service("shop/web", web_of(kind)).ready([pod("one", addresses)]))
        .cloud_map(web_of(kind), kind, [])
        .planned()
}

#[test]
fn a_pod_is_registered_with_the_families_that_the_records_carry() {
    let none = |records, addresses| {
        format!(
            "! shop/web dns/web: {records} records cannot contain the endpoint's addresses {addresses} (RecordTypeMismatch)"
        )
    };
    let registered = |addresses: &str| format!("shop/web: register dns/web: {addresses} (pod one)");
    let cases = [
        (A, "10.0.0.1", registered("10.0.0.1")),
        (A, "10.0.0.1+fd00::1", registered("10.0.0.1")),
        (A, "fd00::1", none("A", "fd00::1")),
        (AAAA, "fd00::1", registered("fd00::1")),
        (AAAA, "10.0.0.1+fd00::1", registered("fd00::1")),
        (AAAA, "10.0.0.1", none("AAAA", "10.0.0.1")),
        (BOTH, "10.0.0.1", registered("10.0.0.1")),
        (BOTH, "fd00::1", registered("fd00::1")),
        (BOTH, "10.0.0.1+fd00::1", registered("10.0.0.1 and fd00::1")),
        (HTTP, "10.0.0.1+fd00::1", registered("10.0.0.1 and fd00::1")),
        (HTTP, "fd00::1", registered("fd00::1")),
    ];
    for (kind, addresses, expected) in cases {
        let planned = one(kind, addresses).replace(web_of(kind), "dns/web");
        assert_eq!(planned, expected, "{kind} {addresses}");
    }
}

/// Cloud Map refuses an instance of one family in a service with A and AAAA records.
#[test]
fn instance_whose_endpoint_lost_an_address_goes_if_a_whole_endpoint_is_registered() {
    let whole = "10.0.0.2+fd00::2";
    let registered = |addresses: &'static str| {
        World::of(service("shop/web", "dns/web").ready([pod("one", addresses)]))
            .cloud_map("dns/web", BOTH, [])
            .id_given("dns/web", addresses.split('+').next().expect("an address"))
    };
    let ids = ["10.0.0.1+fd00::1", whole].map(registered);
    let planned = |pods: &[(&'static str, &'static str)]| {
        let ready = pods.iter().map(|(name, addresses)| pod(name, addresses));
        let of = |addresses: &str, name: &str| {
            with(ours("shop/web", addresses), "cloud-map-sync/pod", name)
        };
        let instances =
            [(ids[0].as_str(), of("10.0.0.1+fd00::1", "one")), (&ids[1], of(whole, "two"))];
        World::of(service("shop/web", "dns/web").ready(ready.collect::<Vec<_>>()))
            .cloud_map("dns/web", BOTH, instances)
            .planned()
    };
    assert_snapshot!(planned(&[("one", "10.0.0.1"), ("two", whole)]), @r"
    shop/web: deregister dns/web: 10.0.0.1 and fd00::1 (pod one): its endpoint has lost one of the two addresses that the records need
    ! shop/web dns/web: A+AAAA records cannot contain the endpoint's addresses 10.0.0.1 (RecordTypeMismatch)
    ");
    assert_snapshot!(planned(&[("one", "10.0.0.1"), ("two", "10.0.0.2")]), @r"
    shop/web: deregister dns/web: 10.0.0.1 and fd00::1 (pod one): its endpoint has lost one of the two addresses that the records need; stays until one of the ready endpoints is registered
    shop/web: deregister dns/web: 10.0.0.2 and fd00::2 (pod two): its endpoint has lost one of the two addresses that the records need; stays until one of the ready endpoints is registered
    ! shop/web dns/web: A+AAAA records cannot contain the endpoint's addresses 10.0.0.1 (RecordTypeMismatch)
    ! shop/web dns/web: A+AAAA records cannot contain the endpoint's addresses 10.0.0.2 (RecordTypeMismatch)
    ");
    assert_snapshot!(planned(&[("one", "fd00::1"), ("two", whole)]), @r"
    shop/web: register dns/web: fd00::1 (pod one)
    shop/web: deregister dns/web: 10.0.0.1 and fd00::1 (pod one): no ready endpoint has this address and port
    ");
}

#[test]
fn addresses_that_mean_nothing_elsewhere_are_never_published() {
    let special = [
        "127.0.0.1",
        "127.1.2.3",
        "0.0.0.0",
        "169.254.1.1",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "ff02::1",
        "::ffff:10.0.0.1",
    ];
    for address in special {
        let planned = one(HTTP, address);
        assert!(
            planned.starts_with("! ") && planned.ends_with("(NotPublishable)"),
            "{address}: {planned}"
        );
    }
    for address in ["10.0.0.1", "100.64.0.1", "198.18.0.1", "1.1.1.1", "fd00::1", "2001:db8::1"] {
        assert_eq!(one(HTTP, address), format!("shop/web: register http/web: {address} (pod one)"));
    }
}

#[test]
fn a_pod_is_published_at_those_of_its_addresses_that_may_be() {
    assert_snapshot!(one(HTTP, "10.0.0.1+fe80::1"), @r"
    shop/web: register http/web: 10.0.0.1 (pod one)
    ! shop/web http/web: address fe80::1 is not published: it is loopback, link-local, multicast, unspecified or IPv4-mapped (NotPublishable)
    ");
}

/// The plan for a Service with the ports `http` and `grpc` of which these are annotated.
fn annotated<const N: usize>(kind: ServiceKind, ports: [&'static str; N]) -> World {
    annotated_at("10.0.0.1", kind, ports)
}

fn annotated_at<const N: usize>(
    addresses: &str,
    kind: ServiceKind,
    ports: [&'static str; N],
) -> World {
    let ready = pod("one", addresses).target("http", 8080).target("grpc", 9090);
    let web = service("shop/web", web_of(kind)).ports([("http", 80), ("grpc", 90)]).port(ports);
    World::of(web.ready([ready])).cloud_map(web_of(kind), kind, [])
}

#[test]
fn without_the_annotation_no_port_is_registered() {
    assert_snapshot!(annotated(HTTP, []).planned(), @"shop/web: register http/web: 10.0.0.1 (pod one)");
    assert_snapshot!(annotated(A, []).planned(), @"shop/web: register dns/web: 10.0.0.1 (pod one)");
}

#[test]
fn several_ports_are_several_instances_in_http_and_srv_services() {
    assert_snapshot!(annotated(HTTP, ["grpc", "http"]).planned(), @r"
    shop/web: register http/web: 10.0.0.1 port 8080 (pod one)
    shop/web: register http/web: 10.0.0.1 port 9090 (pod one)
    ");
    assert_snapshot!(annotated(SRV, ["grpc", "http"]).planned(), @r"
    shop/web: register dns/web: 10.0.0.1 port 8080 (pod one)
    shop/web: register dns/web: 10.0.0.1 port 9090 (pod one)
    ");
}

#[test]
fn elsewhere_the_first_port_is_an_attribute() {
    assert_snapshot!(annotated(A, ["grpc", "http"]).planned(), @r"
    shop/web: register dns/web: 10.0.0.1 port 9090 (pod one)
    ! shop/web dns/web: A records carry no port: grpc is an attribute, which DiscoverInstances and API Gateway read and DNS queries do not (an SRV service would serve it) (PortNotServed)
    ");
    assert_snapshot!(annotated(BOTH, ["typo", "http"]).planned(), @r"
    ! shop/web dns/web: port typo is not a port of the Service, or its endpoints do not have it; the Service has: http (80), grpc (90) (NoSuchPort)
    ! shop/web dns/web: A+AAAA records carry no port: typo is an attribute, which DiscoverInstances and API Gateway read and DNS queries do not (an SRV service would serve it) (PortNotServed)
    ");
}

#[test]
fn a_port_by_number_is_the_services_and_what_is_written_is_the_target() {
    let number = |number| {
        let mut world = annotated(HTTP, []);
        let web = world.0.desired.services.values_mut().next().expect("the Service");
        let claims = web.claims.as_mut().expect("its annotations are right");
        claims.ports = vec![crate::model::PortReference::Number(number)];
        world.planned()
    };
    assert_snapshot!(number(80), @"shop/web: register http/web: 10.0.0.1 port 8080 (pod one)");
    assert_snapshot!(number(8080), @"! shop/web http/web: port 8080 is not a port of the Service, or its endpoints do not have it; the Service has: http (80), grpc (90) (NoSuchPort)");
}

#[test]
fn each_endpoint_is_registered_with_its_own_target() {
    let web = service("shop/web", "http/web").ports([("http", 80)]).port(["http"]);
    let ready =
        [pod("one", "10.0.0.1").target("http", 8080), pod("two", "10.0.0.2").target("http", 8081)];
    let world = World::of(web.ready(ready)).http("web", []);
    assert_snapshot!(world.planned(), @r"
    shop/web: register http/web: 10.0.0.1 port 8080 (pod one)
    shop/web: register http/web: 10.0.0.2 port 8081 (pod two)
    ");
}

#[test]
fn srv_records_take_the_only_port_of_the_service() {
    let ports = |ports: &[(&'static str, u16)], targets: &[(&str, u16)]| {
        let one =
            targets.iter().fold(pod("one", "10.0.0.1"), |it, (name, port)| it.target(name, *port));
        let web = service("shop/web", "dns/web").ports(ports.to_vec()).ready([one]);
        World::of(web).cloud_map("dns/web", SRV, []).planned()
    };
    assert_snapshot!(ports(&[("", 80)], &[("", 8080)]), @"shop/web: register dns/web: 10.0.0.1 port 8080 (pod one)");
    assert_snapshot!(ports(&[("http", 80)], &[]), @"! shop/web dns/web: port 80 is not a port of the Service, or its endpoints do not have it; the Service has: http (80) (NoSuchPort)");
    assert_snapshot!(ports(&[("http", 80), ("grpc", 90)], &[("http", 8080), ("grpc", 9090)]), @"! shop/web dns/web: SRV records need a port: the Service has 2 ports, so name one with the port annotation (PortNeeded)");
    assert_snapshot!(ports(&[], &[]), @"! shop/web dns/web: SRV records need a port: the Service has 0 ports, so add one to it (PortNeeded)");
}

#[test]
fn what_is_registered_for_an_endpoint_that_does_not_fit_stays() {
    let web = service("shop/web", "http/web").ports([("http", 80)]).port(["typo"]);
    let world = World::of(web.ready([pod("one", "10.0.0.1").target("http", 8080)])).http(
        "web",
        [("a", with(ours("shop/web", "10.0.0.1"), PORT, "8080")), own("b", "shop/web", "10.0.0.2")],
    );
    assert_snapshot!(world.planned(), @r"
    shop/web: deregister http/web b: 10.0.0.2: no ready endpoint has this address and port
    ! shop/web http/web: port typo is not a port of the Service, or its endpoints do not have it; the Service has: http (80) (NoSuchPort)
    ");
}

/// An API server refuses such names.
#[test]
fn names_of_ports_are_one_printable_line_of_a_bounded_length() {
    let reason = |ports: Vec<(&'static str, u16)>| {
        let web = service("shop/web", "http/web").ports(ports).port(["typo"]);
        let web = web.ready([pod("one", "10.0.0.1")]);
        World::of(web).http("web", []).planned()
    };
    assert_snapshot!(reason(vec![("ad\u{1b}[31mmin\n", 90)]), @r"! shop/web http/web: port typo is not a port of the Service, or its endpoints do not have it; the Service has: ad\u{1b}[31mmin\n (90) (NoSuchPort)");
    let many = reason((1..=1_000).map(|number| ("a-name-of-a-port", number)).collect());
    assert!(many.contains("a-name-of-a-port (1), ") && many.len() < 500, "{many}");
}

#[test]
fn a_mistake_in_one_of_several_ports_removes_nothing() {
    let world = annotated(HTTP, ["http", "gprc"]).http(
        "web",
        [
            ("a", with(ours("shop/web", "10.0.0.1"), PORT, "8080")),
            ("b", with(ours("shop/web", "10.0.0.1"), PORT, "9090")),
        ],
    );
    assert_snapshot!(world.planned(), @r"
    shop/web: rewrite http/web a: cloud-map-sync/pod nothing -> one
    ! shop/web http/web: port gprc is not a port of the Service, or its endpoints do not have it; the Service has: http (80), grpc (90) (NoSuchPort)
    ");
}

/// The plan with a Route 53 health check in the only Cloud Map service.
fn checked(world: World, place: &str) -> String {
    let check = HealthCheck { kind: "TCP".into(), path: None, threshold: None };
    world.with(place, |service| service.health_check = Some(check)).planned()
}

#[test]
fn a_service_with_a_route_53_health_check_needs_a_port_too() {
    let address = "203.0.113.7";
    for kind in [A, HTTP] {
        let place = web_of(kind);
        let planned = checked(annotated_at(address, kind, []), place);
        assert_eq!(
            planned,
            format!(
                "! shop/web {place}: the Route 53 health checks of this Cloud Map service need a port: the Service has 2 ports, so name one with the port annotation (PortNeeded)"
            )
        );
        let planned = checked(annotated_at(address, kind, ["grpc"]), place);
        assert!(
            planned.starts_with(&format!("shop/web: register {place}: 203.0.113.7 port 9090")),
            "{planned}"
        );
        let ready = pod("one", address).target("http", 8080);
        let web = service("shop/web", place).ports([("http", 80)]).ready([ready]);
        let world = World::of(web).cloud_map(place, kind, []);
        let planned = checked(world, place);
        assert_eq!(planned, format!("shop/web: register {place}: 203.0.113.7 port 8080 (pod one)"));
    }
}

#[test]
fn a_route_53_health_check_takes_no_private_ipv4_address() {
    let registered = |addresses: &str| format!("register dns/web: {addresses} port 9090");
    let held = || "(AddressNotCheckable)".to_owned();
    let cases = [
        (A, "10.0.0.1", held()),
        (A, "192.0.2.1+2001:db8::1", held()),
        (AAAA, "10.0.0.1+fd00::1", registered("fd00::1")),
        (BOTH, "172.16.0.1+2001:db8::1", held()),
        (BOTH, "203.0.113.7+2001:db8::1", registered("203.0.113.7 and 2001:db8::1")),
        (SRV, "192.168.0.1", held()),
        (HTTP, "10.0.0.1+2001:db8::1", held()),
    ];
    for (kind, addresses, expected) in cases {
        let planned = checked(annotated_at(addresses, kind, ["grpc"]), web_of(kind));
        let planned = planned.replace(web_of(kind), "dns/web");
        assert!(planned.contains(&expected), "{kind} {addresses}: {planned}");
        let is_registered = planned.contains("shop/web: register");
        assert_eq!(is_registered, expected.starts_with("register"), "{planned}");
    }
}

#[test]
fn pods_that_a_health_check_cannot_call_are_one_line_and_their_instances_stay() {
    let pods = [pod("one", "10.0.0.1"), pod("two", "10.0.0.2"), pod("three", "203.0.113.7")];
    let pods = pods.map(|pod| pod.target("grpc", 9090));
    let web = service("shop/web", "dns/web").ports([("grpc", 90)]).ready(pods);
    let world = World::of(web)
        .dns("web", [own("a", "shop/web", "10.0.0.1"), own("b", "shop/web", "10.0.0.9")]);
    assert_snapshot!(checked(world, "dns/web"), @r"
    shop/web: register dns/web: 203.0.113.7 port 9090 (pod three)
    shop/web: deregister dns/web b: 10.0.0.9: no ready endpoint has this address and port
    ! shop/web dns/web: private addresses (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 192.0.2.0/24) are not registered here: Cloud Map refuses them in a service with a Route 53 health check; choose another name, or have the check removed (AddressNotCheckable)
    ");
}

/// Cloud Map refuses an instance of one family there, which would keep the only place.
#[test]
fn a_maximum_prefers_endpoints_that_the_records_of_both_families_take() {
    for number in 1..10 {
        let ready = [pod("one", &format!("10.0.0.{number}")), pod("both", "10.0.1.1+fd00::1")];
        let web = service("shop/web", "dns/web").levers(true, Some(1)).ready(ready);
        let planned = World::of(web).cloud_map("dns/web", BOTH, []).planned();
        assert!(planned.contains("register dns/web: 10.0.1.1 and fd00::1 (pod both)"), "{planned}");
    }
}
