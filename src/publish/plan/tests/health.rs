//! The health of existing instances: the changes that are reported to Cloud Map, and those that are not.

use std::collections::BTreeMap;

use insta::assert_snapshot;

use super::world::{
    Kubernetes, World, foreign, key, lines_of, named, of_other_cluster, ours, own, pod, service,
    with, written,
};
use crate::model::attributes::{HEALTH, INITIAL_HEALTH, REGION};
use crate::model::{Attributes, Endpoint, Health, InstanceKey, KnownHealth, Selection};
use crate::publish::plan::{Policy, Rules};

/// A pod with these conditions.
pub fn found(name: &str, address: &str, conditions: &str) -> Endpoint {
    let is = |word| conditions.contains(word);
    let conditions = (is("ready"), is("serving"), is("terminating"));
    let (ready, serving, terminating) = conditions;
    Endpoint { ready, serving, terminating, ..pod(name, address) }
}

pub fn one(conditions: &str) -> Endpoint {
    found("one", "10.0.0.1", conditions)
}

/// `shop/web` with `health: custom`.
pub fn web(endpoints: impl Into<Vec<Endpoint>>) -> Kubernetes {
    service("shop/web", "http/web").custom_health().ready(endpoints)
}

/// The instance of a pod as this release registers it for `web`.
pub fn registered(pod: &str, address: &str, health: &str) -> Attributes {
    let attributes = with(ours("shop/web", address), "cloud-map-sync/pod", pod);
    with(with(attributes, HEALTH, "custom"), INITIAL_HEALTH, health)
}

/// `http/web` with a custom health check, and the health of its instances in Cloud Map.
pub fn checked<const N: usize>(
    world: World,
    instances: [(&str, Attributes); N],
    known: &[(&str, Health)],
) -> World {
    let known = known.iter().map(|(id, health)| ((*id).to_owned(), *health));
    let known: BTreeMap<String, Health> = known.collect();
    world.http("web", instances).with("http/web", |service| {
        service.custom_health = true;
        service.health = KnownHealth::Read(known);
    })
}

#[test]
fn health_that_differs_is_reported_and_the_initial_one_is_never_compared() {
    use Health::{Healthy, Unhealthy};
    let ready =
        "shop/web: health http/web a: 10.0.0.1 (pod one): UNHEALTHY -> HEALTHY, since it is ready";
    let not_ready = "shop/web: health http/web a: 10.0.0.1 (pod one): HEALTHY -> UNHEALTHY, since it is not ready";
    let cases = [
        ("ready serving", "HEALTHY", Some(Healthy), ""),
        ("ready serving", "UNHEALTHY", Some(Healthy), ""),
        ("ready serving", "HEALTHY", Some(Unhealthy), ready),
        ("", "UNHEALTHY", Some(Unhealthy), ""),
        ("", "HEALTHY", Some(Unhealthy), ""),
        ("", "UNHEALTHY", Some(Healthy), not_ready),
        // Registered a moment ago: the health in its registration holds until Cloud Map reports a newer one.
        ("ready serving", "HEALTHY", None, ""),
        ("ready serving", "UNHEALTHY", None, ready),
        ("", "UNHEALTHY", None, ""),
        ("", "HEALTHY", None, not_ready),
    ];
    for (conditions, initial, known, expected) in cases {
        let known: Vec<_> = known.into_iter().map(|health| ("a", health)).collect();
        let instances = [("a", registered("one", "10.0.0.1", initial))];
        let world = checked(World::of(web([one(conditions)])), instances, &known);
        assert_eq!(world.planned(), expected, "{conditions:?} {initial} {known:?}");
    }
}

#[test]
fn a_rewrite_says_the_health_of_its_moment_and_nothing_else_is_reported() {
    let drifted = with(registered("one", "10.0.0.1", "HEALTHY"), REGION, "us-east-1");
    let known = [("a", Health::Healthy)];
    let world = checked(World::of(web([one("")])), [("a", drifted)], &known);
    assert_snapshot!(world.planned(), @"shop/web: rewrite http/web a: REGION us-east-1 -> eu-central-1, health HEALTHY -> UNHEALTHY");
    assert_eq!(written(&world.plan(), "http/web")["a"].get(INITIAL_HEALTH), Some("UNHEALTHY"));
}

#[test]
fn the_mark_of_custom_health_comes_and_goes_with_the_annotation() {
    let plain = with(ours("shop/web", "10.0.0.1"), "cloud-map-sync/pod", "one");
    let world = |web: Kubernetes, instance| {
        checked(World::of(web), [("a", instance)], &[("a", Health::Unhealthy)])
    };
    let comes = world(web([one("ready serving")]), plain);
    assert_snapshot!(comes.planned(), @"shop/web: rewrite http/web a: cloud-map-sync/health nothing -> custom, health UNHEALTHY -> HEALTHY");
    let membership = service("shop/web", "http/web").ready([one("ready serving")]);
    let goes = world(membership, registered("one", "10.0.0.1", "UNHEALTHY"));
    assert_snapshot!(goes.planned(), @"shop/web: rewrite http/web a: cloud-map-sync/health custom -> nothing");
    assert_eq!(written(&goes.plan(), "http/web")["a"].get(INITIAL_HEALTH), Some("HEALTHY"));
}

