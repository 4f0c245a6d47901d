//! The instance that stands for each endpoint, its rewritten attributes, and the attributes that are not touched. And
//! the attributes from annotations, with the limit of Cloud Map for the attributes of an instance.

use insta::assert_snapshot;

use super::simulation::{Course, Simulation};
use super::world::{
    A, BOTH, HTTP, Kubernetes, SRV, World, foreign, of_other_cluster, ours, own, pod, service,
    web_of, with, written,
};
use crate::model::attributes::{
    ANNOTATED, AVAILABILITY_ZONE, INITIAL_HEALTH, IPV4, PORT, REGION, SCHEMA,
};
use crate::model::{Attributes, Foreign, Selection, ServiceKind, ServiceRef};
use crate::publish::plan::Change;

/// A Service with one pod, and an instance of ours as it is in Cloud Map.
fn registered(instance: Attributes) -> World {
    World::of(service("shop/web", "dns/web").ready([pod("one", "10.0.0.1")]))
        .dns("web", [("a", instance)])
}

/// As the first release registers the pod of `registered`.
fn right() -> Attributes {
    with(ours("shop/web", "10.0.0.1"), "cloud-map-sync/pod", "one")
}

#[test]
fn an_instance_keeps_the_id_that_it_has() {
    let plan = registered(right()).plan();
    assert!(plan.changes.is_empty());
    assert_eq!(plan.unchanged.values().map(|it| it.ours).sum::<usize>(), 1);
}

#[test]
fn what_we_set_is_repaired_and_what_others_added_is_no_difference() {
    let mut unmarked = right();
    unmarked.remove("cloud-map-sync/pod");
    let cases = [
        ("cloud-map-sync/pod", "two", "cloud-map-sync/pod two -> one"),
        ("cloud-map-sync/service", "api", "cloud-map-sync/service api -> web"),
        ("cloud-map-sync/namespace", "ops", "cloud-map-sync/namespace ops -> shop"),
        (AVAILABILITY_ZONE, "eu-central-1a", "AVAILABILITY_ZONE eu-central-1a -> nothing"),
        (REGION, "us-east-1", "REGION us-east-1 -> eu-central-1"),
        (PORT, "8080", "AWS_INSTANCE_PORT 8080 -> nothing"),
        ("AWS_ALIAS_DNS_NAME", "x", "AWS_ALIAS_DNS_NAME x -> nothing"),
        (INITIAL_HEALTH, "UNHEALTHY", ""),
        (SCHEMA, "7", ""),
        (SCHEMA, "0", ""),
        ("cloud-map-sync/later", "x", ""),
        ("color", "red", ""),
    ];
    for (key, value, expected) in cases {
        let planned = registered(with(right(), key, value)).planned();
        let planned = planned.strip_prefix("shop/web: rewrite dns/web a: ").unwrap_or(&planned);
        assert_eq!(planned, expected, "{key}={value}");
    }
    assert_snapshot!(registered(unmarked).planned(), @"shop/web: rewrite dns/web a: cloud-map-sync/pod nothing -> one");
}

#[test]
fn the_mark_of_a_pod_goes_where_no_pod_stands_behind_the_address() {
    let mut bare = pod("", "10.0.0.1");
    bare.pod = None;
    let world =
        World::of(service("shop/web", "dns/web").ready([bare])).dns("web", [("a", right())]);
    assert_snapshot!(world.planned(), @"shop/web: rewrite dns/web a: cloud-map-sync/pod one -> nothing");
}

#[test]
fn a_rewrite_carries_over_what_others_added() {
    let added = [
        ("color", "red"),
        (INITIAL_HEALTH, "UNHEALTHY"),
        (SCHEMA, "7"),
        ("cloud-map-sync/later", "x"),
    ];
    let present = added.into_iter().fold(right(), |it, (key, value)| with(it, key, value));
    let plan = registered(with(present.clone(), REGION, "us-east-1")).plan();
    let healthy = with(present, INITIAL_HEALTH, "HEALTHY");
    assert_eq!(written(&plan, "dns/web")["a"], healthy, "its health begins anew, and it is ready");
}

