//! Where a Cloud Map namespace takes no more: whose instances find room in it, and in which order.

use insta::assert_snapshot;

use super::limits::{ready, stands, task, told};
use super::simulation::{Course, Simulation};
use super::world::{HTTP, World, own, pod, service, tell};
use crate::model::Selection;
use crate::plan::{Limits, Rules};

#[test]
fn names_of_a_namespace_take_turns_and_the_one_with_the_fewest_begins() {
    let world = World::new()
        .service(ready("api", &[1, 2, 3]))
        .service(ready("web", &[1, 2, 3]))
        .service(ready("zoo", &[1, 2, 3]))
        .cloud_map("http/api", HTTP, [("a", stands("api", 1)), ("b", stands("api", 2))])
        .cloud_map("http/other", HTTP, [("c", task(1))])
        .cloud_map("dns/elsewhere", HTTP, [("d", task(1))]);
    assert_snapshot!(told(&world, 1000, 3), @r"
    ! shop/api http/api: 2 of 3 instances fit: the Cloud Map namespace takes 3 (NAMESPACE_INSTANCE_LIMIT), and others take up the rest (NamespaceFull)
    ! shop/web http/web: 0 of 3 instances fit: the Cloud Map namespace takes 3 (NAMESPACE_INSTANCE_LIMIT), and others take up the rest (NamespaceFull)
    ! shop/zoo http/zoo: 0 of 3 instances fit: the Cloud Map namespace takes 3 (NAMESPACE_INSTANCE_LIMIT), and others take up the rest (NamespaceFull)
    ");
    assert_snapshot!(told(&world, 1000, 5), @r"
    shop/web: create http/web: an HTTP service
    shop/web: register http/web: 10.0.0.2 (pod one)
    shop/zoo: create http/zoo: an HTTP service
    shop/zoo: register http/zoo: 10.0.0.2 (pod one)
    ! shop/api http/api: 2 of 3 instances fit: the Cloud Map namespace takes 5 (NAMESPACE_INSTANCE_LIMIT), and others take up the rest (NamespaceFull)
    ! shop/web http/web: 1 of 3 instances fit: the Cloud Map namespace takes 5 (NAMESPACE_INSTANCE_LIMIT), and others take up the rest (NamespaceFull)
    ! shop/zoo http/zoo: 1 of 3 instances fit: the Cloud Map namespace takes 5 (NAMESPACE_INSTANCE_LIMIT), and others take up the rest (NamespaceFull)
    ");
    assert_snapshot!(told(&world, 1000, 9), @r"
    shop/api: register http/api: 10.0.0.3 (pod one)
    shop/web: create http/web: an HTTP service
    shop/web: register http/web: 10.0.0.1 (pod one)
    shop/web: register http/web: 10.0.0.2 (pod one)
    shop/web: register http/web: 10.0.0.3 (pod one)
    shop/zoo: create http/zoo: an HTTP service
    shop/zoo: register http/zoo: 10.0.0.1 (pod one)
    shop/zoo: register http/zoo: 10.0.0.2 (pod one)
    ! shop/zoo http/zoo: 2 of 3 instances fit: the Cloud Map namespace takes 9 (NAMESPACE_INSTANCE_LIMIT), and others take up the rest (NamespaceFull)
    ");
}

#[test]
fn instances_that_were_not_read_count_in_their_namespace() {
    let world = World::new().service(ready("web", &[1, 2])).cloud_map("http/other", HTTP, []);
    let world = world.with("http/other", |service| {
        service.instances = None;
        service.instance_count = 4;
    });
    assert_snapshot!(told(&world, 1000, 5), @r"
    shop/web: create http/web: an HTTP service
    shop/web: register http/web: 10.0.0.2 (pod one)
    ! shop/web http/web: 1 of 2 instances fit: the Cloud Map namespace takes 5 (NAMESPACE_INSTANCE_LIMIT), and others take up the rest (NamespaceFull)
    ");
}

#[test]
fn who_exchanges_a_pod_keeps_the_place_and_what_others_free_is_given_out() {
    let world = World::new()
        .service(ready("api", &[1, 5]))
        .service(ready("web", &[1, 2, 3]))
        .cloud_map("http/api", HTTP, [("a", stands("api", 1)), ("b", stands("api", 2))])
        .cloud_map("http/web", HTTP, [("c", stands("web", 1)), ("d", stands("web", 2))]);
    assert_snapshot!(told(&world, 1000, 4), @r"
    shop/api: register http/api: 10.0.0.5 (pod one); waits until there is room for it
    shop/api: deregister http/api b: 10.0.0.2 (pod one): no ready endpoint has this address and port
    ! shop/web http/web: 2 of 3 instances fit: the Cloud Map namespace takes 4 (NAMESPACE_INSTANCE_LIMIT), and others take up the rest (NamespaceFull)
    ");
    let world = world.cloud_map("http/old", HTTP, [own("e", "shop/gone", "10.0.0.9")]);
    assert_snapshot!(told(&world, 1000, 5), @r"
    shop/api: register http/api: 10.0.0.5 (pod one); waits until there is room for it
    shop/api: deregister http/api b: 10.0.0.2 (pod one): no ready endpoint has this address and port
    shop/gone: deregister http/old e: 10.0.0.9: Service shop/gone is gone, or no longer annotated and headless
    shop/web: register http/web: 10.0.0.3 (pod one); waits until there is room for it
    ");
    // Also where another name has nothing yet, and so would come first.
    let world = World::new().service(ready("api", &[1, 5])).service(ready("web", &[3])).cloud_map(
        "http/api",
        HTTP,
        [("a", stands("api", 1)), ("b", stands("api", 2))],
    );
    assert_snapshot!(told(&world, 1000, 2), @r"
    shop/api: register http/api: 10.0.0.5 (pod one); waits until there is room for it
    shop/api: deregister http/api b: 10.0.0.2 (pod one): no ready endpoint has this address and port
    ! shop/web http/web: 0 of 1 instances fit: the Cloud Map namespace takes 2 (NAMESPACE_INSTANCE_LIMIT), and others take up the rest (NamespaceFull)
    ");
}

#[test]
fn who_found_no_room_is_asked_again_when_another_who_is_let_in_frees_some() {
    // In the second case there is one too many already.
    for (new, next, limit) in [("api", "web", 3), ("api", "web", 2), ("web", "api", 2)] {
        let left = [("a", stands("gone", 1)), ("b", stands("gone", 2)), ("c", stands("gone", 3))];
        let world = World::new().service(ready(new, &[1])).service(ready(next, &[5]));
        let told = told(&world.cloud_map(&format!("http/{next}"), HTTP, left), 1000, limit);
        assert_eq!(told.matches(": register ").count(), 2, "{told}");
    }
}

/// Only where the setting says less than the account has: Cloud Map itself lets no namespace come there.
#[test]
fn a_namespace_that_holds_too_many_comes_back_to_its_limit_before_it_takes_any() {
    let others = [("x", task(1)), ("y", task(2)), ("z", task(3))];
    let world = World::new()
        .service(service("ops/web", "http/app").also("api").ready([pod("one", "10.0.0.1")]))
        .cloud_map(
            "http/app",
            HTTP,
            [own("a", "ops/web", "10.0.0.2"), own("b", "shop/gone", "10.0.0.3")],
        )
        .cloud_map(
            "http/api",
            HTTP,
            [own("c", "ops/web", "10.0.0.2"), own("d", "shop/gone", "10.0.0.3")],
        )
        .cloud_map("http/other", HTTP, others);
    let limits = Limits { service: 2, namespace: 6 };
    let rules = Rules { limits, ..Rules::default() };
    let course = Course { rules, ..Course::undisturbed() };
    let mut simulation = Simulation::new(world, course);
    let mut told = || {
        let told = tell(&simulation.plan(&Selection::Everything).0);
        simulation.sync(&Selection::Everything);
        told
    };
    assert_snapshot!(told(), @r"
    ops/web: deregister http/api c: 10.0.0.2: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ops/web: deregister http/api d: 10.0.0.3: Service shop/gone is gone, or no longer annotated and headless; stays until Service ops/web has an instance under this name
    ops/web: deregister http/app a: 10.0.0.2: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ops/web: deregister http/app b: 10.0.0.3: Service shop/gone is gone, or no longer annotated and headless; stays until Service ops/web has an instance under this name
    ! ops/web http/api: 0 of 1 instances fit: the Cloud Map namespace takes 6 (NAMESPACE_INSTANCE_LIMIT), and others take up the rest (NamespaceFull)
    ! ops/web http/app: 0 of 1 instances fit: the Cloud Map namespace takes 6 (NAMESPACE_INSTANCE_LIMIT), and others take up the rest (NamespaceFull)
    ");
    assert_snapshot!(told(), @r"
    ops/web: register http/api: 10.0.0.1 (pod one)
    ops/web: deregister http/api c: 10.0.0.2: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ops/web: register http/app: 10.0.0.1 (pod one); waits until there is room for it
    ops/web: deregister http/app a: 10.0.0.2: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
    assert_eq!(told(), "");
}
