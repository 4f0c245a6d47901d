//! Cloud Map services: those that are created and their settings, and those in which nothing is registered.

use insta::assert_snapshot;

use super::world::{A, BOTH, CNAME, HTTP, Kubernetes, World, foreign, own, pod, service, tagged};
use crate::model::Family::{self, V4, V6};
use crate::model::{CloudMapService, Endpoint, Tags};
use crate::publish::plan::Rules;

fn web(place: &str) -> Kubernetes {
    service("shop/web", place).ready([pod("one", "10.0.0.1")])
}

#[test]
fn a_new_service_fits_its_namespace_the_families_and_the_port() {
    let created = |place: &str, families: &[Family], port: Option<&str>| {
        let ready = pod("one", "10.0.0.1+fd00::1").target("http", 8080);
        let web = service("shop/web", place).ports([("http", 80)]).port(port).ready([ready]);
        let plan = World::of(web.families(families.iter().copied())).plan();
        plan.changes.into_values().flatten().next().expect("a change").detail()
    };
    let cases = [
        ("http/web", vec![V4], None, "an HTTP service"),
        ("http/web", vec![V4, V6], Some("http"), "an HTTP service"),
        ("dns/web", vec![V4], None, "a DNS service of A records, TTL 60 s"),
        ("dns/web", vec![V6], None, "a DNS service of AAAA records, TTL 60 s"),
        ("dns/web", vec![V4, V6], None, "a DNS service of A+AAAA records, TTL 60 s"),
        ("dns/web", vec![V4, V6], Some("http"), "a DNS service of SRV records, TTL 60 s"),
    ];
    for (place, families, port, expected) in cases {
        assert_eq!(created(place, &families, port), expected, "{place} {families:?} {port:?}");
    }
}

#[test]
fn new_records_are_those_that_most_endpoints_have_if_the_service_states_no_families() {
    let records = |endpoints: &[&str]| {
        let ready = endpoints.iter().map(|addresses| pod("one", addresses));
        let starting = Endpoint { ready: false, ..pod("two", "fd00::9") };
        let endpoints = ready.chain([starting]).collect::<Vec<_>>();
        let plan = World::of(web("dns/web").families([]).ready(endpoints)).plan();
        plan.changes.into_values().flatten().next().map(|change| change.detail())
    };
    let created = |records| Some(format!("a DNS service of {records} records, TTL 60 s"));
    assert_eq!(records(&[]), None, "none is ready");
    assert_eq!(records(&["10.0.0.1"]), created("A"));
    assert_eq!(records(&["fd00::1"]), created("AAAA"));
    assert_eq!(records(&["fd00::1", "10.0.0.1"]), created("A"), "A+AAAA records fit neither");
    assert_eq!(records(&["10.0.0.1", "10.0.0.2+fd00::2"]), created("A+AAAA"));
}

/// `dns/web` with records of both families and our tag, and a Service that states none.
fn misfit() -> World {
    let world = World::of(web("dns/web").families([])).cloud_map("dns/web", BOTH, []);
    world.with("dns/web", |service| service.tags = tagged("cloud-map-sync"))
}

#[test]
fn empty_service_of_ours_whose_records_fit_no_endpoint_gets_none() {
    assert_snapshot!(misfit().planned(), @"! shop/web dns/web: this Cloud Map service, which the function created, has A+AAAA records, and no endpoint has addresses of both families: it is empty, so delete it: aws servicediscovery delete-service --region eu-central-1 --id arn:aws:servicediscovery:eu-central-1:111122223333:service/srv-web; the next sync then creates it with A records (RecordTypeMismatch)");
    let young = service("shop/young", "dns/web").created(200);
    let planned = misfit().service(young).planned();
    assert!(planned.contains("shop/web dns/web: this Cloud Map service"), "{planned}");
    assert!(!planned.contains("register"), "{planned}");
}

#[test]
fn records_of_both_families_are_tried_if_they_may_fit_or_are_not_ours() {
    let both = web("dns/web").families([]).ready([pod("one", "10.0.0.1+fd00::1")]);
    let untagged = |service: &mut CloudMapService| service.tags = tagged("team-a");
    let filled = |service: &mut CloudMapService| {
        service.instances = Some([("a".to_owned(), foreign("10.0.0.9"))].into_iter().collect());
    };
    let worlds = [
        misfit().service(both),
        misfit().service(web("dns/web").families([V4, V6])),
        misfit().with("dns/web", untagged),
        misfit().with("dns/web", filled),
    ];
    for world in worlds {
        assert!(world.planned().contains("shop/web: register dns/web"), "{}", world.planned());
    }
    for families in [vec![], vec![V4]] {
        let idle = [web("dns/web").ready([]), web("dns/web").levers(false, None)];
        for idle in idle {
            assert_eq!(misfit().service(idle.families(families.clone())).planned(), "");
        }
    }
}

