//! Services that share a name.

use insta::assert_snapshot;

use super::world::{HTTP, Kubernetes, SRV, World, key, own, pod, service};
use crate::model::{Attributes, Endpoint};
use crate::publish::plan::Holders;

/// A ready endpoint without a pod.
fn bare(address: &str) -> Endpoint {
    Endpoint { pod: None, ..pod("", address) }
}

/// `shop/old` with these endpoints; `shop/young` is created later.
pub fn old(addresses: &[&str]) -> Kubernetes {
    sharing("shop/old", addresses).created(1)
}

pub fn young(addresses: &[&str]) -> Kubernetes {
    sharing("shop/young", addresses).created(2)
}

fn sharing(name: &str, addresses: &[&str]) -> Kubernetes {
    let pods = addresses.iter().map(|address| bare(address));
    service(name, "dns/web").shared().ready(pods.collect::<Vec<_>>())
}

/// Both Services, and these instances under their name.
pub fn world<const N: usize>(
    services: [Kubernetes; 2],
    instances: [(&str, Attributes); N],
) -> World {
    services.into_iter().fold(World::new(), World::service).dns("web", instances)
}

fn holders(world: &World) -> Vec<String> {
    let holders = Holders::decide(&world.0);
    holders.holders(&key("dns/web")).iter().map(ToString::to_string).collect()
}

