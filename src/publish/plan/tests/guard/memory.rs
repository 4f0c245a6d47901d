//! The sightings that the guard remembers, their places and their end.

use std::collections::BTreeMap;

use insta::assert_snapshot;

use super::{after, at, marks, minutes, ready, seen, shops, stand};
use crate::model::attributes::SIGHTING;
use crate::model::{Attributes, GuardState, Selection};
use crate::publish::plan::tests::world::{
    NOW, World, foreign, key, lines_of, named, of_other_cluster, ours, pod, pods, service, with,
};
use crate::publish::plan::{Extent, Policy, Rules};

#[test]
fn others_are_neither_counted_nor_marked() {
    let others = [
        ("x", of_other_cluster("shop/a", "10.0.2.1")),
        ("y", foreign("10.0.2.2")),
        ("z", with(of_other_cluster("shop/a", "10.0.2.3"), SIGHTING, &NOW.to_string())),
    ];
    let mut world = shops(&[("a", 2, None), ("b", 2, None)]);
    for (id, attributes) in others.clone() {
        world = world.with("http/a", |it| {
            it.instances.as_mut().expect("read").insert(id.to_owned(), attributes);
        });
    }
    let plan = world.plan();
    assert_eq!(
        plan.guard
            .as_ref()
            .map(|status| (crate::guard::total(status.verdict.losses()), status.verdict.instances)),
        Some((4, 4))
    );
    assert!(plan.guard.as_ref().is_some_and(|status| !status.later_look), "{}", lines_of(&plan));
    let world = after(world, &plan);
    for (id, attributes) in others {
        assert_eq!(world.0.registry.instance(&key("http/a"), id), Some(&attributes));
    }
}

#[test]
fn what_was_seen_is_forgotten_when_the_loss_is_over() {
    let world = seen(shops(&[("a", 4, Some(0)), ("b", 4, Some(0))]));
    assert_eq!(marks(&world).len(), 1);
    let back = |world: World, count: usize| {
        ["a", "b"].into_iter().fold(world, |world, name| ready(world, name, count))
    };
    let over = back(world, 4);
    let plan = over.plan();
    assert_snapshot!(lines_of(&plan), @"shop/a: rewrite http/a a-0: cloud-map-sync/guard 2026-11-21T10:51:00Z -> nothing");
    let over = after(over, &plan);
    assert!(marks(&over).is_empty() && over.plan().changes.is_empty());
    let again = at(back(over, 0), NOW + minutes(20)).plan();
    assert_eq!(again.guard.and_then(|status| status.verdict.first_seen), Some(NOW + minutes(20)));
}

#[test]
fn full_sync_holds_the_services_of_its_note_until_that_expires() {
    let before = shops(&[("a", 4, Some(0)), ("b", 4, Some(0)), ("c", 1, Some(1))]);
    let is_held =
        |world: &World| ["a", "b", "c"].map(|it| world.0.is_held(&named(&format!("shop/{it}"))));
    assert_eq!(is_held(&before), [false; 3], "there is no note");
    let world = seen(before);
    assert_eq!(is_held(&world), [true, true, false]);
    assert_eq!(is_held(&at(world.clone(), NOW + minutes(60))), [true, true, false]);
    assert_eq!(is_held(&at(world, NOW + minutes(61))), [false; 3]);
}

#[test]
fn sync_of_a_part_reads_the_note_if_the_part_would_lose_something_and_there_is_one() {
    let would_lose_of =
        |world: &World, selection: &Selection| world.observed(selection).would_lose();
    let would_lose =
        |world: &World, service: &str| would_lose_of(world, &Selection::service(named(service)));
    let is_quiet = |world: &World| {
        let observed = world.observed(&Selection::Everything);
        observed.is_quiet()
    };
    let world = shops(&[("a", 4, Some(0)), ("b", 4, Some(0)), ("c", 1, Some(1))]);
    assert_eq!((would_lose(&world, "shop/a"), would_lose(&world, "shop/c")), (true, false));
    assert!(is_quiet(&world) && !is_quiet(&seen(world.clone())));
    // A targeted sync leaves such a loss to the full sync: that it would be held is no matter here.
    let part = |extent| {
        let mut world = shops(&[("a", 9, Some(0))]);
        world.0.extent = extent;
        would_lose(&world, "shop/a")
    };
    assert_eq!([Extent::Part, Extent::Everything].map(part), [true; 2]);
    let held = |extent| {
        let mut world = shops(&[("a", 4, Some(0)), ("b", 4, Some(0))]);
        world.0.extent = extent;
        would_lose_of(&world, &Selection::namespace("shop"))
    };
    assert_eq!([Extent::Part, Extent::Everything].map(held), [true; 2]);
}

