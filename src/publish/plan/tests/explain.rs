//! The description of a plan for people: the fate of each endpoint under each name, as the plan has recorded it, and remarks
//! on a name.

use insta::assert_snapshot;

use super::guard::shops;
use super::world::{
    A, HTTP, Kubernetes, SRV, World, foreign, named, ours, own, pod, service, with,
};
use crate::model::attributes::{POD, PORT};
use crate::model::{Attributes, Endpoint, HealthCheck, Selection, ServiceKind};
use crate::publish::plan::{
    NameWithFates, Plan, Policy, Rules, ServiceLimit, names_with_fates, namespaces, plan,
    plan_with_fates,
};

/// The description of one Service under each of its names.
fn described(world: &World, of: &str) -> Vec<NameWithFates> {
    let mut world = world.clone();
    namespaces::expect_missing(&mut world.0);
    let observed = world.observed(&Selection::Everything);
    let recorded = plan_with_fates(&observed, &named(of));
    let names = names_with_fates(&observed, &recorded, &named(of));
    assert_eq!(plan(&observed), Plan { fates: None, ..recorded }, "the record changes no plan");
    names
}

/// The state of each endpoint of `shop/web` under each name, in a line each.
fn states(world: &World) -> String {
    states_of(world, "shop/web")
}

fn states_of(world: &World, service: &str) -> String {
    let names = described(world, service).into_iter();
    let lines = names.flat_map(|name| {
        let held = if name.is_holder { "" } else { " (not held)" };
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
    http/web 127.0.0.1: not registered: address 127.0.0.1 is not published: it is loopback, link-local, multicast, unspecified or IPv4-mapped
    http/web 10.0.0.4: not registered: its pod is not ready
    http/web 10.0.0.5: not registered: its pod is terminating
    http/web 10.0.0.6: registered as c, and a sync would deregister it: 10.0.0.6 (pod one): no ready endpoint has this address and port
    ");
}

/// `shop/web` with these pods of the network 10.0.0.
fn web(last: impl IntoIterator<Item = u8>) -> Kubernetes {
    let pods = last.into_iter().map(|last| pod("one", &format!("10.0.0.{last}")));
    service("shop/web", "http/web").ready(pods.collect::<Vec<_>>())
}

#[test]
fn instances_of_an_endpoint_are_those_that_the_plan_keeps_for_it() {
    let at = |address: &str, port: &str| with(of_pod(address), PORT, port);
    let endpoints = [
        pod("one", "10.0.0.1+fd00::1").target("http", 8080),
        pod("one", "10.0.0.2").target("http", 8080).target("grpc", 9090),
        pod("one", "10.0.0.3"),
    ];
    let claims = service("shop/web", "http/web").ports([("http", 80), ("grpc", 81)]);
    let world = World::of(claims.port(["http", "grpc"]).ready(endpoints)).http(
        "web",
        [
            // One of the two addresses is missing, so the plan replaces it.
            ("a", at("fd00::1", "8080")),
            ("b", at("10.0.0.2", "9090")),
            // No instance can be derived, so the one that is there stays.
            ("c", of_pod("10.0.0.3")),
        ],
    );
    assert_snapshot!(states(&world), @r"
    http/web 10.0.0.1+fd00::1: a sync would register it as ip-10-0-0-1-8080-5131841101
    http/web 10.0.0.2: a sync would register it as ip-10-0-0-2-8080-59a33db4a9; registered as b
    http/web 10.0.0.3: registered as c; port http is not a port of the Service, or its endpoints do not have it; the Service has: http (80), grpc (81)
    ");
}

#[test]
fn endpoint_that_is_left_out_has_the_reason_of_the_plan() {
    let other = pod("one", "10.0.0.1").target("other", 8080);
    let no_port = service("shop/web", "http/web").ports([("http", 80)]).port(["http"]);
    assert_snapshot!(states(&World::of(no_port.ready([other]))), @"http/web 10.0.0.1: not registered: port http is not a port of the Service, or its endpoints do not have it; the Service has: http (80)");
    let denied = World::of(web([1])).http("web", []).with("http/web", |service| {
        service.health_check =
            Some(HealthCheck { kind: "TCP".into(), path: None, threshold: None });
    });
    assert_snapshot!(states(&denied), @"http/web 10.0.0.1: not registered: private addresses (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 192.0.2.0/24) are not registered here: Cloud Map refuses them in a service with a Route 53 health check; choose another name, or have the check removed");
    let unreadable = World::of(web([1])).http("web", []).with("http/web", |service| {
        service.unreadable = Some("throttled".to_owned());
    });
    assert_snapshot!(states(&unreadable), @"http/web 10.0.0.1: not registered: the instances of this Cloud Map service could not be read: throttled");
    let withdrawn = World::of(web([1, 2]).levers(false, None));
    assert_snapshot!(states(&withdrawn.http("web", [("a", of_pod("10.0.0.1"))])), @r"
    http/web 10.0.0.1: registered as a, and a sync would deregister it: 10.0.0.1 (pod one): publish of the Service is false
    http/web 10.0.0.2: not registered: publish of the Service is false
    ");
    let late = World::of(service("shop/old", "http/web").created(1)).service(web([1]));
    assert_snapshot!(states(&late), @"http/web (not held) 10.0.0.1: not registered: Service shop/old of this cluster holds the name; this one takes over when that ends");
    let taken = World::of(web([1])).id_given("http/web", "10.0.0.1");
    let taken = World::of(web([1])).http("web", [(&taken, foreign("10.0.9.1"))]);
    assert_snapshot!(states(&taken), @"http/web 10.0.0.1: not registered: instance ip-10-0-0-1-7f9c7a236b exists and belongs to another endpoint; it is not overwritten");
}

#[test]
fn endpoint_beyond_a_maximum_is_left_out_or_leaves() {
    let world = World::of(web([1, 2, 3]).levers(true, Some(1)));
    let present = [("a", of_pod("10.0.0.1")), ("b", of_pod("10.0.0.2"))];
    assert_snapshot!(states(&world.http("web", present)), @r"
    http/web 10.0.0.1: registered as a, and a sync would deregister it: 10.0.0.1 (pod one): it exceeds max-instances of the Service
    http/web 10.0.0.2: registered as b
    http/web 10.0.0.3: not registered: 1 of 3 instances are registered, the limit of max-instances of the Service
    ");
    let pods = (0..6000_u16)
        .map(|number| pod("one", &format!("10.1.{}.{}", number / 250, number % 250 + 1)));
    let many = World::of(service("shop/web", "http/web").ready(pods.collect::<Vec<_>>()));
    let states = states(&many);
    let left_out = ": not registered: 1000 of ";
    assert_eq!(states.lines().filter(|line| line.contains(left_out)).count(), 5000);
}

#[test]
fn port_beyond_a_maximum_is_left_out_although_its_endpoint_has_another() {
    let endpoint = pod("one", "10.0.0.1").target("http", 8080).target("grpc", 9090);
    let claims = service("shop/web", "http/web").ports([("http", 80), ("grpc", 81)]);
    let claims = claims.port(["http", "grpc"]).ready([endpoint]).levers(true, Some(1));
    let states = states(&World::of(claims));
    assert!(states.contains("a sync would register it as ip-10-0-0-1-"), "{states}");
    assert!(states.contains("not registered: 1 of 2 instances are registered, "), "{states}");
}

#[test]
fn endpoint_without_room_is_left_out_or_displaces_an_instance() {
    let full = |world: World| {
        let service_limit = ServiceLimit(2);
        states(&world.under(Rules { service_limit, ..Rules::default() }))
    };
    let world = World::of(web([1, 5]));
    let foreign = [("a", of_pod("10.0.0.1")), ("b", foreign("10.0.9.1"))];
    assert_snapshot!(full(world.clone().http("web", foreign)), @r"
    http/web 10.0.0.1: registered as a
    http/web 10.0.0.5: not registered: 1 of 2 instances fit: a Cloud Map service can have 2, and 1 in it are not ours
    ");
    let surplus = [("a", of_pod("10.0.0.1")), ("b", of_pod("10.0.0.4"))];
    let world = World::of(web([1, 5]).ready([
        pod("one", "10.0.0.1"),
        not_ready("10.0.0.4"),
        pod("one", "10.0.0.5"),
    ]));
    assert_snapshot!(full(world.http("web", surplus)), @r"
    http/web 10.0.0.1: registered as a
    http/web 10.0.0.4: registered as b, and a sync would rewrite it: 10.0.0.5 (pod one) in place of 10.0.0.4 (pod one): no ready endpoint has this address and port
    http/web 10.0.0.5: a sync would register it as b: 10.0.0.5 (pod one) in place of 10.0.0.4 (pod one): no ready endpoint has this address and port
    ");
}

#[test]
fn change_that_a_policy_does_not_allow_leaves_the_endpoint_with_its_reason() {
    let world = World::of(web([1]));
    let world = world.http("web", [("a", with(of_pod("10.0.0.1"), "REGION", "elsewhere"))]);
    let rules = Rules { policy: Policy::CreateOnly, ..Rules::default() };
    assert_snapshot!(states(&world.under(rules)), @"http/web 10.0.0.1: registered as a; POLICY=create-only does not allow this: rewrite a in http/web");
}

#[test]
fn endpoint_waits_for_the_decision_about_a_loss_that_the_guard_holds() {
    // The name is kept for the Service whose instances seem to be gone.
    let next = service("shop/next", "http/a").ready([pod("new", "10.0.1.1")]);
    let world = shops(&[("a", 4, None), ("b", 4, None)]).service(next);
    assert_snapshot!(states_of(&world, "shop/next"), @"http/a 10.0.1.1: not registered: Service shop/a of this cluster holds the name; this one takes over when that ends");
    // The only room is that of the instances which the guard holds.
    let mut full = shops(&[("a", 4, None), ("b", 4, None)]).service(web([1]));
    full = full.http("web", [own("c", "shop/left", "10.0.0.9")]);
    full.0.registry.capacity.record_full("ns-http", "full");
    let states = states(&full);
    let left_out = "http/web 10.0.0.1: not registered: 1 instance stays here: Services shop/a, ";
    assert!(states.starts_with(left_out), "{states}");
}

#[test]
fn instance_that_gets_the_address_of_its_endpoint_again_is_a_change() {
    let id = World::of(web([1])).id_given("http/web", "10.0.0.1");
    let edited = World::of(web([1])).http("web", [(&id, of_pod("10.0.0.9"))]);
    assert_snapshot!(states(&edited), @"http/web 10.0.0.1: registered as ip-10-0-0-1-7f9c7a236b, and a sync would rewrite it: AWS_INSTANCE_IPV4 10.0.0.9 -> 10.0.0.1");
}

#[test]
fn pod_that_is_not_ready_has_the_instance_of_a_ready_pod_on_the_network_of_its_node() {
    let pods = [pod("one", "10.0.0.1"), Endpoint { ready: false, ..pod("two", "10.0.0.1") }];
    let world = World::of(service("shop/web", "http/web").ready(pods));
    assert_snapshot!(states(&world), @r"
    http/web 10.0.0.1: a sync would register it as ip-10-0-0-1-7f9c7a236b
    http/web 10.0.0.1: a sync would register it as ip-10-0-0-1-7f9c7a236b
    ");
}

#[test]
fn name_that_another_service_holds_is_not_held() {
    let older = service("shop/old", "http/web").created(1);
    let younger = service("shop/web", "http/web").also("mail").ready([pod("one", "10.0.0.1")]);
    let names = described(&World::of(older).service(younger), "shop/web");
    let names: Vec<(String, bool)> =
        names.iter().map(|name| (name.place.to_string(), name.is_holder)).collect();
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
    assert_snapshot!(remark("dns/web.dns"), @"the hostname ends in the namespace's name, so DNS has it as web.dns.dns; hostname: web makes it web.dns");
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
