//! The holders of names, and the Services that a sync of one Service is about. And the number of names that a Service
//! claims, with the result for the others.

use insta::assert_snapshot;
use serde_json::json;

use super::name_policy::{ready, rules};
use super::world::{
    HTTP, Kubernetes, World, key, lines_of, mistake, named, of_other_cluster, ours, own, pod,
    service,
};
use crate::model::{NamespaceKind, Selection, ServiceName, ServiceRef};
use crate::publish::plan::{
    Change, Extent, Holders, NamePolicy, Observation, Plan, RereadScope, Rules, plan,
};

fn holder(world: &World, place: &str) -> Option<String> {
    Holders::decide(&world.0).holder(&key(place)).map(ToString::to_string)
}

#[test]
fn the_holder_is_the_one_registered_then_the_older_then_the_first_by_name() {
    let claimants = |created: [i64; 3]| {
        World::of(service("ops/web", "http/web").created(created[0]))
            .service(service("shop/api", "http/web").created(created[1]))
            .service(service("shop/web", "http/web").created(created[2]))
    };
    let unclaimed = || ("x", of_other_cluster("shop/web", "10.0.0.1"));
    let web = || own("a", "shop/web", "10.0.0.1");
    let api = || own("b", "shop/api", "10.0.0.2");
    let gone = || own("c", "shop/gone", "10.0.0.3");
    let cases = [
        ([1, 1, 1], [unclaimed(), unclaimed()], "ops/web"),
        ([2, 1, 3], [unclaimed(), unclaimed()], "shop/api"),
        ([1, 2, 3], [web(), unclaimed()], "shop/web"),
        ([1, 2, 3], [web(), api()], "shop/api"),
        ([1, 3, 2], [web(), api()], "shop/web"),
        ([1, 2, 2], [web(), api()], "shop/api"),
        ([1, 2, 3], [gone(), unclaimed()], "ops/web"),
    ];
    for (created, instances, expected) in cases {
        let planned = format!("{created:?} {instances:?}");
        let world = claimants(created).http("web", instances);
        assert_eq!(holder(&world, "http/web").as_deref(), Some(expected), "{planned}");
    }
}

#[test]
fn names_that_differ_in_case_are_contested_in_dns_namespaces_only() {
    let world = |place: &str, other: &str| {
        World::of(service("shop/web", place).created(1))
            .service(service("shop/www", other).created(2))
            .planned()
    };
    assert_snapshot!(world("dns/web", "dns/Web"), @"! shop/www dns/web: Service shop/web of this cluster holds the name; this one takes over when that ends (DomainConflict)");
    assert_snapshot!(world("http/web", "http/Web"), @"");
}

#[test]
fn a_service_that_claims_a_name_twice_claims_it_once() {
    let world = World::of(service("shop/web", "dns/web").also("Web"));
    let claims = Holders::decide(&world.0).claims(&named("shop/web")).cloned();
    assert_eq!((claims, world.planned().as_str()), (Some([key("dns/web")].into()), ""));
}

