//! The endpoints that are registered, by their conditions in the cluster, and their health at first.

use insta::assert_snapshot;

use super::health::{checked, found, one, registered, web};
use super::world::{World, own, pod, service, with, written};
use crate::model::Health;
use crate::model::attributes::{INITIAL_HEALTH, REGION};

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
fn with_custom_health_all_are_found_but_terminating_ones_and_serving_is_healthy() {
    let (healthy, unhealthy) = (Some("HEALTHY"), Some("UNHEALTHY"));
    let cases = [
        ("ready serving", healthy, healthy),
        ("ready", unhealthy, unhealthy),
        ("serving", healthy, healthy),
        ("", unhealthy, unhealthy),
        ("serving terminating", None, healthy),
        ("ready serving terminating", None, healthy),
        ("ready terminating", None, None),
        ("terminating", None, None),
    ];
    for (conditions, dropping, keeping) in cases {
        for (keeps_serving, expected) in [(false, dropping), (true, keeping)] {
            let web = web([one(conditions)]).keeps(keeps_serving, false);
            let written = written(&World::of(web).plan(), "http/web");
            let health = written.values().next().and_then(|it| it.get(INITIAL_HEALTH));
            assert_eq!(health, expected, "{conditions:?}, keep-serving {keeps_serving}");
        }
    }
}

#[test]
fn a_new_service_gets_a_custom_check_and_a_starting_pod_is_unhealthy_from_the_first() {
    let endpoints = [one("ready serving"), found("two", "10.0.0.2", "")];
    assert_snapshot!(World::of(web(endpoints)).planned(), @r"
    shop/web: create http/web: an HTTP service, with a custom health check
    shop/web: register http/web: 10.0.0.1 (pod one), HEALTHY
    shop/web: register http/web: 10.0.0.2 (pod two), UNHEALTHY
    ");
}

#[test]
fn without_a_check_to_report_to_only_ready_pods_are_registered() {
    let endpoints = [one("ready serving"), found("two", "10.0.0.2", "")];
    let world = World::of(web(endpoints)).http("web", [own("b", "shop/web", "10.0.0.2")]);
    assert_snapshot!(world.planned(), @r"
    shop/web: register http/web: 10.0.0.1 (pod one)
    shop/web: deregister http/web b: 10.0.0.2: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ! shop/web http/web: this Cloud Map service was created without a custom health check, and none can be added: only ready pods are registered, as health: membership does; for health: custom choose another name, or recreate the service (NoCustomHealth)
    ");
}

#[test]
fn while_none_is_ready_the_last_ones_stay_as_healthy_as_they_are_where_the_service_says_so() {
    let endpoints = || [one(""), found("two", "10.0.0.2", ""), found("new", "10.0.0.4", "")];
    let instances = || {
        [
            ("a", registered("one", "10.0.0.1", "UNHEALTHY")),
            ("b", registered("two", "10.0.0.2", "HEALTHY")),
            ("c", registered("gone", "10.0.0.3", "HEALTHY")),
        ]
    };
    let known = [("a", Health::Healthy), ("b", Health::Unhealthy), ("c", Health::Healthy)];
    let keeping = || World::of(web(endpoints()).keeps(false, true));
    assert_snapshot!(checked(keeping(), instances(), &known).planned(), @r"
    shop/web: register http/web: 10.0.0.4 (pod new), UNHEALTHY
    ! shop/web http/web: no endpoint is ready; 3 instances stay here because of when-none-ready (NoneReady)
    ");
    let drifted = instances().map(|(id, it)| (id, with(it, REGION, "us-east-1")));
    let plan = checked(keeping(), drifted, &known).plan();
    let written = written(&plan, "http/web");
    let initial = ["a", "b"].map(|id| written[id].get(INITIAL_HEALTH));
    assert_eq!(initial, ["HEALTHY", "UNHEALTHY"].map(Some), "a rewrite changes no health either");

    let emptying = World::of(web(endpoints()));
    assert_snapshot!(checked(emptying, instances(), &known).planned(), @r"
    shop/web: register http/web: 10.0.0.4 (pod new), UNHEALTHY
    shop/web: health http/web a: 10.0.0.1 (pod one): HEALTHY -> UNHEALTHY, since it is not ready
    shop/web: deregister http/web c: 10.0.0.3 (pod gone): no ready endpoint has this address and port
    ");
    let ready = [one("ready serving"), found("two", "10.0.0.2", "")];
    let one_is_ready = World::of(web(ready).keeps(false, true));
    assert_snapshot!(checked(one_is_ready, instances(), &[("b", Health::Healthy)]).planned(), @r"
    shop/web: health http/web a: 10.0.0.1 (pod one): UNHEALTHY -> HEALTHY, since it is ready
    shop/web: health http/web b: 10.0.0.2 (pod two): HEALTHY -> UNHEALTHY, since it is not ready
    shop/web: deregister http/web c: 10.0.0.3 (pod gone): no ready endpoint has this address and port
    ");
}

#[test]
fn what_is_not_ready_stands_in_for_nothing_ready_and_for_nothing_at_all() {
    let starting = || found("two", "10.0.0.2", "");
    let old = || ("z", registered("old", "10.0.0.9", "HEALTHY"));
    let known = [("z", Health::Healthy)];
    let nothing_ready = World::of(web([starting()]));
    assert_snapshot!(checked(nothing_ready, [old()], &known).planned(), @r"
    shop/web: register http/web: 10.0.0.2 (pod two), UNHEALTHY
    shop/web: deregister http/web z: 10.0.0.9 (pod old): no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
    let endpoints = || [one("ready serving"), starting()];
    let instances = [old(), ("b", registered("two", "10.0.0.2", "UNHEALTHY"))];
    let one_is_ready = World::of(web(endpoints()));
    assert_snapshot!(checked(one_is_ready, instances, &known).planned(), @r"
    shop/web: register http/web: 10.0.0.1 (pod one), HEALTHY
    shop/web: deregister http/web z: 10.0.0.9 (pod old): no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
}

#[test]
fn pods_that_share_the_address_of_their_host_are_as_healthy_as_the_best_of_them() {
    for conditions in [["serving", ""], ["", "serving"]] {
        let [one, two] = conditions;
        let endpoints = [found("one", "10.0.0.1", one), found("two", "10.0.0.1", two)];
        let world = checked(World::of(web(endpoints)), [], &[]);
        assert_eq!(world.planned(), "shop/web: register http/web: 10.0.0.1 (pod two), HEALTHY");
    }
}

#[test]
fn of_more_than_are_wanted_the_healthy_ones_come_first() {
    let endpoints = [one(""), found("two", "10.0.0.2", "serving")];
    let world = World::of(web(endpoints).levers(true, Some(1)));
    let instances = [("a", registered("one", "10.0.0.1", "UNHEALTHY"))];
    assert_snapshot!(checked(world, instances, &[]).planned(), @r"
    shop/web: register http/web: 10.0.0.2 (pod two), HEALTHY
    shop/web: deregister http/web a: 10.0.0.1 (pod one): it exceeds max-instances of the Service; stays until one of the ready endpoints is registered
    ! shop/web http/web: 1 of 2 instances are registered, the limit of max-instances of the Service (MaxInstances)
    ");
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