#[test]
fn the_port_tells_instances_apart_in_http_and_srv_services_only() {
    let world = |kind| {
        let web = service("shop/web", web_of(kind)).ports([("http", 80)]).port(["http"]);
        let registered = with(ours("shop/web", "10.0.0.1"), PORT, "8079");
        World::of(web.ready([pod("one", "10.0.0.1").target("http", 8080)])).cloud_map(
            web_of(kind),
            kind,
            [("a", registered)],
        )
    };
    assert_snapshot!(world(SRV).planned(), @r"
    shop/web: register dns/web: 10.0.0.1 port 8080 (pod one)
    shop/web: deregister dns/web a: 10.0.0.1 port 8079: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
    assert_snapshot!(world(HTTP).planned(), @r"
    shop/web: register http/web: 10.0.0.1 port 8080 (pod one)
    shop/web: deregister http/web a: 10.0.0.1 port 8079: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
    assert_snapshot!(world(A).planned(), @r"
    shop/web: rewrite dns/web a: AWS_INSTANCE_PORT 8079 -> 8080, cloud-map-sync/pod nothing -> one
    ! shop/web dns/web: A records carry no port: http is an attribute, which DiscoverInstances and API Gateway read and DNS queries do not (an SRV service would serve it) (PortNotServed)
    ");
}

#[test]
fn an_instance_that_gains_a_second_address_keeps_its_id() {
    let ready =
        |addresses| World::of(service("shop/web", "dns/web").ready([pod("one", addresses)]));
    let id = ready("10.0.0.1").cloud_map("dns/web", BOTH, []).id_given("dns/web", "10.0.0.1");
    let world = ready("10.0.0.1+fd00::1").cloud_map("dns/web", BOTH, [(&id, right())]);
    assert_snapshot!(world.planned(), @"shop/web: rewrite dns/web: AWS_INSTANCE_IPV6 nothing -> fd00::1");
    assert_eq!(written(&world.plan(), "dns/web").into_keys().collect::<Vec<_>>(), [id]);
}

#[test]
fn an_id_that_somebody_else_has_is_not_registered_over() {
    let empty = World::of(service("shop/web", "http/web").ready([pod("one", "10.0.0.1")]));
    let id = empty.id_given("http/web", "10.0.0.1");
    let others = [
        foreign("10.0.0.1"),
        foreign("10.0.0.9"),
        of_other_cluster("shop/web", "10.0.0.1"),
        with(right(), "cloud-map-sync/owner", "another"),
    ];
    for other in others {
        let plan = empty.clone().http("web", [(&id, other)]).plan();
        assert!(plan.changes.is_empty());
        assert_eq!(plan.held_back[0].reason.code(), "IdTaken");
    }
}

#[test]
fn an_id_that_stands_for_another_ready_endpoint_stays_and_the_endpoints_swap_ids() {
    let both = [pod("one", "10.0.0.1"), pod("two", "10.0.0.2")];
    let empty = World::of(service("shop/web", "http/web").ready(both));
    let id = empty.id_given("http/web", "10.0.0.1");
    let altered = with(with(right(), IPV4, "10.0.0.2"), "cloud-map-sync/pod", "two");
    let other = empty.id_given("http/web", "10.0.0.2");
    let swapped = empty.clone().http("web", [(&id, altered.clone())]);
    let swapped = written(&swapped.plan(), "http/web");
    assert_eq!(swapped.keys().collect::<Vec<_>>(), [&other]);
    assert_eq!(swapped[&other].get(IPV4), Some("10.0.0.1"));
    // Both stand for the second pod: the first one's id goes back to the first one.
    let second = written(&empty.plan(), "http/web")[&other].clone();
    let doubled = empty.clone().http("web", [(&id, altered.clone()), (&other, second)]);
    assert_snapshot!(doubled.planned().replace(&id, "ID"), @"shop/web: rewrite http/web: AWS_INSTANCE_IPV4 10.0.0.2 -> 10.0.0.1, cloud-map-sync/pod two -> one");
    // An id that is free in no other way is not registered over.
    let taken = empty.http("web", [(&id, altered), (&other, foreign("10.0.0.9"))]);
    assert_eq!(taken.plan().held_back[0].reason.code(), "IdTaken");
}

#[test]
fn an_equal_address_of_somebody_else_does_not_stop_ours() {
    let world = World::of(service("shop/web", "dns/web").ready([pod("one", "10.0.0.1")]))
        .dns("web", [("a", foreign("10.0.0.1"))]);
    assert_snapshot!(world.planned(), @"shop/web: register dns/web: 10.0.0.1 (pod one)");
}

#[test]
fn pods_that_share_the_address_of_their_host_are_one_instance() {
    let shared = |kind: ServiceKind, first, second| {
        let world = World::of(
            service("shop/web", "dns/web").ready([pod("one", first), pod("two", second)]),
        )
        .cloud_map("dns/web", kind, []);
        world.planned()
    };
    assert_snapshot!(shared(A, "10.0.0.1", "10.0.0.1"), @"shop/web: register dns/web: 10.0.0.1 (pod two)");
    assert_snapshot!(shared(BOTH, "10.0.0.1", "10.0.0.1+fd00::1"), @"shop/web: register dns/web: 10.0.0.1 and fd00::1 (pod two)");
    assert_snapshot!(shared(BOTH, "10.0.0.1+fd00::1", "10.0.0.1"), @"shop/web: register dns/web: 10.0.0.1 and fd00::1 (pod one)");
}

#[test]
fn what_belongs_to_others_is_counted_by_kind() {
    let world = World::of(service("shop/web", "http/web"))
        .http(
            "web",
            [
                ("a", of_other_cluster("shop/web", "10.0.0.1")),
                ("b", with(foreign("10.0.0.2"), "ECS_SERVICE_NAME", "web")),
                ("c", with(foreign("10.0.0.3"), "ECS_SERVICE_NAME", "web")),
                ("d", foreign("10.0.0.4")),
            ],
        )
        .http("unclaimed", [("e", foreign("10.0.0.5"))]);
    let unchanged = world.plan().unchanged;
    let foreign: Vec<_> = unchanged.values().flat_map(|it| it.foreign.clone()).collect();
    assert_eq!(foreign, [(Foreign::Ecs, 2), (Foreign::OtherCluster, 1), (Foreign::Unknown, 1)]);
}

#[test]
fn a_new_instance_carries_marks_address_zone_and_region() {
    let web = service("shop/web", "http/web").ports([("http", 80)]).port(["http"]);
    let one = pod("one", "10.0.0.1+fd00::1").target("http", 8080).zone("eu-central-1a");
    let plan = World::of(web.ready([one])).plan();
    let (id, attributes) = written(&plan, "http/web").pop_first().expect("one instance");
    let lines: Vec<String> =
        attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_snapshot!(format!("{id}\n{}", lines.join("\n")), @r"
    ip-10-0-0-1-8080-5131841101
    AVAILABILITY_ZONE=eu-central-1a
    AWS_INSTANCE_IPV4=10.0.0.1
    AWS_INSTANCE_IPV6=fd00::1
    AWS_INSTANCE_PORT=8080
    REGION=eu-central-1
    cloud-map-sync/cluster=arn:aws:eks:eu-central-1:111122223333:cluster/blue
    cloud-map-sync/namespace=shop
    cloud-map-sync/owner=cloud-map-sync
    cloud-map-sync/pod=one
    cloud-map-sync/schema=1
    cloud-map-sync/service=web
    ");
    assert_eq!(plan.changes.keys().collect::<Vec<_>>(), [&ServiceRef::new("shop", "web")]);
}

#[test]
fn addresses_edited_to_those_of_other_pods_are_put_right_in_one_sync() {
    let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.9"];
    let pods = [("one", addresses[0]), ("two", addresses[1]), ("three", addresses[2])];
    let pods = pods.map(|(name, address)| pod(name, address));
    let empty = World::of(service("shop/web", "http/web").ready(pods));
    let empty = empty.http("web", []);
    let ids = [0, 1, 2].map(|pod| empty.id_given("http/web", addresses[pod]));
    for world in 0..125_usize {
        let stated = [world % 5, world / 5 % 5, world / 25].map(|it| addresses.get(it));
        let all = ids.iter().zip(stated).filter_map(|(id, stated)| Some((id, stated?)));
        let all = all.map(|(id, stated)| (id.clone(), ours("shop/web", stated)));
        let edited = empty.clone().with("http/web", |it| it.instances = Some(all.collect()));
        let mut simulation = Simulation::new(edited, Course::undisturbed());
        simulation.sync(&Selection::Everything);
        assert_eq!(simulation.sync(&Selection::Everything), 0, "{stated:?}");
        let planned = simulation.world.planned();
        assert!(planned.is_empty(), "{stated:?}: {planned}");
    }
}

#[test]
fn of_two_instances_with_one_address_the_one_stays_whose_id_no_other_pod_has() {
    let web = |pods: &[&str]| {
        let pods: Vec<_> = pods.iter().map(|address| pod("one", address)).collect();
        World::of(service("shop/web", "http/web").ready(pods))
    };
    let id = |address| web(&[address]).http("web", []).id_given("http/web", address);
    let gone = |world: World| {
        let plan = world.plan();
        let removals =
            plan.changes.values().flatten().filter(|it| it.deregisters_instance_of().is_some());
        removals.filter_map(Change::instance).map(str::to_owned).collect::<Vec<_>>()
    };
    let first = id("10.0.0.1");
    let second = id("10.0.0.2");
    let both = web(&["10.0.0.1"]).http("web", [("a", right()), (&first, right())]);
    assert_eq!(gone(both), [first], "the first by id stays");
    let pods = ["10.0.0.1", "10.0.0.2"];
    let edited = web(&pods).http("web", [(&second, right()), ("z", right())]);
    assert!(gone(edited).is_empty(), "the second pod takes the one with its id");
}

/// `shop/web` with this number of attributes from annotations.
fn annotated(count: usize) -> Kubernetes {
    let mut web = service("shop/web", "http/web").ready([pod("one", "10.0.0.1")]);
    let attributes = (0..count).map(|index| (format!("key-{index:02}"), "x".to_owned()));
    web.annotated.claims.as_mut().expect("they are right").attributes = attributes.collect();
    web
}

#[test]
fn attributes_of_annotations_are_registered_and_listed_in_a_mark() {
    let plan = World::of(annotated(2)).http("web", []).plan();
    let (_, attributes) = written(&plan, "http/web").pop_first().expect("one instance");
    let found = ["key-00", "key-01", ANNOTATED].map(|key| attributes.get(key));
    assert_eq!(found, [Some("x"), Some("x"), Some("key-00,key-01")]);
}

#[test]
fn instance_with_more_attributes_than_cloud_map_takes_is_neither_registered_nor_rewritten() {
    let new = World::of(annotated(40)).http("web", []);
    assert_snapshot!(new.planned(), @"! shop/web http/web: instance ip-10-0-0-1-7f9c7a236b would have 48 attributes, and Cloud Map allows 30; one with 60 characters is for the guard's note; it is neither registered nor rewritten (AttributeLimit)");
    let present = new.clone().http("web", [("a", right())]);
    assert_snapshot!(present.planned(), @"! shop/web http/web: instance a would have 48 attributes, and Cloud Map allows 30; it is neither registered nor rewritten (AttributeLimit)");
}

#[test]
fn instance_that_keeps_old_attributes_lets_its_service_leave_its_former_name() {
    let renamed = World::of(annotated(40)).http("web", [("a", right())]);
    let renamed = renamed.http("old", [own("b", "shop/web", "10.0.0.1")]);
    assert_snapshot!(renamed.planned(), @r"
    shop/web: deregister http/old b: 10.0.0.1: Service shop/web asks for another name now
    ! shop/web http/web: instance a would have 48 attributes, and Cloud Map allows 30; it is neither registered nor rewritten (AttributeLimit)
    ");
}

#[test]
fn instance_that_keeps_the_marks_of_a_service_that_is_gone_stands_for_the_next_holder() {
    let gone = [own("a", "shop/gone", "10.0.0.1"), own("b", "shop/gone", "10.0.0.2")];
    let world = World::of(annotated(40)).http("web", gone);
    assert_snapshot!(world.planned(), @r"
    shop/web: deregister http/web b: 10.0.0.2: Service shop/gone is gone, or no longer annotated and headless
    ! shop/web http/web: instance a would have 48 attributes, and Cloud Map allows 30; it is neither registered nor rewritten (AttributeLimit)
    ");
}