#[test]
fn a_check_that_is_missing_under_the_new_name_does_not_keep_the_old_one() {
    let web = service("shop/web", "dns/new").custom_health().ready([one("ready serving")]);
    let instance = with(ours("shop/web", "10.0.0.1"), "cloud-map-sync/pod", "one");
    let world =
        World::of(web).dns("new", [("a", instance)]).dns("old", [own("b", "shop/web", "10.0.0.1")]);
    assert_snapshot!(world.planned(), @r"
    shop/web: deregister dns/old b: 10.0.0.1: Service shop/web asks for another name now
    ! shop/web dns/new: this Cloud Map service was created without a custom health check, and none can be added: only ready pods are registered, as health: membership does; for health: custom choose another name, or recreate the service (NoCustomHealth)
    ");
}

#[test]
fn health_that_could_not_be_read_is_not_changed_and_stops_nothing_else() {
    let endpoints = [one(""), found("two", "10.0.0.2", "ready serving")];
    let instances = [("a", registered("one", "10.0.0.1", "HEALTHY"))];
    let world = checked(World::of(web(endpoints)), instances, &[]);
    let world = world.with("http/web", |service| {
        service.health = KnownHealth::Unreadable("throttled".into());
    });
    assert_snapshot!(world.planned(), @r"
    shop/web: register http/web: 10.0.0.2 (pod two), HEALTHY
    ! shop/web http/web: the health of the instances of this Cloud Map service could not be read, so none is changed: throttled (HealthUnreadable)
    ");
}

#[test]
fn the_health_of_others_is_never_reported() {
    let others = [
        ("a", foreign("10.0.0.1")),
        ("b", with(of_other_cluster("shop/web", "10.0.0.2"), HEALTH, "custom")),
        ("c", registered("one", "10.0.0.1", "UNHEALTHY")),
    ];
    let known = [("a", Health::Unhealthy), ("b", Health::Unhealthy), ("c", Health::Unhealthy)];
    let endpoints = [one("serving"), found("two", "10.0.0.2", "serving")];
    let world = checked(World::of(web(endpoints)), others, &known);
    assert_snapshot!(world.planned(), @r"
    shop/web: register http/web: 10.0.0.2 (pod two), HEALTHY
    shop/web: health http/web c: 10.0.0.1 (pod one): UNHEALTHY -> HEALTHY, since it is ready
    ");
}

#[test]
fn health_is_written_by_policies_that_rewrite() {
    let instances = [("a", registered("one", "10.0.0.1", "HEALTHY"))];
    let world = checked(World::of(web([one("")])), instances, &[]);
    let under =
        |policy| lines_of(&world.clone().under(Rules { policy, ..Rules::default() }).plan());
    assert_eq!(under(Policy::UpsertOnly), under(Policy::Sync));
    assert_snapshot!(under(Policy::CreateOnly), @"! shop/web http/web: POLICY=create-only does not allow this: report the health of a in http/web (Policy)");
}

#[test]
fn health_is_read_only_where_a_plan_has_to_know_it() {
    let mine = || [("a", ours("shop/web", "10.0.0.1"))];
    let before = || [("a", registered("one", "10.0.0.1", "HEALTHY"))];
    let plain = || service("shop/web", "http/web").ready([one("")]);
    let asking = || World::of(web([one("")]));
    let withdrawn = || World::of(web([]).levers(false, None));
    let unchecked = asking().http("web", mine());
    let cases = [
        ("asked for", checked(asking(), mine(), &[]), true),
        ("no check", unchecked, false),
        ("membership", checked(World::of(plain()), mine(), &[]), false),
        ("written before", checked(World::of(plain()), before(), &[]), true),
        ("of a Service that is gone", checked(World::new(), before(), &[]), true),
        ("withdrawn", checked(withdrawn(), mine(), &[]), false),
        ("none of ours", checked(asking(), [("a", foreign("10.0.0.1"))], &[]), false),
    ];
    for (case, world, expected) in cases {
        let asked = |service| {
            let affected = [named(service)].into();
            let observed = world.observed(&Selection::Everything);
            observed.health_needed(&affected)
        };
        assert_eq!(asked("shop/web").contains(&key("http/web")), expected, "{case}");
        assert!(asked("shop/other").is_empty(), "{case}");
    }
}

#[test]
fn an_adopted_instance_is_as_healthy_as_its_pod() {
    for (conditions, expected) in [("ready serving", "HEALTHY"), ("", "UNHEALTHY")] {
        let theirs = with(foreign("10.0.0.1"), INITIAL_HEALTH, "HEALTHY");
        let world = checked(World::of(web([one(conditions)])), [("a", theirs)], &[]);
        let adopted = written(&world.adoption(), "http/web");
        assert_eq!(adopted["a"].get(INITIAL_HEALTH), Some(expected), "{conditions:?}");
    }
}

#[test]
fn only_an_instance_whose_health_is_reported_keeps_it_at_a_registration() {
    let initial = |custom, attributes: &Attributes| {
        let world = checked(World::new(), [], &[("a", Health::Unhealthy)]);
        let world = world.with("http/web", |it| it.custom_health = custom);
        let again = world.0.as_it_is(&InstanceKey::new(&key("http/web"), "a"), attributes);
        again.get(INITIAL_HEALTH).map(str::to_owned)
    };
    let reported = registered("one", "10.0.0.1", "HEALTHY");
    assert_eq!(initial(true, &reported).as_deref(), Some("UNHEALTHY"));
    assert_eq!(initial(false, &reported).as_deref(), Some("HEALTHY"));
    assert_eq!(initial(true, &ours("shop/web", "10.0.0.1")), None);
}
