//! The description of a plan for people: the state of each endpoint under each name, and remarks on a name.

use insta::assert_snapshot;

use super::world::{A, HTTP, Kubernetes, SRV, World, foreign, named, ours, pod, service, with};
use crate::model::attributes::{POD, PORT};
use crate::model::{Attributes, Endpoint, Selection, ServiceKind};
use crate::publish::plan::{Found, namespaces, plan};

/// The description of one Service under each of its names.
fn described(world: &World, of: &str) -> Vec<Found> {
    let mut world = world.clone();
    namespaces::expect_missing(&mut world.0);
    let observed = world.observed(&Selection::Everything);
    observed.found(&plan(&observed), &named(of))
}

/// The state of each endpoint under each name, in a line each.
fn states(world: &World) -> String {
    let names = described(world, "shop/web").into_iter();
    let lines = names.flat_map(|name| {
        let held = if name.held { "" } else { " (not held)" };
        name.endpoints.into_iter().map(move |line| {
            format!("{}{held} {}: {}", name.place, line.addresses.join("+"), line.detail)
        })
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn of_pod(addresses: &str) -> Attributes {
    with(ours("shop/web", addresses), POD, "one")
}

fn not_ready(addresses: &str) -> Endpoint {
    Endpoint { ready: false, ..pod("one", addresses) }
}

fn terminating(addresses: &str) -> Endpoint {
    Endpoint { terminating: true, ..not_ready(addresses) }
}

#[test]
fn each_endpoint_has_one_state() {
    let endpoints = [
        pod("one", "10.0.0.1"),
        pod("two", "10.0.0.2"),
        pod("one", "10.0.0.3"),
        pod("one", "127.0.0.1"),
        not_ready("10.0.0.4"),
        terminating("10.0.0.5"),
        not_ready("10.0.0.6"),
    ];
    let world = World::of(service("shop/web", "http/web").ready(endpoints)).http(
        "web",
        [
            ("a", of_pod("10.0.0.1")),
            ("b", of_pod("10.0.0.2")),
            ("c", of_pod("10.0.0.6")),
            // An instance of another owner at the address of an endpoint does not register it.
            ("d", foreign("10.0.0.4")),
        ],
    );
    assert_snapshot!(states(&world), @r"
    http/web 10.0.0.1: registered as a
    http/web 10.0.0.2: registered as b, and a sync would rewrite it: cloud-map-sync/pod one -> two
    http/web 10.0.0.3: a sync would register it as ip-10-0-0-3-9ef7fb3628
    http/web 127.0.0.1: not registered: see the held back lines
    http/web 10.0.0.4: not registered: its pod is not ready
    http/web 10.0.0.5: not registered: its pod is terminating
    http/web 10.0.0.6: registered as c, and a sync would deregister it: 10.0.0.6 (pod one): no ready endpoint has this address and port
    ");
}

#[test]
fn endpoint_is_known_by_one_of_its_addresses_and_one_of_its_ports() {
    let at = |address: &str, port: &str| with(of_pod(address), PORT, port);
    let endpoints = [
        pod("one", "10.0.0.1+fd00::1").target("http", 8080),
        pod("one", "10.0.0.2").target("http", 8080).target("grpc", 9090),
        pod("one", "10.0.0.3"),
    ];
    let claims = service("shop/web", "http/web").ports([("http", 80), ("grpc", 81)]);
    let world = |instances: [(&'static str, Attributes); 3]| {
        let claims = claims.clone().port(["http", "grpc"]).ready(endpoints.clone());
        World::of(claims).http("web", instances)
    };
    let registered = |instances: [(&'static str, Attributes); 3]| {
        let names = described(&world(instances), "shop/web").remove(0).endpoints;
        names.into_iter().map(|it| it.detail.contains("registered as")).collect()
    };
    let all: Vec<bool> = registered([
        ("a", at("fd00::1", "8080")),
        ("b", at("10.0.0.2", "9090")),
        ("c", of_pod("10.0.0.3")),
    ]);
    assert_eq!(all, [true, true, true]);
    let others: Vec<bool> = registered([
        ("a", at("fd00::2", "8080")),
        ("b", at("10.0.0.2", "9091")),
        ("c", at("10.0.0.3", "1")),
    ]);
    assert_eq!(others, [false, false, true]);
}

#[test]
fn name_that_another_service_holds_is_not_held() {
    let older = service("shop/old", "http/web").created(1);
    let younger = service("shop/web", "http/web").also("mail").ready([pod("one", "10.0.0.1")]);
    let names = described(&World::of(older).service(younger), "shop/web");
    let names: Vec<(String, bool)> =
        names.iter().map(|it| (it.place.to_string(), it.held)).collect();
    assert_eq!(names, [("http/mail".to_owned(), true), ("http/web".to_owned(), false)]);
    assert!(described(&World::new(), "shop/web").is_empty());
}

/// The remarks on a Service under its first name.
fn remarks(claims: Kubernetes, place: &str, kind: Option<ServiceKind>) -> Vec<String> {
    let world = World::of(claims);
    let world = match kind {
        Some(kind) => world.cloud_map(place, kind, []),
        None => world,
    };
    described(&world, "shop/web").remove(0).remarks
}

#[test]
fn hostname_that_repeats_its_namespace_is_remarked_in_dns_only() {
    let remark = |place: &str| {
        let web = service("shop/web", place).ready([pod("one", "10.0.0.1")]);
        let plan = World::of(web).plan();
        let reasons = plan.held_back.iter().map(|line| line.reason.to_string());
        reasons.collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(remark("dns/web.dns"), @"the hostname ends in the namespace's name, so DNS has it as web.dns.dns: hostname: web makes it web.dns");
    assert_eq!(remark("dns/web.DNS"), remark("dns/web.dns"));
    for place in ["http/web.http", "dns/web", "dns/webdns", "dns/dns.web"] {
        assert_eq!(remark(place), "", "{place}");
    }
}

#[test]
fn port_of_the_pods_is_remarked_if_records_carry_none() {
    let claims = |targets: &[(&str, u16)]| {
        let endpoint =
            targets.iter().fold(pod("one", "10.0.0.1"), |it, (name, port)| it.target(name, *port));
        service("shop/web", "dns/web").ports([("http", 80), ("grpc", 81)]).ready([endpoint])
    };
    let remark = |targets, kind| remarks(claims(targets), "dns/web", kind).join("\n");
    assert_snapshot!(remark(&[("http", 80), ("grpc", 9090)], Some(A)), @"A records carry no port: clients connect to the pods themselves, which listen at 9090, and not to the Service's port 81");
    assert_eq!(remark(&[("http", 80), ("grpc", 81)], Some(A)), "", "the same ports");
    assert_eq!(remark(&[("other", 8080)], Some(A)), "", "a port of no Service");
    for kind in [Some(SRV), Some(HTTP), None] {
        assert_eq!(remark(&[("http", 8080)], kind), "", "{kind:?}");
    }
}
