//! The claims that are allowed under a policy of names, and the result for those that are not.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::world::{A, BOTH, Kubernetes, World, lines_of, ours, own, owner_of, pod, service};
use crate::publish::plan::{NamePolicy, Policy, Rules};

/// The rules of a policy in which Services of `shop` may claim `web*` in the HTTP namespace, with more fields in that
/// rule.
pub fn rules(more: &[(&str, Value)]) -> Rules {
    let mut rule = json!({
        "clusters": ["blue"], "kubernetesNamespaces": ["shop"],
        "cloudMapNamespaces": ["http"], "names": ["web*"],
    });
    for (field, value) in more {
        rule[*field] = value.clone();
    }
    let rules = serde_json::from_value(json!([rule])).expect("rules");
    Rules { name_policy: Some(NamePolicy(rules)), ..Rules::default() }
}

pub fn ready(name: &str, place: &str) -> Kubernetes {
    service(name, place).ready([pod("one", "10.0.0.1")])
}

#[test]
fn every_name_is_allowed_unless_a_rule_limits_it_before_one_for_all() {
    let rule = |clusters: &str, namespaces: &str, places: &str, names: &str| {
        json!({ "clusters": [clusters], "kubernetesNamespaces": [namespaces],
            "cloudMapNamespaces": [places], "names": [names] })
    };
    let all = rule("*", "*", "*", "*");
    for (policy, expected) in [
        (json!([all]), true),
        (json!([rule("blue", "*", "*", "*"), all]), true),
        (json!([all, rule("*", "shop", "*", "web")]), true),
        (json!([rule("*", "shop", "*", "web"), all]), false),
        (json!([rule("*", "*", "*", "web")]), false),
        (json!([rule("*", "*", "shop.local", "*")]), false),
        (json!([rule("blue", "*", "*", "*")]), false),
        (json!([rule("*", "shop", "*", "*")]), false),
    ] {
        let name_policy = Some(NamePolicy(serde_json::from_value(policy.clone()).expect("rules")));
        let rules = Rules { name_policy, ..Rules::default() };
        assert_eq!(rules.allow_every_name(), expected, "{policy}");
    }
    assert!(Rules::default().allow_every_name());
}

#[test]
fn a_rule_is_for_clusters_and_kubernetes_namespaces_and_allows_names_in_cloud_map_namespaces() {
    let arn = owner_of("blue").cluster.to_string();
    let namespace = "arn:aws:servicediscovery:eu-central-1:111122223333:namespace/ns-http";
    let cases = [
        ("shop/web", "http/web", vec![], true),
        ("shop/web", "http/website", vec![], true),
        ("shop/web", "http/my-web", vec![], false),
        ("shop/web", "http/WEB", vec![], false),
        ("shop/web", "dns/web", vec![], false),
        ("ops/web", "http/web", vec![], false),
        ("shop/web", "http/web", vec![("clusters", json!(["green", arn]))], true),
        ("shop/web", "http/web", vec![("clusters", json!(["green"]))], false),
        ("shop/web", "http/web", vec![("kubernetesNamespaces", json!(["sh?p"]))], true),
        ("shop/web", "http/web", vec![("cloudMapNamespaces", json!(["ns-http"]))], true),
        ("shop/web", "http/web", vec![("cloudMapNamespaces", json!([namespace]))], true),
        ("shop/web", "http/web", vec![("names", json!([]))], false),
        ("shop/web", "dns/WEB", vec![("cloudMapNamespaces", json!(["*"]))], true),
        (
            "shop/web",
            "dns/web",
            vec![("cloudMapNamespaces", json!(["*"])), ("names", json!(["WEB"]))],
            true,
        ),
    ];
    for (name, place, more, expected) in cases {
        let plan = World::of(ready(name, place)).under(rules(&more)).plan();
        let denied = plan.held_back.iter().any(|it| it.reason.code() == "NotAllowed");
        assert_eq!(
            (!plan.changes.is_empty(), denied),
            (expected, !expected),
            "{name} {place} {more:?}"
        );
    }
}

