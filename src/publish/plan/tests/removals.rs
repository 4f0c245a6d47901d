//! The removals, their turns, and their conditions.

use insta::assert_snapshot;

use super::world::{Kubernetes, World, foreign, lines_of, own, pod, service};

#[test]
fn an_endpoint_that_is_gone_goes_at_once_where_another_is_found() {
    let world = World::of(service("shop/web", "dns/web").ready([pod("one", "10.0.0.1")]))
        .dns("web", [own("a", "shop/web", "10.0.0.1"), own("b", "shop/web", "10.0.0.2")]);
    assert_snapshot!(world.planned(), @r"
    shop/web: rewrite dns/web a: cloud-map-sync/pod nothing -> one
    shop/web: deregister dns/web b: 10.0.0.2: no ready endpoint has this address and port
    ");
}

#[test]
fn the_last_instance_waits_until_a_ready_endpoint_is_registered() {
    let world = World::of(service("shop/web", "dns/web").ready([pod("three", "10.0.0.3")]))
        .dns("web", [own("a", "shop/web", "10.0.0.1"), own("b", "shop/web", "10.0.0.2")]);
    assert_snapshot!(world.planned(), @r"
    shop/web: register dns/web: 10.0.0.3 (pod three)
    shop/web: deregister dns/web a: 10.0.0.1: no ready endpoint has this address and port
    shop/web: deregister dns/web b: 10.0.0.2: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
}

#[test]
fn the_last_instance_waits_where_no_ready_endpoint_can_be_registered() {
    let id = World::of(service("shop/web", "dns/web").ready([pod("three", "10.0.0.3")]))
        .id_given("dns/web", "10.0.0.3");
    let world = World::of(service("shop/web", "dns/web").ready([pod("three", "10.0.0.3")]))
        .dns("web", [own("a", "shop/web", "10.0.0.1"), (&id, foreign("10.0.0.3"))]);
    assert_snapshot!(world.planned(), @r"
    shop/web: deregister dns/web a: 10.0.0.1: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ! shop/web dns/web: instance ip-10-0-0-3-9ef7fb3628 exists and belongs to another endpoint; it is not overwritten (IdTaken)
    ");
}

#[test]
fn an_instance_whose_address_is_yet_to_be_corrected_serves_no_client() {
    let web = service("shop/web", "dns/web").ready([pod("one", "10.0.0.1")]);
    let world = World::of(web);
    let id = world.id_given("dns/web", "10.0.0.1");
    let instances = [own(&id, "shop/web", "10.0.0.9"), own("z", "shop/web", "10.0.0.2")];
    assert_snapshot!(world.dns("web", instances).planned(), @r"
    shop/web: rewrite dns/web: AWS_INSTANCE_IPV4 10.0.0.9 -> 10.0.0.1, cloud-map-sync/pod nothing -> one
    shop/web: deregister dns/web z: 10.0.0.2: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
}

#[test]
fn an_instance_that_is_yet_to_be_taken_over_does_not_show_who_holds_the_name() {
    let world = |ready: Kubernetes| {
        World::of(ready.created(1))
            .service(service("shop/young", "http/web").created(2))
            .http("web", [own("a", "shop/young", "10.0.0.1"), own("b", "shop/old", "10.0.0.2")])
            .planned()
    };
    let old = || service("shop/old", "http/web").ready([pod("one", "10.0.0.1")]);
    assert_snapshot!(world(old()), @r"
    shop/old: rewrite http/web a: cloud-map-sync/pod nothing -> one, cloud-map-sync/service young -> old
    shop/old: deregister http/web b: 10.0.0.2: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ! shop/young http/web: Service shop/old of this cluster holds the name; this one takes over when that ends (DomainConflict)
    ");
    assert_snapshot!(world(old().port(["typo"])), @r"
    shop/old: deregister http/web b: 10.0.0.2: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ! shop/old http/web: port typo is not a port of the Service, or its endpoints do not have it; the Service has: none (NoSuchPort)
    ! shop/young http/web: Service shop/old of this cluster holds the name; this one takes over when that ends (DomainConflict)
    ");
}

#[test]
fn the_last_instance_goes_where_nothing_is_ready() {
    let world =
        World::of(service("shop/web", "dns/web")).dns("web", [own("a", "shop/web", "10.0.0.1")]);
    assert_snapshot!(world.planned(), @"shop/web: deregister dns/web a: 10.0.0.1: no ready endpoint has this address and port");
}

#[test]
fn an_address_that_is_never_published_keeps_nothing_waiting() {
    let world = World::of(service("shop/web", "dns/web").ready([pod("one", "127.0.0.1")]))
        .dns("web", [own("a", "shop/web", "10.0.0.1")]);
    assert_snapshot!(world.planned(), @r"
    shop/web: deregister dns/web a: 10.0.0.1: no ready endpoint has this address and port
    ! shop/web dns/web: address 127.0.0.1 is not published: it is loopback, link-local, multicast, unspecified or IPv4-mapped (NotPublishable)
    ");
}

#[test]
fn of_two_instances_that_say_the_same_the_first_stays() {
    let world = World::of(service("shop/web", "dns/web").ready([pod("one", "10.0.0.1")]))
        .dns("web", [own("a", "shop/web", "10.0.0.1"), own("b", "shop/web", "10.0.0.1")]);
    assert_snapshot!(world.planned(), @r"
    shop/web: rewrite dns/web a: cloud-map-sync/pod nothing -> one
    shop/web: deregister dns/web b: 10.0.0.1: another instance of ours has the same address and port
    ");
}

#[test]
fn what_a_deleted_service_left_goes_at_once() {
    let world =
        World::new().dns("web", [own("a", "shop/web", "10.0.0.1"), ("b", foreign("10.0.0.9"))]);
    assert_snapshot!(world.planned(), @"shop/web: deregister dns/web a: 10.0.0.1: Service shop/web is gone, or no longer annotated and headless");
}

#[test]
fn what_a_deleted_service_left_waits_for_the_next_holder_that_has_ready_endpoints() {
    let world = World::of(service("shop/next", "dns/web").ready([pod("two", "10.0.0.2")]))
        .dns("web", [own("a", "shop/web", "10.0.0.1")]);
    assert_snapshot!(world.planned(), @r"
    shop/next: register dns/web: 10.0.0.2 (pod two)
    shop/next: deregister dns/web a: 10.0.0.1: Service shop/web is gone, or no longer annotated and headless; stays until Service shop/next has an instance under this name
    ");
}

#[test]
fn what_a_deleted_service_left_goes_where_the_next_holder_has_nothing_ready() {
    let world =
        World::of(service("shop/next", "dns/web")).dns("web", [own("a", "shop/web", "10.0.0.1")]);
    assert_snapshot!(world.planned(), @"shop/next: deregister dns/web a: 10.0.0.1: Service shop/web is gone, or no longer annotated and headless");
}

#[test]
fn the_loser_of_a_name_keeps_its_instances_until_the_holder_has_one() {
    let contested = World::of(service("shop/old", "dns/web").created(1))
        .service(service("shop/young", "dns/web").created(2).ready([pod("two", "10.0.0.2")]));
    let both = [own("a", "shop/old", "10.0.0.1"), own("b", "shop/young", "10.0.0.2")];
    assert_snapshot!(contested.dns("web", both).planned(), @r"
    shop/old: deregister dns/web a: 10.0.0.1: no ready endpoint has this address and port
    shop/old: deregister dns/web b: 10.0.0.2: Service shop/old holds the name now; stays until Service shop/old has an instance under this name
    ! shop/young dns/web: Service shop/old of this cluster holds the name; this one takes over when that ends (DomainConflict)
    ");
}

#[test]
fn the_loser_of_a_name_goes_where_the_holder_is_found() {
    let world =
        World::of(service("shop/old", "dns/web").created(1).ready([pod("one", "10.0.0.1")]))
            .service(service("shop/young", "dns/web").created(2).ready([pod("two", "10.0.0.2")]))
            .dns("web", [own("a", "shop/old", "10.0.0.1"), own("b", "shop/young", "10.0.0.2")]);
    assert_snapshot!(world.planned(), @r"
    shop/old: rewrite dns/web a: cloud-map-sync/pod nothing -> one
    shop/old: deregister dns/web b: 10.0.0.2: Service shop/old holds the name now
    ! shop/young dns/web: Service shop/old of this cluster holds the name; this one takes over when that ends (DomainConflict)
    ");
}

#[test]
fn an_instance_of_the_loser_that_the_holder_can_use_is_taken_over_in_place() {
    let world = World::of(service("shop/web", "dns/web").ready([pod("one", "10.0.0.1")]))
        .dns("web", [own("a", "shop/former", "10.0.0.1")]);
    assert_snapshot!(world.planned(), @"shop/web: rewrite dns/web a: cloud-map-sync/pod nothing -> one, cloud-map-sync/service former -> web");
}

#[test]
fn a_sync_of_one_service_removes_what_that_service_left_and_no_more() {
    let world = World::of(service("shop/web", "http/web").ready([pod("one", "10.0.0.1")]))
        .http(
            "web",
            [
                own("a", "shop/web", "10.0.0.1"),
                own("b", "shop/web", "10.0.0.2"),
                own("c", "shop/gone", "10.0.0.3"),
            ],
        )
        .http("api", [own("d", "shop/gone", "10.0.0.3")]);
    assert_snapshot!(lines_of(&world.plan_of("shop/web")), @r"
    shop/web: rewrite http/web a: cloud-map-sync/pod nothing -> one
    shop/web: deregister http/web b: 10.0.0.2: no ready endpoint has this address and port
    ");
    assert_snapshot!(lines_of(&world.plan_of("shop/gone")), @r"
    shop/gone: deregister http/api d: 10.0.0.3: Service shop/gone is gone, or no longer annotated and headless
    shop/web: rewrite http/web a: cloud-map-sync/pod nothing -> one
    shop/web: deregister http/web b: 10.0.0.2: no ready endpoint has this address and port
    shop/web: deregister http/web c: 10.0.0.3: Service shop/gone is gone, or no longer annotated and headless
    ");
    assert_snapshot!(lines_of(&world.plan_of("shop/unknown")), @"");
}