#[test]
fn the_endpoints_of_all_who_share_a_name_are_registered_under_it() {
    let both = [young(&["10.0.0.2"]), old(&["10.0.0.1"])];
    assert_snapshot!(world(both.clone(), []).planned(), @r"
    shop/old: register dns/web: 10.0.0.1
    shop/young: register dns/web: 10.0.0.2
    ");
    let settled = [own("a", "shop/old", "10.0.0.1"), own("b", "shop/young", "10.0.0.2")];
    assert_eq!(world(both, settled).planned(), "");
}

#[test]
fn a_name_that_one_of_its_claimants_does_not_share_is_held_by_one_and_the_others_hear_why() {
    let mixed = |old: Kubernetes, young: Kubernetes| {
        let alone = service("ops/web", "dns/web").created(3);
        let world = world([old, young], [own("a", "shop/old", "10.0.0.1")]);
        (holders(&world), world.service(alone).planned())
    };
    let (_, planned) = mixed(old(&[]), young(&["10.0.0.2"]));
    assert_snapshot!(planned, @r"
    shop/old: deregister dns/web a: 10.0.0.1: no ready endpoint has this address and port
    ! ops/web dns/web: Service shop/old of this cluster holds the name; this one takes over when that ends; it would be shared if every Service that claims it had claim: shared; without it: ops/web (DomainConflict)
    ! shop/young dns/web: Service shop/old of this cluster holds the name; this one takes over when that ends; it would be shared if every Service that claims it had claim: shared; without it: ops/web (DomainConflict)
    ");
    let alone = |name| service(name, "dns/web");
    let (holders, planned) = mixed(alone("shop/old").created(1), young(&[]));
    assert_eq!(holders, ["shop/old"]);
    assert!(planned.contains("without it: ops/web, shop/old (DomainConflict)"), "{planned}");
    let (_, planned) = mixed(alone("shop/old").created(1), alone("shop/young").created(2));
    assert!(!planned.contains("shared"), "{planned}");
}

#[test]
fn a_pod_that_serves_for_one_of_them_is_healthy() {
    let at = |serving: bool| Endpoint { serving, ready: false, ..bare("10.0.0.1") };
    let planned = |of_old: bool, of_young: bool| {
        let old = old(&[]).custom_health().ready([at(of_old)]);
        let young = young(&[]).custom_health().ready([at(of_young)]);
        let world = world([young, old], []);
        world.with("dns/web", |service| service.custom_health = true).planned()
    };
    assert_snapshot!(planned(false, true), @"shop/old: register dns/web: 10.0.0.1, HEALTHY");
    assert_snapshot!(planned(false, false), @"shop/old: register dns/web: 10.0.0.1, UNHEALTHY");
}

#[test]
fn what_two_of_them_ask_for_is_one_instance_of_the_one_in_its_marks_else_of_the_older() {
    let both = [young(&["10.0.0.1", "10.0.0.2"]), old(&["10.0.0.1"])];
    assert_snapshot!(world(both.clone(), []).planned(), @r"
    shop/old: register dns/web: 10.0.0.1
    shop/young: register dns/web: 10.0.0.2
    ");
    let other = own("b", "shop/young", "10.0.0.2");
    for marked in ["shop/old", "shop/young"] {
        let present = [own("a", marked, "10.0.0.1"), other.clone()];
        assert_eq!(world(both.clone(), present).planned(), "", "{marked}");
    }
    let former = [own("a", "shop/former", "10.0.0.1"), other];
    assert_snapshot!(world(both, former).planned(), @"shop/old: rewrite dns/web a: cloud-map-sync/service former -> old");
}

#[test]
fn a_pod_that_leaves_one_of_them_and_stays_in_the_other_is_rewritten_in_place() {
    let present = || [own("a", "shop/old", "10.0.0.1"), own("b", "shop/young", "10.0.0.2")];
    let stays = world([old(&["10.0.0.3"]), young(&["10.0.0.1", "10.0.0.2"])], present());
    assert_snapshot!(stays.planned(), @r"
    shop/old: register dns/web: 10.0.0.3
    shop/young: rewrite dns/web a: cloud-map-sync/service old -> young
    ");
    let leaves = world([old(&["10.0.0.3"]), young(&["10.0.0.2"])], present());
    assert_snapshot!(leaves.planned(), @r"
    shop/old: register dns/web: 10.0.0.3
    shop/old: deregister dns/web a: 10.0.0.1: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
}

#[test]
fn levers_count_for_each_of_them_alone() {
    let present = || {
        [
            own("a", "shop/old", "10.0.0.1"),
            own("b", "shop/young", "10.0.0.2"),
            own("c", "shop/young", "10.0.0.3"),
        ]
    };
    let pods = ["10.0.0.2", "10.0.0.3"];
    let planned = |old, young| world([old, young], present()).planned();
    assert_snapshot!(planned(old(&["10.0.0.1"]).levers(false, None), young(&pods)), @"shop/old: deregister dns/web a: 10.0.0.1: publish of the Service is false");
    assert_snapshot!(planned(old(&["10.0.0.1"]), young(&pods).levers(true, Some(1))), @r"
    shop/young: deregister dns/web c: 10.0.0.3: it exceeds max-instances of the Service
    ! shop/young dns/web: 1 of 2 instances are registered, the limit of max-instances of the Service (MaxInstances)
    ");
    assert_snapshot!(planned(old(&[]).keeps(false, true), young(&["10.0.0.2"])), @r"
    shop/young: deregister dns/web c: 10.0.0.3: no ready endpoint has this address and port
    ! shop/old dns/web: no endpoint is ready; 1 instance stays here because of when-none-ready (NoneReady)
    ");
}

#[test]
fn a_maximum_prefers_what_is_marked_for_its_service() {
    let pods = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"];
    for mine in pods {
        let marked = |address: &str| if address == mine { "shop/old" } else { "shop/young" };
        let present =
            ["a", "b", "c", "d"].into_iter().zip(pods).map(|(id, it)| own(id, marked(it), it));
        let present: [_; 4] = present.collect::<Vec<_>>().try_into().expect("four");
        let world = world([old(&pods).levers(true, Some(1)), young(&pods)], present);
        assert!(world.plan().changes.is_empty(), "{}", world.planned());
    }
}

#[test]
fn one_that_leaves_takes_its_instances_along_and_no_others() {
    let present = || [own("a", "shop/old", "10.0.0.1"), own("b", "shop/young", "10.0.0.2")];
    let old = || old(&["10.0.0.1"]);
    let gone = World::of(old()).dns("web", present());
    assert_snapshot!(gone.planned(), @"shop/old: deregister dns/web b: 10.0.0.2: Service shop/young is gone, or no longer annotated and headless");
    let renamed = service("shop/young", "dns/api").shared().ready([bare("10.0.0.2")]);
    assert_snapshot!(world([old(), renamed], present()).planned(), @r"
    shop/old: deregister dns/web b: 10.0.0.2: Service shop/young asks for another name now; stays until every endpoint is registered under the new name of Service shop/young
    shop/young: create dns/api: a DNS service of A records, TTL 60 s
    shop/young: register dns/api: 10.0.0.2
    ");
}

#[test]
fn a_name_is_shared_from_when_all_say_so_until_one_says_otherwise() {
    let (one, two) = (["10.0.0.1"], ["10.0.0.2"]);
    let exclusive = |service: Kubernetes| service.exclusive();
    let only_old = || [own("a", "shop/old", "10.0.0.1")];
    let before = world([exclusive(old(&one)), exclusive(young(&two))], only_old());
    let one_says_so = world([exclusive(old(&one)), young(&two)], only_old());
    assert_eq!((holders(&before), holders(&one_says_so)).0, ["shop/old"]);
    assert_eq!(holders(&one_says_so), ["shop/old"]);
    let all_say_so = world([old(&one), young(&two)], only_old());
    assert_eq!(all_say_so.planned(), "shop/young: register dns/web: 10.0.0.2");
    let both = || [own("a", "shop/old", "10.0.0.1"), own("b", "shop/young", "10.0.0.2")];
    let after = world([exclusive(old(&one)), young(&two)], both());
    assert_snapshot!(after.planned(), @r"
    shop/old: deregister dns/web b: 10.0.0.2: Service shop/old holds the name now
    ! shop/young dns/web: Service shop/old of this cluster holds the name; this one takes over when that ends; it would be shared if every Service that claims it had claim: shared; without it: shop/old (DomainConflict)
    ");
}

#[test]
fn the_oldest_with_something_to_register_creates_the_service_as_the_oldest_asks() {
    let of = |old: Kubernetes, young: Kubernetes| {
        World::of(old.ttl(15)).service(young.ttl(90)).planned()
    };
    assert_snapshot!(of(old(&["10.0.0.1"]), young(&["10.0.0.2"])), @r"
    shop/old: create dns/web: a DNS service of A records, TTL 15 s
    shop/old: register dns/web: 10.0.0.1
    shop/young: register dns/web: 10.0.0.2
    ! shop/young dns/web: Service shop/old shares the name, is older, and so decides: a DNS service of A records, TTL 15 s; this one asks for a DNS service of A records, TTL 90 s (SharedName)
    ");
    assert_snapshot!(of(old(&[]), young(&["10.0.0.2"])), @r"
    shop/young: create dns/web: a DNS service of A records, TTL 15 s
    shop/young: register dns/web: 10.0.0.2
    ! shop/young dns/web: Service shop/old shares the name, is older, and so decides: a DNS service of A records, TTL 15 s; this one asks for a DNS service of A records, TTL 90 s (SharedName)
    ");
}

#[test]
fn what_those_who_share_a_name_need_and_does_not_fit_together_is_reported() {
    let target = || bare("10.0.0.2").target("http", 8080);
    let with_port =
        |service: Kubernetes| service.ports([("http", 80)]).port(["http"]).ready([target()]);
    let planned = |old, young| World::of(old).service(young).planned();
    assert_snapshot!(planned(old(&["10.0.0.1"]), with_port(young(&[]))), @r"
    shop/old: create dns/web: a DNS service of A records, TTL 60 s
    shop/old: register dns/web: 10.0.0.1
    shop/young: register dns/web: 10.0.0.2 port 8080
    ! shop/young dns/web: Service shop/old shares the name, is older, and so decides: a DNS service of A records, TTL 60 s; this one asks for a DNS service of SRV records, TTL 60 s (SharedName)
    ! shop/young dns/web: A records carry no port: http is an attribute, which DiscoverInstances and API Gateway read and DNS queries do not (an SRV service would serve it) (PortNotServed)
    ");
    let bare = young(&["10.0.0.1"]).ports([("http", 80), ("grpc", 90)]);
    assert_snapshot!(planned(with_port(old(&[])), bare), @r"
    shop/old: create dns/web: a DNS service of SRV records, TTL 60 s
    shop/old: register dns/web: 10.0.0.2 port 8080
    ! shop/young dns/web: Service shop/old shares the name, is older, and so decides: a DNS service of SRV records, TTL 60 s; this one asks for a DNS service of A records, TTL 60 s (SharedName)
    ! shop/young dns/web: SRV records need a port: the Service has 2 ports, so name one with the port annotation (PortNeeded)
    ");
}

#[test]
fn the_oldest_decides_on_the_ttl_of_an_existing_service() {
    let both = |old: Option<u32>, young: Option<u32>| {
        let ttl = |service: Kubernetes, ttl: Option<u32>| match ttl {
            Some(ttl) => service.ttl(ttl),
            None => service,
        };
        world([ttl(self::old(&[]), old), ttl(self::young(&[]), young)], []).planned()
    };
    assert_snapshot!(both(Some(15), Some(90)).lines().last().unwrap_or_default(), @"! shop/young dns/web: Service shop/old shares the name, is older, and so decides: a TTL of 15 s; this one asks for a TTL of 90 s (SharedName)");
    assert_snapshot!(both(None, Some(90)), @"! shop/young dns/web: Service shop/old shares the name, is older, and so decides: the TTL that the service has; this one asks for a TTL of 90 s (SharedName)");
    assert_eq!(both(None, None), "");
    let api = world([old(&[]), young(&[]).ttl(90)], []).with("dns/web", |it| it.kind = HTTP);
    assert!(!api.planned().contains("SharedName"), "{}", api.planned());
}

/// The holders of a name are checked for the instances left by a Service that no longer shares it. An endpoint that
/// waits for the instance of another Service makes room for the other endpoints of that Service.
#[test]
fn one_with_a_mistaken_annotation_stops_no_other_and_keeps_what_it_has() {
    let present = || [own("a", "shop/old", "10.0.0.1"), own("b", "shop/young", "10.0.0.2")];
    let both = [old(&["10.0.0.1"]).mistaken(), young(&["10.0.0.2", "10.0.0.3"])];
    let planned = |world: World| {
        let planned = world.planned();
        let planned = planned.lines().filter(|line| !line.starts_with("! shop/old"));
        planned.collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(planned(world(both.clone(), present())), @"shop/young: register dns/web: 10.0.0.3");
    let [alone, _] = present();
    assert_snapshot!(planned(world(both, [alone])), @"! shop/young dns/web: Service shop/old of this cluster holds the name; this one takes over when that ends (DomainConflict)");
}

#[test]
fn a_new_name_that_is_shared_is_whole_when_what_others_register_is_found_there() {
    let left = || own("a", "shop/young", "10.0.0.1");
    let pods = ["10.0.0.1"];
    let moved = |present: &[(&str, Attributes)]| {
        let world = world([old(&pods), young(&pods)], []).dns("old", [left()]);
        let instances = present.iter().map(|(id, it)| ((*id).to_owned(), it.clone())).collect();
        world.with("dns/web", |service| service.instances = Some(instances)).planned()
    };
    assert_snapshot!(moved(&[]), @r"
    shop/old: register dns/web: 10.0.0.1
    shop/young: deregister dns/old a: 10.0.0.1: Service shop/young asks for another name now; stays until every endpoint is registered under the new name of Service shop/young
    ");
    assert_snapshot!(moved(&[own("b", "shop/old", "10.0.0.1")]), @"shop/young: deregister dns/old a: 10.0.0.1: Service shop/young asks for another name now");
}

#[test]
fn ports_tell_their_instances_apart_where_the_service_does() {
    let at = |name, number| {
        let pod = bare("10.0.0.1").target("http", number);
        sharing(name, &[]).ports([("http", 80)]).port(["http"]).ready([pod])
    };
    let both = || World::of(at("shop/old", 8080)).service(at("shop/young", 8081));
    assert_eq!(both().cloud_map("dns/web", SRV, []).planned().lines().count(), 2);
    assert_eq!(both().dns("web", []).planned().matches("register").count(), 1);
}