#[test]
fn note_says_how_many_instances_each_service_would_be_left_with() {
    let left = |world: &World| {
        let plan = world.plan();
        assert_eq!(stand(&plan), Some(GuardState::Held), "{}", lines_of(&plan));
        let marks = marks(&after(world.clone(), &plan));
        let of = |entry: &str| entry.split_once('+').map_or("0", |(_, left)| left).to_owned();
        let mut left: Vec<String> = marks[0].split(' ').skip(1).map(of).collect();
        left.sort();
        left
    };
    assert_eq!(left(&shops(&[("a", 9, Some(2)), ("b", 9, None)])), ["0", "2"]);
    // Three new pods besides two that stay.
    let both = [pods("10.0.0", 0..2), pods("10.0.1", 0..3)].concat();
    let world = shops(&[("a", 12, Some(2)), ("b", 9, None)]);
    assert_eq!(left(&world.service(service("shop/a", "http/a").ready(both))), ["0", "5"]);
}

/// The world in which no instance under a name has room for a mark.
fn full(world: World, place: &str) -> World {
    let attributes = (0..23).map(|index| (format!("k{index}"), "x".to_owned()));
    let attributes: Attributes = attributes.collect();
    world.with(place, |it| {
        it.instances.as_mut().expect("read").values_mut().for_each(|it| it.extend(&attributes));
    })
}

#[test]
fn the_mark_goes_where_there_is_room() {
    let world = seen(full(shops(&[("a", 2, None), ("b", 2, None)]), "http/a"));
    let marked = world.0.registry.instance(&key("http/b"), "b-0").expect("it is there");
    assert_eq!((marks(&world).len(), marked.contains_key(SIGHTING)), (1, true));
}

#[test]
fn service_that_is_left_for_another_name_comes_last_for_notes() {
    let world = full(full(shops(&[("a", 1, None), ("b", 3, None)]), "http/a"), "http/b");
    let places = |world: &World| world.observed(&Selection::Everything).services_for_notes().0;
    assert_eq!(places(&world), [key("http/a"), key("http/b")], "both are gone");
    let renamed = service("shop/a", "http/c").ready(pods("10.0.0", 0..1));
    assert_eq!(places(&world.service(renamed)), [key("http/b"), key("http/a")]);
}

#[test]
fn a_rewrite_carries_the_mark_over_and_the_mark_alone_is_no_difference() {
    let world = seen(shops(&[("a", 4, None), ("b", 4, None)]));
    assert_eq!(world.plan().changes, BTreeMap::new());
    // The marked instance is wanted again, by another pod.
    let world = world.service(service("shop/a", "http/a").ready([pod("two", "10.0.0.0")]));
    let plan = world.plan();
    assert_eq!(stand(&plan), Some(GuardState::Held));
    assert_eq!(marks(&after(world, &plan)).len(), 1, "{}", lines_of(&plan));
}

#[test]
fn the_mark_is_taken_off_in_the_turn_in_which_its_instance_goes() {
    let marked = with(ours("shop/left", "10.0.0.1"), SIGHTING, &NOW.to_string());
    let world = shops(&[])
        .service(service("ops/next", "http/a").ready([pod("two", "10.0.0.2")]))
        .service(service("shop/left", "http/new").levers(false, None))
        .http("a", [("a-0", marked)]);
    assert_snapshot!(world.planned(), @r"
    ops/next: rewrite http/a a-0: cloud-map-sync/guard 2026-11-21T10:51:00Z -> nothing
    ops/next: register http/a: 10.0.0.2 (pod two)
    ops/next: deregister http/a a-0: 10.0.0.1: Service shop/left asks for another name now; stays until Service ops/next has an instance under this name
    ");
}

#[test]
fn the_mark_of_an_instance_that_goes_needs_no_call() {
    let world = shops(&[("a", 4, Some(3))]).with("http/a", |it| {
        let marked = it.instances.as_mut().expect("read").get_mut("a-3").expect("it is there");
        marked.insert(SIGHTING, NOW.to_string());
    });
    assert_snapshot!(world.planned(), @"shop/a: deregister http/a a-3: 10.0.0.3 (pod one): no ready endpoint has this address and port");
}

#[test]
fn a_policy_that_rewrites_nothing_remembers_nothing() {
    let world = seen(shops(&[("a", 4, None), ("b", 4, None)]));
    for policy in Policy::ALL {
        let rules = Rules { policy, ..(*world.0.rules).clone() };
        let plan = world.clone().under(rules).plan();
        let forgets = plan.changes.values().flatten().count();
        assert_eq!(forgets, usize::from(policy == Policy::UpsertOnly), "{}", lines_of(&plan));
        assert_eq!(stand(&plan).is_some(), policy == Policy::Sync, "{policy}");
    }
}
