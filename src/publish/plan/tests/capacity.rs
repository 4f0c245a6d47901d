//! A Cloud Map service at its limit: the registrations that get a place, the instances that they displace, and the
//! lines about the rest. And the largest number of instances, against the quotas.

use insta::assert_snapshot;

use super::world::{
    Kubernetes, World, foreign, of_other_cluster, ours, own, pod, pods, service, with,
};
use crate::model::attributes::SIGHTING;
use crate::model::{Attributes, CloudMapService, Endpoint, NamespaceKind, ServiceKey};
use crate::publish::plan::{Peak, Policy, Rules, ServiceLimit, peaks};

/// The changes of a sync under these limits.
pub fn planned(world: &World, service: usize) -> String {
    let service_limit = ServiceLimit(service);
    world.clone().under(Rules { service_limit, ..Rules::default() }).planned()
}

/// A Service `shop/<name>` that claims `http/<name>`, with pods at these last numbers of an address.
pub fn ready(name: &str, last: &[u8]) -> Kubernetes {
    service(&format!("shop/{name}"), &format!("http/{name}")).ready(pods("10.0.0", last))
}

/// An instance of ours for one of these endpoints.
pub fn instance_of(name: &str, last: u8) -> Attributes {
    let service = format!("shop/{name}");
    with(ours(&service, &format!("10.0.0.{last}")), "cloud-map-sync/pod", "one")
}

pub fn task(last: u8) -> Attributes {
    foreign(&format!("10.0.9.{last}"))
}

