//! Cloud Map services that could not be read: those that leave a run incomplete, and those of another party.

use super::world::{World, foreign, key, of_other_cluster, own, pod, service, tagged};
use crate::model::{CloudMapService, Selection, ServiceTags, Tags};
use crate::publish::plan::{Plan, unread};

/// `web` in sync, beside `http/other`, which could not be read.
fn world(change: impl FnOnce(&mut CloudMapService)) -> World {
    World::of(service("shop/web", "http/web").ready([pod("one", "10.0.0.1")]))
        .http("web", [own("a", "shop/web", "10.0.0.1")])
        .http("other", [])
        .with("http/other", |service| {
            (service.instances, service.instance_count) = (None, 4);
            (service.unreadable, service.is_denied) = (Some("denied".into()), true);
            change(service);
        })
}

/// Whether the run is incomplete because of it, or only reports that it was not read.
fn is_incomplete(plan: &Plan) -> bool {
    let of_other = plan.unchanged.iter().find(|(place, _)| place.key == key("http/other"));
    let (_, unchanged) = of_other.expect("something is said of it");
    assert_eq!(unchanged.unreadable.is_some(), unchanged.left_unread.is_none());
    unchanged.unreadable.is_some()
}

#[test]
fn only_what_may_not_be_read_and_was_never_ours_leaves_a_run_complete() {
    let untagged = Tags::Read(ServiceTags::default());
    let denied = |tags: Tags| world(move |service| service.tags = tags);
    let cases = [
        (world(|service| service.is_denied = false), true),
        (world(|service| service.was_ours = true), true),
        (denied(tagged("cloud-map-sync")), true),
        (denied(tagged("team-a")), false),
        (denied(untagged), false),
        (denied(Tags::Unreadable("denied".into())), false),
    ];
    for (index, (world, expected)) in cases.into_iter().enumerate() {
        assert_eq!(is_incomplete(&world.plan()), expected, "{index}");
        let part = world.plan_for(&Selection::namespace("shop"));
        assert_eq!(is_incomplete(&part), expected, "{index}");
    }
}

#[test]
fn what_is_claimed_is_held_back_and_said_once() {
    let plan = world(|_| ()).service(service("shop/other", "http/other")).plan();
    let reasons: Vec<&str> = plan.held_back.iter().map(|it| it.reason.code()).collect();
    assert_eq!(reasons, ["Unreadable"]);
    let mut unchanged = plan.unchanged.values();
    assert!(unchanged.all(|it| it.unreadable.is_none() && it.left_unread.is_none()));
}

#[test]
fn its_tag_is_asked_for_only_where_that_decides() {
    let asked =
        |world: World| !unread::tags_needed(&world.observed(&Selection::Everything)).is_empty();
    assert!(asked(world(|_| ())));
    assert!(!asked(world(|service| service.is_denied = false)));
    assert!(!asked(world(|service| service.was_ours = true)));
    assert!(!asked(world(|_| ()).service(service("shop/other", "http/other"))));
}

#[test]
fn keys_of_services_that_could_not_be_read() {
    assert_eq!(unread::keys(&world(|_| ()).0), [key("http/other")].into());
    assert!(unread::keys(&world(|service| service.unreadable = None).0).is_empty());
}

#[test]
fn service_is_seen_as_ours_by_its_tag_or_by_the_marks_of_an_instance() {
    let is_seen = |instances: [_; 1], by: &str| {
        let world = World::new().http("web", instances);
        let world = world.with("http/web", |service| service.tags = tagged(by));
        unread::seen_as_ours(&world.0).count() == 1
    };
    assert!(is_seen([("a", foreign("10.0.0.1"))], "cloud-map-sync"));
    assert!(is_seen([own("a", "shop/web", "10.0.0.1")], "team-a"));
    assert!(is_seen([("a", of_other_cluster("shop/web", "10.0.0.1"))], "team-a"));
    assert!(!is_seen([("a", foreign("10.0.0.1"))], "team-a"));
}

#[test]
fn each_service_that_could_not_be_read_has_its_own_line() {
    let world = world(|_| ()).service(service("shop/other", "http/other")).http("second", []).with(
        "http/second",
        |service| {
            (service.instances, service.unreadable) = (None, Some("throttled".into()));
        },
    );
    let plan = world.plan();
    let unread = |place: &str| {
        let found = plan.unchanged.iter().find(|(it, _)| it.key == key(place));
        found.is_some_and(|(_, it)| it.unreadable.is_some())
    };
    assert_eq!((unread("http/other"), unread("http/second")), (false, true));
}