#[test]
fn a_new_service_has_the_name_as_written_and_the_annotated_ttl() {
    let world = World::of(web("dns/Web").ttl(15));
    assert_snapshot!(world.planned(), @r"
    shop/web: create dns/web: a DNS service of A records, TTL 15 s
    shop/web: register dns/web: 10.0.0.1 (pod one)
    ");
    let changes = format!("{:?}", world.plan().changes);
    assert!(changes.contains("name: ServiceName(\"Web\")"), "{changes}");
}

#[test]
fn a_service_is_created_together_with_a_first_registration_only() {
    let nothing_ready = World::of(service("shop/web", "dns/web"));
    assert_snapshot!(nothing_ready.planned(), @"");
    let nothing_fits = service("shop/web", "dns/web").ready([pod("one", "fd00::1")]);
    assert_snapshot!(World::of(nothing_fits).planned(), @"! shop/web dns/web: A records cannot contain the endpoint's addresses fd00::1 (RecordTypeMismatch)");
}

#[test]
fn an_existing_service_keeps_its_records() {
    let world = World::of(web("dns/web").families([V6])).dns("web", []);
    assert_snapshot!(world.planned(), @"shop/web: register dns/web: 10.0.0.1 (pod one)");
}

#[test]
fn an_existing_service_is_called_as_it_is_written() {
    let world = World::of(web("dns/web")).dns("web", []);
    let world = world.with("dns/web", |service| service.name = "Web".into());
    assert_snapshot!(world.planned(), @"shop/web: register dns/Web: 10.0.0.1 (pod one)");
}

#[test]
fn an_alias_takes_no_instances() {
    let world = World::of(web("dns/web")).cloud_map("dns/web", CNAME, [("a", foreign("10.0.0.9"))]);
    assert_snapshot!(world.planned(), @"! shop/web dns/web: the Cloud Map service has a CNAME record, so it cannot have addresses; choose another name (CnameService)");
}

#[test]
fn without_rights_to_records_nothing_is_registered_or_rewritten() {
    let under =
        |world: World| world.under(Rules { lacks_dns_rights: true, ..Rules::default() }).planned();
    let there = |kind, place: &str, address: &str| {
        let world = World::of(web(place)).cloud_map(place, kind, [own("a", "shop/web", address)]);
        under(world)
    };
    assert_snapshot!(under(World::of(web("dns/web"))), @"! shop/web dns/web: the function's role may not write DNS records (DNS_NAMESPACES is false), so it registers nothing in a Cloud Map service that has them; deploy with its hosted zone in HostedZoneIds (DnsNotAllowed)");
    assert_snapshot!(under(World::of(web("http/web"))), @r"
    shop/web: create http/web: an HTTP service
    shop/web: register http/web: 10.0.0.1 (pod one)
    ");
    assert_snapshot!(there(A, "dns/web", "10.0.0.1"), @"! shop/web dns/web: the function's role may not write DNS records (DNS_NAMESPACES is false), so it registers nothing in a Cloud Map service that has them; deploy with its hosted zone in HostedZoneIds (DnsNotAllowed)");
    assert_snapshot!(there(A, "dns/web", "10.0.0.9"), @r"
    shop/web: deregister dns/web a: 10.0.0.9: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ! shop/web dns/web: the function's role may not write DNS records (DNS_NAMESPACES is false), so it registers nothing in a Cloud Map service that has them; deploy with its hosted zone in HostedZoneIds (DnsNotAllowed)
    ");
    assert_snapshot!(there(HTTP, "dns/web", "10.0.0.9"), @r"
    shop/web: register dns/web: 10.0.0.1 (pod one)
    shop/web: deregister dns/web a: 10.0.0.9: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ! shop/web dns/web: this Cloud Map service is of the type HTTP: its instances are found by DiscoverInstances calls, and not by DNS queries (NotInDns)
    ");
}

#[test]
fn a_service_of_service_connect_takes_no_first_instance_of_ours() {
    let managed = |instances| {
        let world = World::of(web("http/web")).http("web", instances);
        world.with("http/web", |service| service.tags = tagged("ECS")).planned()
    };
    assert_snapshot!(managed([("a", foreign("10.0.0.9"))]), @"! shop/web http/web: ECS Service Connect manages this Cloud Map service (tag AmazonECSManaged); choose another name (ServiceConnect)");
    assert_snapshot!(managed([own("a", "shop/web", "10.0.0.9")]), @r"
    shop/web: register http/web: 10.0.0.1 (pod one)
    shop/web: deregister http/web a: 10.0.0.9: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
}

#[test]
fn nothing_is_registered_where_something_was_not_read() {
    let unasked = World::of(web("http/web")).http("web", []);
    let untold = unasked
        .clone()
        .with("http/web", |service| service.tags = Tags::Unreadable("throttled".into()));
    assert_snapshot!(untold.planned(), @"! shop/web http/web: the instances of this Cloud Map service could not be read: throttled (Unreadable)");
    assert_snapshot!(unasked.with("http/web", |service| service.instances = None).planned(), @"! shop/web http/web: the instances of this Cloud Map service could not be read: they were not requested (Unreadable)");
    let unread = World::of(web("http/web").unread());
    assert_snapshot!(unread.http("web", [own("a", "shop/web", "10.0.0.9")]).planned(), @"! shop/web http/web: the instances of this Cloud Map service could not be read: the Service's endpoints were not read (Unreadable)");
}