#[test]
fn a_service_takes_1000_whoever_registered_them_and_what_stands_stays() {
    let world = World::of(ready("web", &[1, 2, 3, 4])).http(
        "web",
        [
            ("a", instance_of("web", 1)),
            ("b", task(1)),
            ("c", of_other_cluster("shop/web", "10.0.8.1")),
        ],
    );
    assert_snapshot!(planned(&world, 4), @r"
    shop/web: register http/web: 10.0.0.2 (pod one)
    ! shop/web http/web: 2 of 4 instances fit: a Cloud Map service can have 4, and 2 in it are not ours (ServiceFull)
    ");
    assert_snapshot!(planned(&world, 3), @"! shop/web http/web: 1 of 4 instances fit: a Cloud Map service can have 3, and 2 in it are not ours (ServiceFull)");
    assert_snapshot!(planned(&world, 2), @"! shop/web http/web: 1 of 4 instances fit: a Cloud Map service can have 2, and 2 in it are not ours (ServiceFull)");
    assert_snapshot!(planned(&world, 6), @r"
    shop/web: register http/web: 10.0.0.2 (pod one)
    shop/web: register http/web: 10.0.0.3 (pod one)
    shop/web: register http/web: 10.0.0.4 (pod one)
    ");
}

#[test]
fn more_than_a_thousand_endpoints_are_one_line_beside_other_owners() {
    let last: Vec<u8> = (1..=241).collect();
    let all: Vec<Endpoint> =
        (0..5).flat_map(|third| pods(&format!("10.1.{third}"), &last)).collect();
    let web = service("shop/web", "http/web").ready(all);
    let plan = World::of(web).http("web", [("a", task(1)), ("b", task(2))]).plan();
    let lines: Vec<String> = plan.held_back.iter().map(|it| it.reason.to_string()).collect();
    assert_snapshot!(lines.join("\n"), @"998 of 1205 instances fit: a Cloud Map service can have 1000, and 2 in it are not ours");
    assert_eq!(plan.changes.values().flatten().count(), 998);
}

#[test]
fn an_instance_that_goes_is_displaced_by_a_new_endpoint() {
    let world = World::of(ready("web", &[1, 5])).http(
        "web",
        [("a", instance_of("web", 1)), ("b", instance_of("web", 2)), ("c", instance_of("web", 3))],
    );
    assert_snapshot!(planned(&world, 3), @r"
    shop/web: rewrite http/web b: 10.0.0.5 (pod one) in place of 10.0.0.2 (pod one): no ready endpoint has this address and port
    shop/web: deregister http/web c: 10.0.0.3 (pod one): no ready endpoint has this address and port
    ");
    assert_snapshot!(planned(&world, 4), @r"
    shop/web: register http/web: 10.0.0.5 (pod one)
    shop/web: deregister http/web b: 10.0.0.2 (pod one): no ready endpoint has this address and port
    shop/web: deregister http/web c: 10.0.0.3 (pod one): no ready endpoint has this address and port
    ");
}

#[test]
fn the_last_instance_under_a_name_is_displaced_too() {
    let world = World::of(ready("web", &[5, 6]))
        .http("web", [("a", instance_of("web", 1)), ("b", task(1))]);
    assert_snapshot!(planned(&world, 2), @r"
    shop/web: rewrite http/web a: 10.0.0.6 (pod one) in place of 10.0.0.1 (pod one): no ready endpoint has this address and port
    ! shop/web http/web: 1 of 2 instances fit: a Cloud Map service can have 2, and 1 in it are not ours (ServiceFull)
    ");
    let world = world.with("http/web", |service| {
        let instances = service.instances.as_mut().expect("they were read");
        instances.insert("c".into(), instance_of("web", 2));
    });
    assert_snapshot!(planned(&world, 3), @r"
    shop/web: rewrite http/web a: 10.0.0.6 (pod one) in place of 10.0.0.1 (pod one): no ready endpoint has this address and port
    shop/web: rewrite http/web c: 10.0.0.5 (pod one) in place of 10.0.0.2 (pod one): no ready endpoint has this address and port
    ");
}

#[test]
fn an_instance_of_a_gone_service_is_displaced_by_the_next_holders() {
    let world = World::of(ready("web", &[5])).http(
        "web",
        [
            ("a", instance_of("gone", 1)),
            ("b", instance_of("gone", 2)),
            ("c", instance_of("gone", 3)),
        ],
    );
    assert_snapshot!(planned(&world, 3), @r"
    shop/web: rewrite http/web a: 10.0.0.5 (pod one) in place of 10.0.0.1 (pod one): Service shop/gone is gone, or no longer annotated and headless
    shop/web: deregister http/web b: 10.0.0.2 (pod one): Service shop/gone is gone, or no longer annotated and headless; stays until Service shop/web has an instance under this name
    shop/web: deregister http/web c: 10.0.0.3 (pod one): Service shop/gone is gone, or no longer annotated and headless; stays until Service shop/web has an instance under this name
    ");
}

#[test]
fn a_policy_that_takes_nothing_out_displaces_nothing() {
    let service_limit = ServiceLimit(2);
    let world = World::of(ready("web", &[1, 5]))
        .http("web", [("a", instance_of("web", 1)), ("b", instance_of("web", 2))]);
    assert_snapshot!(world
        .under(Rules { policy: Policy::CreateOnly, service_limit, ..Rules::default() })
        .planned(), @r"
    ! shop/web http/web: 1 of 2 instances fit: a Cloud Map service can have 2, and 0 in it are not ours (ServiceFull)
    ! shop/web http/web: POLICY=create-only does not allow this: deregister b in http/web (Policy)
    ");
}

#[test]
fn a_service_above_its_limit_exchanges_one_for_one() {
    let world = World::of(ready("web", &[1, 5])).http(
        "web",
        [
            ("a", instance_of("web", 1)),
            ("b", instance_of("web", 2)),
            ("c", instance_of("web", 3)),
            ("d", task(1)),
        ],
    );
    assert_snapshot!(planned(&world, 2), @r"
    shop/web: rewrite http/web b: 10.0.0.5 (pod one) in place of 10.0.0.2 (pod one): no ready endpoint has this address and port
    shop/web: deregister http/web c: 10.0.0.3 (pod one): no ready endpoint has this address and port
    ");
    assert_snapshot!(planned(&world, 3), @r"
    shop/web: rewrite http/web b: 10.0.0.5 (pod one) in place of 10.0.0.2 (pod one): no ready endpoint has this address and port
    shop/web: deregister http/web c: 10.0.0.3 (pod one): no ready endpoint has this address and port
    ");
}

#[test]
fn instance_with_a_note_is_displaced_last() {
    let noted = with(instance_of("web", 2), SIGHTING, "2026-11-21T10:51:00Z");
    let instances = [("a", noted), ("b", instance_of("web", 3)), ("c", instance_of("web", 1))];
    let world = World::of(ready("web", &[1, 5])).http("web", instances);
    let planned = planned(&world, 3);
    assert!(planned.contains("rewrite http/web b: 10.0.0.5"), "{planned}");
}

#[test]
fn new_instances_count_before_old_ones_go_and_those_of_others_do_too() {
    let mut world = World::of(service("shop/web", "http/web").ready([pod("two", "10.0.0.2")]))
        .http("web", [own("a", "shop/web", "10.0.0.1"), ("b", foreign("10.0.0.9"))])
        .http("cart", [])
        .with("http/cart", |cart| (cart.instances, cart.instance_count) = (None, 2))
        .dns("web", [("c", foreign("10.0.0.1"))])
        .namespace("ns-twin", "http", NamespaceKind::Http);
    // Another namespace of the name has a quota of its own.
    let in_twin = ServiceKey { namespace: "ns-twin".into(), name: "other".into() };
    let other = CloudMapService { instance_count: 2, ..CloudMapService::default() };
    world.0.registry.services.insert(in_twin, other);
    let peaks: Vec<(String, usize, usize, bool)> = peaks(&world.0, &world.plan())
        .into_iter()
        .map(|Peak { of, count, quota, is_fixed }| (of, count, quota, is_fixed))
        .collect();
    let expected = [("http/web", 3, 1000, true), ("http", 5, 2000, false)];
    assert_eq!(
        peaks,
        expected.map(|(of, count, quota, is_fixed)| (of.to_owned(), count, quota, is_fixed))
    );
}
