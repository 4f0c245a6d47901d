//! The properties of an existing Cloud Map service that are changed, and those that are only reported.

use insta::assert_snapshot;

use super::world::{A, HTTP, Kubernetes, World, own, pod, service, tagged};
use crate::model::{Endpoint, RoutingPolicy, Selection, ServiceTags, Tags};
use crate::publish::plan::Rules;
use crate::publish::plan::services::tags_needed;

/// A service of A records as the list shows it, with these tags.
fn with_ttl(claim: Kubernetes, tags: Tags, ttls: &[u32]) -> World {
    World::of(claim).dns("web", [own("a", "shop/web", "10.0.0.1")]).with("dns/web", |service| {
        service.ttls = ttls.iter().copied().collect();
        service.tags = tags;
    })
}

fn bare(place: &str) -> Kubernetes {
    let pod = Endpoint { pod: None, ..pod("", "10.0.0.1") };
    service("shop/web", place).ready([pod])
}

#[test]
fn another_ttl_is_repaired_where_the_service_carries_our_tag() {
    let planned = |tags, ttls: &[u32]| with_ttl(bare("dns/web").ttl(15), tags, ttls).planned();
    let ours = || tagged("cloud-map-sync");
    assert_snapshot!(planned(ours(), &[60]), @"shop/web: update dns/web: ttl 60 -> 15");
    assert_snapshot!(planned(ours(), &[15, 60]), @"shop/web: update dns/web: ttl 15 and 60 -> 15");
    assert_snapshot!(planned(ours(), &[15]), @"");
    let left = "! shop/web dns/web: the records have TTL 60 s and the annotation asks for 15: the TTL stays, since the Cloud Map service does not carry our tag (TtlStays)";
    let untagged = Tags::Read(ServiceTags::default());
    for foreign in [untagged, tagged("team-a"), tagged("ECS"), Tags::Unread] {
        assert_eq!(planned(foreign, &[60]), left);
    }
    assert_snapshot!(planned(Tags::Unreadable("denied".into()), &[60]), @"! shop/web dns/web: the service's settings stay as they are: denied (TagsUnreadable)");
}

#[test]
fn without_the_annotation_no_ttl_differs() {
    assert_snapshot!(with_ttl(bare("dns/web"), tagged("cloud-map-sync"), &[60]).planned(), @"");
    let http = World::of(bare("http/web").ttl(15));
    let http = http.http("web", [own("a", "shop/web", "10.0.0.1")]);
    assert_snapshot!(http.planned(), @"");
}

#[test]
fn tags_are_asked_for_only_where_something_depends_on_them() {
    let needed = |world: World| !tags_needed(&world.observed(&Selection::Everything)).is_empty();
    let first = |kind| World::of(bare("dns/web")).cloud_map("dns/web", kind, []);
    let cases = [
        ("a first instance in an HTTP service", first(HTTP), true),
        ("a first instance in another", first(A), false),
        ("another TTL", with_ttl(bare("dns/web").ttl(15), Tags::Unread, &[60]), true),
        ("the annotated TTL", with_ttl(bare("dns/web").ttl(60), Tags::Unread, &[60]), false),
        ("a TTL that nothing asks for", with_ttl(bare("dns/web"), Tags::Unread, &[60]), false),
    ];
    for (case, world, expected) in cases {
        assert_eq!(needed(world), expected, "{case}");
    }
}

#[test]
fn a_new_service_answers_as_annotated_and_an_existing_one_as_it_did() {
    let weighted = || bare("dns/web").routing(RoutingPolicy::Weighted);
    assert_snapshot!(World::of(weighted()).planned(), @r"
    shop/web: create dns/web: a DNS service of A records, TTL 60 s, WEIGHTED
    shop/web: register dns/web: 10.0.0.1
    ");
    let answering = |policy, claim| {
        let world = World::of(claim).dns("web", []);
        world.with("dns/web", |service| service.routing_policy = Some(policy)).planned()
    };
    assert_snapshot!(answering(RoutingPolicy::Multivalue, weighted()), @r"
    shop/web: register dns/web: 10.0.0.1
    ! shop/web dns/web: the routing policy of the Cloud Map service is MULTIVALUE and the annotation asks for WEIGHTED: it is fixed when a service is created (RoutingPolicyFixed)
    ");
    assert_snapshot!(answering(RoutingPolicy::Weighted, weighted()), @"shop/web: register dns/web: 10.0.0.1");
    assert_snapshot!(answering(RoutingPolicy::Weighted, bare("dns/web")), @"shop/web: register dns/web: 10.0.0.1");
}

#[test]
fn an_http_service_in_a_dns_namespace_is_used_and_said_to_be_out_of_dns() {
    let world = World::of(bare("dns/web")).cloud_map("dns/web", HTTP, []);
    assert_snapshot!(world.planned(), @r"
    shop/web: register dns/web: 10.0.0.1
    ! shop/web dns/web: this Cloud Map service is of the type HTTP: its instances are found by DiscoverInstances calls, and not by DNS queries (NotInDns)
    ");
}

#[test]
fn ttl_stays_if_the_role_may_write_no_records() {
    let world = with_ttl(bare("dns/web").ttl(30), tagged("cloud-map-sync"), &[60]);
    assert!(world.planned().contains("update dns/web: ttl 60 -> 30"), "{}", world.planned());
    let rules = Rules { lacks_dns_rights: true, ..Rules::default() };
    assert_snapshot!(world.under(rules).planned(), @"! shop/web dns/web: the function's role may not write DNS records (DNS_NAMESPACES is false), so it registers nothing in a Cloud Map service that has them; deploy with its hosted zone in HostedZoneIds (DnsNotAllowed)");
}