#[test]
fn the_first_rule_that_is_for_a_service_decides_alone() {
    let mut both = rules(&[("names", json!([]))]);
    let second = rules(&[("kubernetesNamespaces", json!(["*"]))]).name_policy.expect("set").0;
    both.name_policy.as_mut().expect("set").0.extend(second);
    let world = World::of(ready("shop/web", "http/web"));
    let world = world.service(ready("ops/website", "http/website")).under(both);
    assert_snapshot!(world.planned(), @r"
    ops/website: create http/website: an HTTP service
    ops/website: register http/website: 10.0.0.1 (pod one)
    ! shop/web http/web: NAME_POLICY lets Services of Kubernetes namespace shop claim nothing in the Cloud Map namespaces http; the claim counts as ended (NotAllowed)
    ");
}

#[test]
fn a_namespace_is_created_for_an_allowed_claim_alone() {
    let planned = |namespaces| {
        let rules = rules(&[("cloudMapNamespaces", json!([namespaces]))]);
        let rules = Rules { create_namespaces: true, ..rules };
        World::of(ready("shop/web", "new/web")).under(rules).planned()
    };
    assert_snapshot!(planned("new"), @r"
    shop/web: create-namespace new/web: new, an HTTP namespace
    shop/web: create new/web: an HTTP service
    shop/web: register new/web: 10.0.0.1 (pod one)
    ");
    assert_snapshot!(planned("http"), @"! shop/web new/web: NAME_POLICY lets Services of Kubernetes namespace shop claim web* in the Cloud Map namespaces http; the claim counts as ended (NotAllowed)");
}

#[test]
fn a_claim_that_is_not_allowed_holds_no_name_and_its_instances_go() {
    let world = World::of(ready("ops/web", "http/web").created(1))
        .service(ready("shop/web", "http/web").also("other"))
        .http("web", [own("a", "ops/web", "10.0.0.9")])
        .http("other", [own("b", "shop/web", "10.0.0.1")]);
    assert_snapshot!(world.under(rules(&[])).planned(), @r"
    shop/web: deregister http/other b: 10.0.0.1: NAME_POLICY does not allow Service shop/web this name
    shop/web: register http/web: 10.0.0.1 (pod one)
    shop/web: deregister http/web a: 10.0.0.9: NAME_POLICY does not allow Service ops/web this name; stays until Service shop/web has an instance under this name
    ! ops/web: no rule of NAME_POLICY applies to Kubernetes namespace ops of cluster blue; the claim counts as ended (NotAllowed)
    ! shop/web http/other: NAME_POLICY lets Services of Kubernetes namespace shop claim web* in the Cloud Map namespaces http; the claim counts as ended (NotAllowed)
    ");
}

#[test]
fn what_may_not_be_there_goes_though_its_service_cannot_be_understood() {
    let world = World::of(service("ops/web", "http/web").mistaken())
        .service(service("shop/web", "missing/web"))
        .http("web", [own("a", "ops/web", "10.0.0.9"), own("b", "shop/web", "10.0.0.1")])
        .http("other", [own("c", "shop/web", "10.0.0.1")]);
    assert_snapshot!(world.under(rules(&[])).planned(), @r#"
    ops/web: deregister http/web a: 10.0.0.9: NAME_POLICY does not allow Service ops/web this name
    shop/web: deregister http/other c: 10.0.0.1: NAME_POLICY does not allow Service shop/web this name
    ! ops/web: no rule of NAME_POLICY applies to Kubernetes namespace ops of cluster blue; the claim counts as ended (NotAllowed)
    ! shop/web: no Cloud Map namespace "missing" is visible here; visible: dns, http; registered instances stay (NamespaceMissing)
    "#);
}

#[test]
fn a_mistake_holds_no_name_that_is_not_allowed() {
    let world = World::of(service("shop/cart", "http/cart").mistaken())
        .service(service("ops/web", "http/web").mistaken())
        .service(ready("shop/web", "http/web").also("website"))
        .http("web", [own("a", "ops/web", "10.0.0.9")])
        .http("website", [own("b", "shop/cart", "10.0.0.8")]);
    assert_snapshot!(world.under(rules(&[])).planned(), @r#"
    shop/web: register http/web: 10.0.0.1 (pod one)
    shop/web: deregister http/web a: 10.0.0.9: NAME_POLICY does not allow Service ops/web this name; stays until Service shop/web has an instance under this name
    ! ops/web: no rule of NAME_POLICY applies to Kubernetes namespace ops of cluster blue; the claim counts as ended (NotAllowed)
    ! shop/cart: annotation cloudmap.controller/ttl is "soon": it must be whole seconds; registered instances stay (BadAnnotation)
    ! shop/web http/website: Service shop/cart of this cluster holds the name; this one takes over when that ends (DomainConflict)
    "#);
}

#[test]
fn a_service_that_asks_for_a_name_it_may_not_have_keeps_the_one_it_had() {
    let world =
        World::of(ready("shop/web", "http/other")).http("web", [own("a", "shop/web", "10.0.0.1")]);
    assert_snapshot!(world.under(rules(&[])).planned(), @r"
    shop/web: deregister http/web a: 10.0.0.1: Service shop/web asks for another name now; stays until the problem under http/other, the new name of Service shop/web, is solved
    ! shop/web http/other: NAME_POLICY lets Services of Kubernetes namespace shop claim web* in the Cloud Map namespaces http; the claim counts as ended (NotAllowed)
    ");
}

#[test]
fn a_claim_that_is_not_allowed_is_not_ended_where_no_claim_may_be_ended() {
    let world =
        World::of(ready("ops/web", "http/web")).http("web", [own("a", "ops/web", "10.0.0.1")]);
    let rules = Rules { policy: Policy::UpsertOnly, ..rules(&[]) };
    assert_snapshot!(world.under(rules).planned(), @r"
    ! ops/web: no rule of NAME_POLICY applies to Kubernetes namespace ops of cluster blue; the claim counts as ended (NotAllowed)
    ! ops/web http/web: POLICY=upsert-only does not allow this: deregister a in http/web (Policy)
    ");
}

#[test]
fn addresses_outside_the_ranges_are_not_published_and_go() {
    let world = World::of(service("shop/web", "http/web").ready([
        pod("one", "10.0.0.1+fd00::1"),
        pod("two", "10.9.0.2+fd00::2"),
        pod("three", "10.9.0.3+2001:db8::3"),
    ]))
    .http(
        "web",
        [
            own("a", "shop/web", "10.0.0.1+fd00::1"),
            own("b", "shop/web", "10.9.0.2+fd00::2"),
            own("c", "shop/web", "10.9.0.3"),
        ],
    );
    let rules = rules(&[("cidrs", json!(["10.0.0.0/16", "fd00::/8"]))]);
    assert_snapshot!(world.under(rules).planned(), @r"
    shop/web: rewrite http/web a: cloud-map-sync/pod nothing -> one
    shop/web: register http/web: fd00::2 (pod two)
    shop/web: deregister http/web b: 10.9.0.2 and fd00::2: NAME_POLICY does not allow the Service this address
    shop/web: deregister http/web c: 10.9.0.3: NAME_POLICY does not allow the Service this address
    ! shop/web http/web: address 10.9.0.2 is not published: NAME_POLICY allows this Service addresses in 10.0.0.0/16, fd00::/8 (AddressNotAllowed)
    ! shop/web http/web: address 10.9.0.3 is not published: NAME_POLICY allows this Service addresses in 10.0.0.0/16, fd00::/8 (AddressNotAllowed)
    ! shop/web http/web: address 2001:db8::3 is not published: NAME_POLICY allows this Service addresses in 10.0.0.0/16, fd00::/8 (AddressNotAllowed)
    ");
}

#[test]
fn an_address_that_the_records_have_no_room_for_is_not_spoken_of() {
    let world = |kind| {
        let world = World::new().cloud_map("dns/web", kind, []);
        world.service(service("shop/web", "dns/web").ready([pod("one", "10.0.0.1+fd00::1")]))
    };
    let under =
        |cidr: &str| rules(&[("cloudMapNamespaces", json!(["dns"])), ("cidrs", json!([cidr]))]);
    assert_snapshot!(world(A).under(under("10.0.0.0/8")).planned(), @"shop/web: register dns/web: 10.0.0.1 (pod one)");
    assert_snapshot!(world(A).under(under("fd00::/8")).planned(), @r"
    ! shop/web dns/web: address 10.0.0.1 is not published: NAME_POLICY allows this Service addresses in fd00::/8 (AddressNotAllowed)
    ! shop/web dns/web: A records cannot contain the endpoint's addresses fd00::1 (RecordTypeMismatch)
    ");
    assert_snapshot!(world(BOTH).under(under("fd00::/8")).planned(), @r"
    shop/web: register dns/web: fd00::1 (pod one)
    ! shop/web dns/web: address 10.0.0.1 is not published: NAME_POLICY allows this Service addresses in fd00::/8 (AddressNotAllowed)
    ");
}

#[test]
fn an_instance_does_not_stay_for_an_address_that_the_records_have_no_room_for() {
    let world = World::of(service("shop/web", "dns/web").ready([pod("one", "10.0.0.1+fd00::1")]))
        .dns("web", [own("a", "shop/web", "10.0.0.1+fd00::1")]);
    let rules = rules(&[("cloudMapNamespaces", json!(["dns"])), ("cidrs", json!(["fd00::/8"]))]);
    assert_snapshot!(world.under(rules).planned(), @r"
    shop/web: deregister dns/web a: 10.0.0.1 and fd00::1: NAME_POLICY does not allow the Service this address
    ! shop/web dns/web: address 10.0.0.1 is not published: NAME_POLICY allows this Service addresses in fd00::/8 (AddressNotAllowed)
    ! shop/web dns/web: A records cannot contain the endpoint's addresses fd00::1 (RecordTypeMismatch)
    ");
}

#[test]
fn a_renamed_service_is_whole_without_the_addresses_that_may_not_be_published() {
    let pods = [pod("one", "10.0.0.1"), pod("two", "10.9.0.1")];
    let world = World::of(service("shop/web", "http/web").ready(pods))
        .http("web", [own("a", "shop/web", "10.0.0.1")])
        .http("website", [own("b", "shop/web", "10.0.0.1")]);
    let rules = rules(&[("cidrs", json!(["10.0.0.0/16"]))]);
    assert_snapshot!(world.under(rules).planned(), @r"
    shop/web: rewrite http/web a: cloud-map-sync/pod nothing -> one
    shop/web: deregister http/website b: 10.0.0.1: Service shop/web asks for another name now
    ! shop/web http/web: address 10.9.0.1 is not published: NAME_POLICY allows this Service addresses in 10.0.0.0/16 (AddressNotAllowed)
    ");
}

#[test]
fn the_last_instances_of_a_name_do_not_outlive_their_ranges() {
    let world = World::of(service("shop/web", "http/web").keeps(false, true))
        .http("web", [own("a", "shop/web", "10.0.0.1"), own("b", "shop/web", "10.9.0.1")]);
    let rules = rules(&[("cidrs", json!(["10.0.0.0/16"]))]);
    assert_snapshot!(world.under(rules).planned(), @r"
    shop/web: deregister http/web b: 10.9.0.1: NAME_POLICY does not allow the Service this address
    ! shop/web http/web: no endpoint is ready; 1 instance stays here because of when-none-ready (NoneReady)
    ");
}

#[test]
fn of_two_maxima_the_smaller_wins_and_it_is_said_whose_it_is() {
    let pods = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
    let planned = |annotated, allowed: u32| {
        let web = service("shop/web", "http/web").ready(pods.map(|address| pod("one", address)));
        let ids = pods.map(|it| World::of(web.clone()).id_given("http/web", it));
        let world = World::of(web.levers(true, annotated));
        let present =
            [(ids[0].as_str(), ours("shop/web", pods[0])), (&ids[1], ours("shop/web", pods[1]))];
        let world = world.http("web", present);
        lines_of(&world.under(rules(&[("maxInstances", json!(allowed))])).plan())
    };
    assert_snapshot!([planned(Some(2), 1), planned(Some(1), 2), planned(None, 1)].join("\n\n"), @r"
    shop/web: rewrite http/web: cloud-map-sync/pod nothing -> one
    shop/web: deregister http/web: 10.0.0.1: it exceeds maxInstances of NAME_POLICY
    ! shop/web http/web: 1 of 3 instances are registered, the limit of maxInstances of NAME_POLICY (MaxInstances)

    shop/web: rewrite http/web: cloud-map-sync/pod nothing -> one
    shop/web: deregister http/web: 10.0.0.1: it exceeds max-instances of the Service
    ! shop/web http/web: 1 of 3 instances are registered, the limit of max-instances of the Service (MaxInstances)

    shop/web: rewrite http/web: cloud-map-sync/pod nothing -> one
    shop/web: deregister http/web: 10.0.0.1: it exceeds maxInstances of NAME_POLICY
    ! shop/web http/web: 1 of 3 instances are registered, the limit of maxInstances of NAME_POLICY (MaxInstances)
    ");
}
