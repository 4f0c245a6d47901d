//! The instances that a Service leaves under a name that it no longer claims, or of which the claim is unknown.

use insta::assert_snapshot;

use super::world::{AAAA, Kubernetes, World, ours, own, pod, service, with};
use crate::model::attributes::PORT;

#[test]
fn the_old_name_of_a_renamed_service_goes_when_the_new_one_is_whole() {
    let renamed = |registered: &'static str| {
        World::of(
            service("shop/web", "dns/new").ready([pod("one", "10.0.0.1"), pod("two", "10.0.0.2")]),
        )
        .dns("old", [own("a", "shop/web", "10.0.0.1"), own("b", "shop/web", "10.0.0.2")])
        .dns("new", [own("c", "shop/web", "10.0.0.1"), own("d", "shop/web", registered)])
    };
    assert_snapshot!(renamed("10.0.0.9").planned(), @r"
    shop/web: rewrite dns/new c: cloud-map-sync/pod nothing -> one
    shop/web: register dns/new: 10.0.0.2 (pod two)
    shop/web: deregister dns/new d: 10.0.0.9: no ready endpoint has this address and port
    shop/web: deregister dns/old a: 10.0.0.1: Service shop/web asks for another name now; stays until every endpoint is registered under the new name of Service shop/web
    shop/web: deregister dns/old b: 10.0.0.2: Service shop/web asks for another name now; stays until every endpoint is registered under the new name of Service shop/web
    ");
    assert_snapshot!(renamed("10.0.0.2").planned(), @r"
    shop/web: rewrite dns/new c: cloud-map-sync/pod nothing -> one
    shop/web: rewrite dns/new d: cloud-map-sync/pod nothing -> two
    shop/web: deregister dns/old a: 10.0.0.1: Service shop/web asks for another name now
    shop/web: deregister dns/old b: 10.0.0.2: Service shop/web asks for another name now
    ");
}

#[test]
fn the_old_name_stays_while_another_service_holds_the_new_one() {
    let world =
        World::of(service("shop/web", "dns/new").created(2).ready([pod("one", "10.0.0.1")]))
            .service(service("shop/other", "dns/new").created(1))
            .dns("old", [own("a", "shop/web", "10.0.0.1")]);
    assert_snapshot!(world.planned(), @r"
    shop/web: deregister dns/old a: 10.0.0.1: Service shop/web asks for another name now; stays until Service shop/other gives up dns/new, the new name of Service shop/web
    ! shop/web dns/new: Service shop/other of this cluster holds the name; this one takes over when that ends (DomainConflict)
    ");
}

#[test]
fn the_old_name_of_a_withdrawn_service_waits_for_no_new_one() {
    let web = service("shop/web", "dns/new").created(2).ready([pod("one", "10.0.0.1")]);
    let world = World::of(web.levers(false, None))
        .service(service("shop/other", "dns/new").created(1))
        .dns("old", [own("a", "shop/web", "10.0.0.1")]);
    assert_snapshot!(world.planned(), @r"
    shop/web: deregister dns/old a: 10.0.0.1: Service shop/web asks for another name now
    ! shop/web dns/new: Service shop/other of this cluster holds the name; this one takes over when that ends (DomainConflict)
    ");
}

#[test]
fn the_old_name_stays_while_an_endpoint_cannot_be_registered_under_the_new_one() {
    let web = service("shop/web", "dns/new").ready([pod("one", "fd00::1")]);
    let world =
        World::of(web).dns("new", []).cloud_map("dns/old", AAAA, [own("a", "shop/web", "fd00::1")]);
    assert_snapshot!(world.planned(), @r"
    shop/web: deregister dns/old a: fd00::1: Service shop/web asks for another name now; stays until the problem under dns/new, the new name of Service shop/web, is solved
    ! shop/web dns/new: A records cannot contain the endpoint's addresses fd00::1 (RecordTypeMismatch)
    ");
}

#[test]
fn the_old_name_stays_while_an_instance_under_the_new_one_is_yet_to_be_corrected() {
    let world = World::of(service("shop/web", "dns/new").ready([pod("one", "10.0.0.1")]));
    let id = world.id_given("dns/new", "10.0.0.1");
    let world = world
        .dns("new", [own(&id, "shop/web", "10.0.0.9")])
        .dns("old", [own("a", "shop/web", "10.0.0.1")]);
    assert_snapshot!(world.planned(), @r"
    shop/web: rewrite dns/new: AWS_INSTANCE_IPV4 10.0.0.9 -> 10.0.0.1, cloud-map-sync/pod nothing -> one
    shop/web: deregister dns/old a: 10.0.0.1: Service shop/web asks for another name now; stays until every endpoint is registered under the new name of Service shop/web
    ");
}

#[test]
fn an_address_that_is_never_published_does_not_keep_the_old_name() {
    let web = service("shop/web", "dns/new").ready([pod("one", "127.0.0.1")]);
    let world = World::of(web).dns("old", [own("a", "shop/web", "10.0.0.1")]);
    assert_snapshot!(world.planned(), @r"
    shop/web: deregister dns/old a: 10.0.0.1: Service shop/web asks for another name now
    ! shop/web dns/new: address 127.0.0.1 is not published: it is loopback, link-local, multicast, unspecified or IPv4-mapped (NotPublishable)
    ");
}

#[test]
fn a_remark_on_the_port_does_not_keep_the_old_name() {
    let world = World::of(
        service("shop/web", "dns/new")
            .ports([("http", 80)])
            .port(["http"])
            .ready([pod("one", "10.0.0.1").target("http", 8080)]),
    )
    .dns("new", [("a", with(ours("shop/web", "10.0.0.1"), PORT, "8080"))])
    .dns("old", [own("b", "shop/web", "10.0.0.1")]);
    assert_snapshot!(world.planned(), @r"
    shop/web: rewrite dns/new a: cloud-map-sync/pod nothing -> one
    shop/web: deregister dns/old b: 10.0.0.1: Service shop/web asks for another name now
    ! shop/web dns/new: A records carry no port: http is an attribute, which DiscoverInstances and API Gateway read and DNS queries do not (an SRV service would serve it) (PortNotServed)
    ");
}

#[test]
fn nothing_of_a_service_with_a_mistaken_annotation_goes() {
    let world = World::of(service("shop/web", "dns/web").mistaken())
        .service(service("shop/next", "dns/api").ready([pod("two", "10.0.0.2")]))
        .dns("web", [own("a", "shop/web", "10.0.0.1")])
        .dns("api", [own("b", "shop/web", "10.0.0.1"), own("c", "shop/next", "10.0.0.2")]);
    assert_snapshot!(world.planned(), @r#"
    shop/next: rewrite dns/api c: cloud-map-sync/pod nothing -> two
    ! shop/web: annotation cloudmap.controller/ttl is "soon": it must be whole seconds; registered instances stay (BadAnnotation)
    "#);
}

#[test]
fn nothing_of_a_service_goes_while_its_namespace_is_not_to_be_found() {
    let world = World::of(service("shop/web", "missing/web"))
        .dns("web", [own("a", "shop/web", "10.0.0.1")]);
    assert_snapshot!(world.planned(), @r#"! shop/web: no Cloud Map namespace "missing" is visible here; visible: dns, http; registered instances stay (NamespaceMissing)"#);
}

#[test]
fn a_service_that_could_not_be_read_loses_nothing() {
    let world = World::of(service("shop/web", "dns/new").ready([pod("one", "10.0.0.1")]))
        .dns("old", [own("a", "shop/web", "10.0.0.1")])
        .dns("new", [])
        .with("dns/new", |new| {
            new.instances = None;
            new.unreadable = Some("throttled".into());
        });
    assert_snapshot!(world.planned(), @r"
    shop/web: deregister dns/old a: 10.0.0.1: Service shop/web asks for another name now; stays until every endpoint is registered under the new name of Service shop/web
    ! shop/web dns/new: the instances of this Cloud Map service could not be read: throttled (Unreadable)
    ");
}

#[test]
fn what_a_list_that_is_cut_short_does_not_name_stays() {
    let world = |changed: fn(Kubernetes) -> Kubernetes| {
        let web = service("shop/web", "dns/web").ready([pod("new", "10.0.0.3")]);
        let instances = [own("a", "shop/web", "10.0.0.1"), own("b", "shop/web", "10.0.0.2")];
        let world = World::of(changed(web)).dns("web", instances);
        world.dns("old", [own("c", "shop/web", "10.0.0.1")]).planned()
    };
    assert_snapshot!(world(Kubernetes::truncated), @r"
    shop/web: deregister dns/old c: 10.0.0.1: Service shop/web asks for another name now; stays until the problem under dns/web, the new name of Service shop/web, is solved
    shop/web: register dns/web: 10.0.0.3 (pod new)
    ! shop/web dns/web: the cluster lists only a part of the endpoints (endpoints.kubernetes.io/over-capacity: truncated): those are registered, and none is deregistered (EndpointsTruncated)
    ");
    assert_snapshot!(world(|web| web.truncated().levers(false, None)), @r"
    shop/web: deregister dns/old c: 10.0.0.1: Service shop/web asks for another name now
    shop/web: deregister dns/web a: 10.0.0.1: publish of the Service is false
    shop/web: deregister dns/web b: 10.0.0.2: publish of the Service is false
    ");
}

#[test]
fn the_holder_takes_over_from_another_though_its_list_is_cut_short() {
    let web = service("shop/web", "dns/web").ready([pod("one", "10.0.0.1")]).truncated();
    let world = World::of(web)
        .dns("web", [own("a", "shop/web", "10.0.0.1"), own("b", "shop/gone", "10.0.0.2")]);
    assert_snapshot!(world.planned(), @r"
    shop/web: rewrite dns/web a: cloud-map-sync/pod nothing -> one
    shop/web: deregister dns/web b: 10.0.0.2: Service shop/gone is gone, or no longer annotated and headless
    ! shop/web dns/web: the cluster lists only a part of the endpoints (endpoints.kubernetes.io/over-capacity: truncated): those are registered, and none is deregistered (EndpointsTruncated)
    ");
}
