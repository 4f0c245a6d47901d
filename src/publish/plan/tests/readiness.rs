//! The endpoints that are registered, by their conditions in the cluster.

use insta::assert_snapshot;

use super::world::{World, own, pod, service};
use crate::model::Endpoint;

/// A pod with these conditions.
fn found(name: &str, address: &str, conditions: &str) -> Endpoint {
    let is = |word| conditions.contains(word);
    Endpoint {
        ready: is("ready"),
        serving: is("serving"),
        terminating: is("terminating"),
        ..pod(name, address)
    }
}

fn one(conditions: &str) -> Endpoint {
    found("one", "10.0.0.1", conditions)
}

#[test]
fn ready_endpoints_are_found_and_terminating_ones_while_they_serve_where_that_is_asked_for() {
    let cases = [
        ("ready serving", true, true),
        ("ready", true, true),
        ("serving", false, false),
        ("", false, false),
        ("serving terminating", false, true),
        ("ready serving terminating", false, true),
        ("ready terminating", false, false),
        ("terminating", false, false),
    ];
    for (conditions, dropping, keeping) in cases {
        for (keeps_serving, expected) in [(false, dropping), (true, keeping)] {
            let web = service("shop/web", "http/web").keeps(keeps_serving, false);
            let plan = World::of(web.ready([one(conditions)])).plan();
            let found = !plan.changes.is_empty();
            assert_eq!(found, expected, "{conditions:?}, keep-serving {keeps_serving}");
        }
    }
}

#[test]
fn of_more_than_are_wanted_a_terminating_one_that_serves_goes_before_a_ready_one() {
    let endpoints = [one("serving terminating"), found("two", "10.0.0.2", "ready serving")];
    let web = service("shop/web", "http/web").keeps(true, false).levers(true, Some(1));
    let world = World::of(web.ready(endpoints));
    let world = world.http("web", [own("a", "shop/web", "10.0.0.1")]);
    assert_snapshot!(world.planned(), @r"
    shop/web: register http/web: 10.0.0.2 (pod two)
    shop/web: deregister http/web a: 10.0.0.1: it exceeds max-instances of the Service; stays until one of the ready endpoints is registered
    ! shop/web http/web: 1 of 2 instances are registered, the limit of max-instances of the Service (MaxInstances)
    ");
}

#[test]
fn pod_that_is_never_published_is_no_ready_one() {
    let web =
        |address| service("shop/web", "http/web").keeps(false, true).ready([pod("one", address)]);
    let planned = |web| World::of(web).http("web", [own("a", "shop/web", "10.0.0.9")]).planned();
    assert_snapshot!(planned(web("127.0.0.1")), @r"
    ! shop/web http/web: address 127.0.0.1 is not published: it is loopback, link-local, multicast, unspecified or IPv4-mapped (NotPublishable)
    ! shop/web http/web: no endpoint is ready; 1 instance stays here because of when-none-ready (NoneReady)
    ");
    assert_snapshot!(planned(web("10.0.0.1")), @r"
    shop/web: register http/web: 10.0.0.1 (pod one)
    shop/web: deregister http/web a: 10.0.0.9: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
}
