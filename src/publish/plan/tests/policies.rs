//! The changes that a policy removes from a plan.

use insta::assert_snapshot;

use serde_json::json;

use super::name_policy::rules;
use super::world::{Kubernetes, World, lines_of, ours, own, pod, service, tagged, with};
use crate::model::Endpoint;
use crate::publish::plan::{Policy, Rules};

#[test]
fn policies_take_changes_out_and_say_so() {
    let world = World::of(
        service("shop/web", "http/web").ready([pod("one", "10.0.0.1"), pod("four", "10.0.0.4")]),
    )
    .service(service("shop/new", "http/new").ready([pod("one", "10.0.0.1")]))
    .http(
        "web",
        [
            ("a", with(ours("shop/web", "10.0.0.1"), "REGION", "elsewhere")),
            own("b", "shop/web", "10.0.0.2"),
            own("c", "shop/gone", "10.0.0.3"),
            own("d", "shop/web", "10.0.0.1"),
        ],
    )
    .http("old", [own("e", "shop/web", "10.0.0.1"), own("f", "shop/gone", "10.0.0.3")]);
    let under =
        |policy| lines_of(&world.clone().under(Rules { policy, ..Rules::default() }).plan());
    assert_snapshot!(under(Policy::Sync), @r"
    shop/gone: deregister http/old f: 10.0.0.3: Service shop/gone is gone, or no longer annotated and headless
    shop/new: create http/new: an HTTP service
    shop/new: register http/new: 10.0.0.1 (pod one)
    shop/web: deregister http/old e: 10.0.0.1: Service shop/web asks for another name now; stays until every endpoint is registered under the new name of Service shop/web
    shop/web: rewrite http/web a: REGION elsewhere -> eu-central-1, cloud-map-sync/pod nothing -> one
    shop/web: register http/web: 10.0.0.4 (pod four)
    shop/web: deregister http/web b: 10.0.0.2: no ready endpoint has this address and port
    shop/web: deregister http/web c: 10.0.0.3: Service shop/gone is gone, or no longer annotated and headless
    shop/web: deregister http/web d: 10.0.0.1: another instance of ours has the same address and port
    ");
    assert_snapshot!(under(Policy::UpsertOnly), @r"
    shop/new: create http/new: an HTTP service
    shop/new: register http/new: 10.0.0.1 (pod one)
    shop/web: rewrite http/web a: REGION elsewhere -> eu-central-1, cloud-map-sync/pod nothing -> one
    shop/web: register http/web: 10.0.0.4 (pod four)
    shop/web: deregister http/web b: 10.0.0.2: no ready endpoint has this address and port
    shop/web: deregister http/web d: 10.0.0.1: another instance of ours has the same address and port
    ! shop/gone http/old: POLICY=upsert-only does not allow this: deregister f in http/old (Policy)
    ! shop/web http/old: POLICY=upsert-only does not allow this: deregister e in http/old (Policy)
    ! shop/web http/web: POLICY=upsert-only does not allow this: deregister c in http/web (Policy)
    ");
    assert_snapshot!(under(Policy::CreateOnly), @r"
    shop/new: create http/new: an HTTP service
    shop/new: register http/new: 10.0.0.1 (pod one)
    shop/web: register http/web: 10.0.0.4 (pod four)
    ! shop/gone http/old: POLICY=create-only does not allow this: deregister f in http/old (Policy)
    ! shop/web http/old: POLICY=create-only does not allow this: deregister e in http/old (Policy)
    ! shop/web http/web: POLICY=create-only does not allow this: deregister b in http/web (Policy)
    ! shop/web http/web: POLICY=create-only does not allow this: deregister c in http/web (Policy)
    ! shop/web http/web: POLICY=create-only does not allow this: deregister d in http/web (Policy)
    ! shop/web http/web: POLICY=create-only does not allow this: rewrite a in http/web (Policy)
    ");
}

fn one() -> [Endpoint; 1] {
    [pod("one", "10.0.0.1")]
}

fn two() -> [Endpoint; 2] {
    [pod("one", "10.0.0.1"), pod("two", "10.0.0.2")]
}

fn web() -> Kubernetes {
    service("shop/web", "http/web").ready(two())
}

/// A world in which `shop/web` was registered with both of its pods.
fn registered_for(web: Kubernetes) -> World {
    let of = |pod, address| with(ours("shop/web", address), "cloud-map-sync/pod", pod);
    let instances = [("a", of("one", "10.0.0.1")), ("b", of("two", "10.0.0.2"))];
    World::of(web).http("web", instances)
}

fn other_ttl() -> World {
    let web = service("shop/web", "dns/web").ttl(15).ready(one());
    World::of(web).dns("web", []).with("dns/web", |service| {
        (service.ttls, service.tags) = ([60].into(), tagged("cloud-map-sync"));
    })
}

/// Another Service holds the name and has an instance under it.
fn taken_over() -> World {
    let api = service("shop/api", "http/web").created(1).ready(one());
    let world = registered_for(web().created(2)).service(api);
    world.with("http/web", |service| {
        let (id, instance) = own("c", "shop/api", "10.0.0.1");
        service.instances.get_or_insert_default().insert(id.into(), instance);
    })
}

/// Rules under which `shop` may claim these names with addresses of these ranges.
fn allowing(names: &str, ranges: &str) -> Rules {
    rules(&[("names", json!([names])), ("cidrs", json!([ranges]))])
}

/// Each kind of change and each reason to deregister an instance, with the policies under which it is made. The other
/// policies only report it.
#[test]
fn a_policy_makes_these_changes_and_tells_the_others() {
    const ALL: &[Policy] = &Policy::ALL;
    const UPSERTING: &[Policy] = &[Policy::Sync, Policy::UpsertOnly];
    const SYNC: &[Policy] = &[Policy::Sync];
    let creating = Rules { create_namespaces: true, ..Rules::default() };
    let missing = World::of(service("shop/web", "prod/web").ready(one()));
    let renamed = service("shop/web", "http/new").ready(two());
    let cases = [
        ("create-namespace", missing.under(creating), ALL),
        ("create", World::of(web()), ALL),
        ("register", World::of(web()), ALL),
        ("rewrite", registered_for(web().ready([pod("new", "10.0.0.1")])), UPSERTING),
        ("update", other_ttl(), UPSERTING),
        ("no ready endpoint", registered_for(web().ready(one())), UPSERTING),
        ("max-instances", registered_for(web().levers(true, Some(1))), UPSERTING),
        ("publish", registered_for(web().levers(false, None)), UPSERTING),
        ("this address", registered_for(web()).under(allowing("web", "10.0.0.1/32")), UPSERTING),
        ("this name", registered_for(web()).under(allowing("api", "10.0.0.0/8")), SYNC),
        ("is gone", registered_for(service("shop/other", "http/other")), SYNC),
        ("asks for another name", registered_for(renamed), SYNC),
        ("holds the name now", taken_over(), SYNC),
    ];
    for (change, world, made) in cases {
        for policy in Policy::ALL {
            let plan = world.clone().under(Rules { policy, ..(*world.0.rules).clone() }).plan();
            let mut changes = plan.changes.values().flatten();
            let is_made = changes.any(|it| format!("{it}: {}", it.detail()).contains(change));
            let is_held_back = plan.held_back.iter().any(|it| it.reason.code() == "Policy");
            let expected = (made.contains(&policy), !made.contains(&policy));
            assert_eq!((is_made, is_held_back), expected, "{change} {policy}: {}", lines_of(&plan));
        }
    }
}

#[test]
fn maximum_that_all_pods_fit_in_is_no_remark() {
    let pods = [pod("one", "10.0.0.1"), pod("two", "10.0.0.2")];
    let web = |maximum| service("shop/web", "http/web").levers(true, Some(maximum));
    let held_back = |maximum| World::of(web(maximum).ready(pods.clone())).plan().held_back.len();
    assert_eq!([3, 2, 1].map(held_back), [0, 0, 1]);
}