#[test]
fn every_name_of_a_service_is_served() {
    let world =
        World::of(service("shop/web", "http/web").also("www").ready([pod("one", "10.0.0.1")]));
    assert_snapshot!(world.planned(), @r"
    shop/web: create http/web: an HTTP service
    shop/web: register http/web: 10.0.0.1 (pod one)
    shop/web: create http/www: an HTTP service
    shop/web: register http/www: 10.0.0.1 (pod one)
    ");
}

#[test]
fn a_claim_that_cannot_be_used_says_what_would_be_right() {
    let world = World::new()
        .namespace("ns-1", "twice", NamespaceKind::Http)
        .namespace("ns-2", "twice", NamespaceKind::Http)
        .service(service("shop/ambiguous", "twice/web"))
        .service(service("shop/missing", "nowhere/web"))
        .service(service("shop/mistaken", "http/web").mistaken());
    assert_snapshot!(world.planned(), @r#"
    ! shop/ambiguous: several Cloud Map namespaces are named "twice"; name one by its id: ns-1, ns-2; registered instances stay (NamespaceAmbiguous)
    ! shop/missing: no Cloud Map namespace "nowhere" is visible here; visible: twice, twice, dns, http; registered instances stay (NamespaceMissing)
    ! shop/mistaken: annotation cloudmap.controller/ttl is "soon": it must be whole seconds; registered instances stay (BadAnnotation)
    "#);
    assert_eq!(world.plan().held_back.len(), 3);
    assert!(world.planned().contains(&mistake().to_string()));
}

#[test]
fn a_service_with_one_ambiguous_name_leaves_its_others_to_those_that_can_have_them() {
    let world = World::new()
        .namespace("ns-one", "twice", NamespaceKind::Http)
        .namespace("ns-two", "twice", NamespaceKind::Http)
        .service(service("shop/pay", "twice/cart").also("web").created(1))
        .service(service("shop/cart", "ns-one/cart").created(2).ready([pod("one", "10.0.0.1")]));
    let world = ["one/cart", "one/web", "two/web"]
        .into_iter()
        .fold(world, |world, place| world.cloud_map(place, HTTP, []));
    assert_snapshot!(world.planned(), @r#"
    shop/cart: register twice/cart: 10.0.0.1 (pod one)
    ! shop/pay: several Cloud Map namespaces are named "twice"; name one by its id: ns-one, ns-two; registered instances stay (NamespaceAmbiguous)
    "#);
}

/// Of two namespaces of one name, `ns-two` is of another account. `shop/web` claims `web`, and each service has an instance
/// of the named Service, if any.
#[test]
fn of_several_namespaces_of_one_name_the_instances_decide_and_then_the_only_service_of_the_name() {
    type Case<'a> = (&'a [(&'a str, Option<&'a str>)], Option<&'a str>, Option<&'a str>, bool);
    let web = Some("shop/web");
    let cart = Some("shop/cart");
    // The services; the namespaces that a full sync and a message choose; whether there is a remark.
    let cases: [Case; 9] = [
        (&[], None, None, false),
        (&[("two/web", None)], Some("ns-two"), None, false),
        (&[("one/web", None), ("two/web", None)], None, None, false),
        (&[("one/cart", cart)], None, None, false),
        (&[("two/web", web)], Some("ns-two"), Some("ns-two"), false),
        (&[("one/web", None), ("two/web", web)], Some("ns-two"), Some("ns-two"), true),
        (&[("two/old", web)], Some("ns-two"), Some("ns-two"), true),
        (&[("one/web", None), ("two/old", web)], Some("ns-two"), Some("ns-two"), true),
        (&[("one/web", web), ("two/web", web)], Some("ns-one"), Some("ns-one"), true),
    ];
    for (services, by_sync, by_message, is_remarked) in cases {
        let mut world = World::of(service("shop/web", "twice/web"))
            .service(service("shop/cart", "ns-one/cart"))
            .namespace("ns-one", "twice", NamespaceKind::Http)
            .namespace("ns-two", "twice", NamespaceKind::Http);
        world.0.registry.account = Some("111122223333".into());
        let other = world.0.registry.namespaces.get_mut("ns-two").expect("it is there");
        other.owner = Some("444455556666".into());
        for (place, marked) in services {
            world = world.cloud_map(place, HTTP, []).with(place, |service| {
                let instances = marked.map(|marked| ("a".to_owned(), ours(marked, "10.0.0.1")));
                service.instances = Some(instances.into_iter().collect());
            });
        }
        let chosen = |selection: &Selection, extent| {
            let read = Observation { extent, ..world.0.clone() };
            let chosen = read.decided(selection).desired.namespaces;
            let of_web = chosen.get(&named("shop/web"))?;
            of_web.get(&ServiceName::parse("web").expect("a name")).cloned()
        };
        let everything = chosen(&Selection::Everything, Extent::Everything);
        let message = chosen(&Selection::service(named("shop/web")), Extent::Part);
        assert_eq!(everything.as_deref(), by_sync, "{services:?}");
        assert_eq!(message.as_deref(), by_message, "{services:?}");
        let planned = world.planned();
        assert_eq!(planned.contains("(NamespaceByInstances)"), is_remarked, "{planned}");
        assert_eq!(planned.contains("(NamespaceAmbiguous)"), by_sync.is_none(), "{planned}");
    }
}

#[test]
fn namespace_is_not_chosen_while_a_service_of_the_name_may_have_instances_that_were_not_read() {
    let twice = World::new()
        .namespace("ns-one", "twice", NamespaceKind::Http)
        .namespace("ns-two", "twice", NamespaceKind::Http)
        .service(service("shop/web", "twice/web").ready([pod("one", "10.0.0.1")]))
        .cloud_map("one/web", HTTP, []);
    assert_snapshot!(twice.planned(), @"shop/web: register twice/web: 10.0.0.1 (pod one)");
    let unread = |is_denied| {
        twice.clone().with("one/web", |it| {
            (it.instances, it.unreadable, it.is_denied) = (None, Some("no".into()), is_denied);
        })
    };
    assert!(
        unread(false).planned().contains("(NamespaceAmbiguous)"),
        "{}",
        unread(false).planned()
    );
    assert!(unread(true).planned().contains("(Unreadable)"), "{}", unread(true).planned());
}

#[test]
fn a_sync_of_one_service_is_also_about_who_holds_its_names() {
    let world = World::of(service("shop/web", "http/web").created(1))
        .service(service("shop/young", "http/web").created(2))
        .service(service("shop/next", "http/old").created(1))
        .service(service("shop/apart", "http/apart"))
        .http("old", [own("a", "shop/renamed", "10.0.0.1")])
        .http("free", [own("b", "shop/gone", "10.0.0.1")]);
    let cases = [
        ("shop/web", vec!["shop/web"]),
        ("shop/young", vec!["shop/web", "shop/young"]),
        ("shop/renamed", vec!["shop/next", "shop/renamed"]),
        ("shop/gone", vec!["shop/gone"]),
        ("shop/unknown", vec![]),
    ];
    for (selected, expected) in cases {
        let affected = world.observed(&Selection::service(named(selected))).affected;
        let names: Vec<String> = affected.iter().map(ServiceRef::to_string).collect();
        assert_eq!(names, expected, "{selected}");
    }
    assert_eq!(world.observed(&Selection::namespace("shop")).affected.len(), 6);
    assert_eq!(world.observed(&Selection::Everything).affected.len(), 6);
}

#[test]
fn what_is_decided_again_rests_on_the_names_and_services_of_its_changes() {
    let world =
        World::of(service("shop/web", "dns/web").created(1).ready([pod("one", "10.0.0.1")]))
            .service(service("shop/young", "dns/web").created(2))
            .service(service("shop/renamed", "dns/new"))
            .service(service("shop/apart", "dns/apart"))
            .dns("web", [own("a", "shop/web", "10.0.0.1")])
            .dns("old", [own("b", "shop/web", "10.0.0.1"), own("c", "shop/renamed", "10.0.0.2")])
            .dns("apart", []);
    let holders = Holders::decide(&world.0);
    let web = named("shop/web");
    let mut changes = world.plan().changes.into_values().flatten().collect::<Vec<_>>();
    changes.retain(|change| change.place().key == key("dns/old"));
    let again = RereadScope::of(&holders, [&web], changes.iter());
    assert_eq!(again.keys, [key("dns/new"), key("dns/old"), key("dns/web")].into());
    assert_eq!(again.services, [named("shop/renamed"), web].into());
    let narrow = again.narrow(&world.observed(&Selection::Everything));
    let keys: Vec<_> = narrow.registry.services.into_keys().collect();
    assert_eq!(keys, [key("dns/old"), key("dns/web")]);
    let services: Vec<_> = narrow.desired.services.keys().map(|it| it.name.as_str()).collect();
    assert_eq!(services, ["renamed", "web", "young"]);
}

#[test]
fn name_that_another_service_holds_is_not_decided_again_for_each_claimant() {
    let world =
        World::of(service("shop/web", "http/web").created(1).ready([pod("one", "10.0.0.1")]))
            .service(service("shop/young", "http/own").also("web").ready([pod("two", "10.0.0.2")]))
            .service(service("shop/other", "http/web"))
            .http("web", [own("a", "shop/web", "10.0.0.1")])
            .http("own", []);
    let holders = Holders::decide(&world.0);
    let young = named("shop/young");
    let changes = world.plan().changes[&young].clone();
    let again = RereadScope::of(&holders, [&young], changes.iter());
    assert_eq!(again.keys, [key("http/own")].into());
    let narrow = again.narrow(&world.observed(&Selection::Everything));
    assert!(narrow.desired.services.keys().eq([&young]));
    assert_eq!(narrow.desired.held_elsewhere, [(key("http/web"), named("shop/web"))].into());
    // The first plan has reported the conflict.
    let second = plan(&again.decide(narrow));
    assert_eq!((second.changes, second.held_back), ([(young, changes)].into(), Vec::new()));
}

/// In the Kubernetes namespace `shop` names begin with `web`, in `ops` with anything.
#[test]
fn a_mistaken_annotation_keeps_no_name_that_its_service_may_not_have() {
    let ops = rules(&[("kubernetesNamespaces", json!(["ops"])), ("names", json!(["*"]))]);
    let both = rules(&[]).name_policy.zip(ops.name_policy);
    let name_policy = both.map(|(shop, ops)| NamePolicy([shop.0, ops.0].concat()));
    let world = World::of(service("shop/cart", "http/web").mistaken())
        .service(service("ops/web", "http/web"))
        .service(service("ops/api", "http/api"))
        .http("web", [own("a", "shop/cart", "10.0.0.1")])
        .http("api", [own("b", "shop/cart", "10.0.0.1")])
        .under(Rules { name_policy, ..Rules::default() });
    assert_eq!(holder(&world, "http/web").as_deref(), Some("shop/cart"));
    assert_eq!(holder(&world, "http/api").as_deref(), Some("ops/api"));
}

/// `shop/web` with this number of names, in order.
fn with_names(count: usize) -> Kubernetes {
    let names = (1..count).map(|index| format!("web-{index:02}"));
    names.fold(ready("shop/web", "http/web-00"), |service, name| service.also(&name))
}

fn claimed(plan: &Plan) -> Vec<&str> {
    let changes = plan.changes.values().flatten();
    let registered = changes.filter(|change| matches!(change, Change::Register { .. }));
    registered.map(|change| change.place().key.name.as_str()).collect()
}

#[test]
fn names_that_are_left_out_are_counted_and_a_rule_may_leave_out_more() {
    let plan = |(names, left_out), rules| {
        World::of(with_names(names).names_left_out(left_out)).under(rules).plan()
    };
    let cases = [
        ((40, 0), Rules::default(), 40, 0),
        ((40, 1), Rules::default(), 40, 1),
        ((3, 0), rules(&[("maxNames", json!(3))]), 3, 0),
        ((4, 0), rules(&[("maxNames", json!(3))]), 3, 1),
        ((40, 5), rules(&[("maxNames", json!(30))]), 30, 1),
        ((40, 5), rules(&[("maxNames", json!(50))]), 40, 1),
    ];
    for (asked, rules, expected, lines) in cases {
        let plan = plan(asked, rules);
        let first: Vec<String> = (0..expected).map(|index| format!("web-{index:02}")).collect();
        assert_eq!(claimed(&plan), first, "{asked:?}");
        let codes = plan.held_back.iter().map(|it| it.reason.code());
        assert_eq!(codes.collect::<Vec<_>>(), vec!["TooManyNames"; lines], "{asked:?}");
    }
    let planned = |asked, rules| {
        let plan = plan(asked, rules);
        plan.held_back.iter().map(|it| it.reason.to_string()).collect::<Vec<_>>().join("\n")
    };
    let both =
        [planned((20, 5), Rules::default()), planned((20, 5), rules(&[("maxNames", json!(2))]))];
    assert_snapshot!(both.join("\n"), @r"
    25 names are requested, and the first 20 are claimed: a Service may not claim more
    25 names are requested, and the first 2 are claimed: maxNames of NAME_POLICY is the limit
    ");
}

#[test]
fn names_that_a_rule_denies_are_not_counted() {
    let service = ready("shop/web", "http/other").also("web-1").also("web-2").also("web-3");
    let plan = World::of(service).under(rules(&[("maxNames", json!(2))])).plan();
    assert_eq!(claimed(&plan), ["web-1", "web-2"], "{}", lines_of(&plan));
}

#[test]
fn a_name_beyond_the_limit_is_left_to_others_and_its_instances_go() {
    let world = World::of(with_names(3))
        .service(ready("ops/web", "http/web-02").created(1_000))
        .http("web-02", [own("a", "shop/web", "10.0.0.9")]);
    let two = rules(&[("maxNames", json!(2)), ("kubernetesNamespaces", json!(["*"]))]);
    assert_snapshot!(world.under(two).planned(), @r"
    ops/web: register http/web-02: 10.0.0.1 (pod one)
    ops/web: deregister http/web-02 a: 10.0.0.9: Service shop/web asks for another name now; stays until Service ops/web has an instance under this name and every endpoint is registered under the new name of Service shop/web
    shop/web: create http/web-00: an HTTP service
    shop/web: register http/web-00: 10.0.0.1 (pod one)
    shop/web: create http/web-01: an HTTP service
    shop/web: register http/web-01: 10.0.0.1 (pod one)
    ! shop/web: 3 names are requested, and the first 2 are claimed: maxNames of NAME_POLICY is the limit (TooManyNames)
    ");
}

#[test]
fn name_that_differs_only_in_case_is_not_one_more() {
    let rules = rules(&[("maxNames", json!(1)), ("cloudMapNamespaces", json!(["dns"]))]);
    let web = ready("shop/web", "dns/web").also("WEB");
    let plan = World::of(web).under(rules).plan();
    assert_eq!((claimed(&plan), plan.held_back.len()), (vec!["web"], 0), "{}", lines_of(&plan));
}
