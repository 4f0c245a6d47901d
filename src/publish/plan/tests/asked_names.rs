//! The number of names that a Service claims, and the result for the others.

use insta::assert_snapshot;
use serde_json::json;

use super::name_policy::{ready, rules};
use super::world::{Kubernetes, World, own, tell};
use crate::publish::plan::{Change, Plan, Rules};

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
fn a_service_claims_its_first_twenty_names_or_fewer_if_its_rule_says_so() {
    let plan = |count, rules| World::of(with_names(count)).under(rules).plan();
    let cases = [
        (20, Rules::default(), 20, 0),
        (21, Rules::default(), 20, 1),
        (3, rules(&[("maxNames", json!(3))]), 3, 0),
        (4, rules(&[("maxNames", json!(3))]), 3, 1),
        (40, rules(&[("maxNames", json!(30))]), 20, 1),
    ];
    for (asked, rules, expected, lines) in cases {
        let plan = plan(asked, rules);
        let first: Vec<String> = (0..expected).map(|index| format!("web-{index:02}")).collect();
        assert_eq!(claimed(&plan), first, "{asked}");
        let codes = plan.held_back.iter().map(|it| it.reason.code());
        assert_eq!(codes.collect::<Vec<_>>(), vec!["TooManyNames"; lines], "{asked}");
    }
    let told = |count, rules| {
        let plan = plan(count, rules);
        plan.held_back.iter().map(|it| it.reason.to_string()).collect::<Vec<_>>().join("\n")
    };
    let both = [told(25, Rules::default()), told(25, rules(&[("maxNames", json!(2))]))];
    assert_snapshot!(both.join("\n"), @r"
    25 names are requested, and the first 20 are claimed: a Service may not claim more
    25 names are requested, and the first 2 are claimed: maxNames of NAME_POLICY is the limit
    ");
}

#[test]
fn names_that_a_rule_denies_are_not_counted() {
    let service = ready("shop/web", "http/other").also("web-1").also("web-2").also("web-3");
    let plan = World::of(service).under(rules(&[("maxNames", json!(2))])).plan();
    assert_eq!(claimed(&plan), ["web-1", "web-2"], "{}", tell(&plan));
}

#[test]
fn a_name_beyond_the_limit_is_left_to_others_and_its_instances_go() {
    let world = World::of(with_names(3))
        .service(ready("ops/web", "http/web-02").created(1_000))
        .http("web-02", [own("a", "shop/web", "10.0.0.9")]);
    let two = rules(&[("maxNames", json!(2)), ("kubernetesNamespaces", json!(["*"]))]);
    assert_snapshot!(world.under(two).told(), @r"
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
    assert_eq!((claimed(&plan), plan.held_back.len()), (vec!["web"], 0), "{}", tell(&plan));
}
