//! The sightings that the guard remembers, their places and their end.

use std::collections::BTreeMap;

use insta::assert_snapshot;

use super::{
    after, at, guard_state, held, lost, minutes, note_of, noted, notes, ready, seen, shops,
};
use crate::model::attributes::SIGHTING;
use crate::model::{Attributes, GuardState, Selection};
use crate::publish::plan::notes::sightings;
use crate::publish::plan::tests::world::{
    NOW, World, foreign, key, lines_of, named, of_other_cluster, ours, pod, pods, service, with,
};
use crate::publish::plan::{Change, Extent, Plan, Policy, Rules, with_note};

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
    assert!(
        plan.guard.as_ref().is_some_and(|status| !status.needs_operator()),
        "{}",
        lines_of(&plan)
    );
    let world = after(world, &plan);
    for (id, attributes) in others {
        assert_eq!(world.0.registry.instance(&key("http/a"), id), Some(&attributes));
    }
}

/// The world in which so many pods of both Services are ready.
fn both(world: World, count: usize) -> World {
    ["a", "b"].into_iter().fold(world, |world, name| ready(world, name, count))
}

#[test]
fn each_held_service_has_a_note_of_its_own_and_loses_it_when_its_loss_is_over() {
    let world = seen(shops(&[("a", 4, Some(0)), ("b", 4, Some(0))]));
    let of = |name: &str| (format!("{name}-0"), note_of(name));
    assert_eq!(notes(&world), ["a", "b"].map(of));
    let over = both(world.clone(), 4);
    let plan = over.plan();
    assert_snapshot!(lines_of(&plan), @r"
    shop/a: rewrite http/a a-0: cloud-map-sync/guard 2026-11-21T10:51:00Z -> nothing
    shop/b: rewrite http/b b-0: cloud-map-sync/guard 2026-11-21T10:51:00Z -> nothing
    ");
    let over = after(over, &plan);
    assert!(notes(&over).is_empty() && over.plan().changes.is_empty());
    let again = at(both(over, 0), NOW + minutes(20)).plan();
    assert_eq!(again.guard.and_then(|status| status.first_seen()), Some(NOW + minutes(20)));
    // The pods of one of three are back.
    let three = seen(shops(&["a", "b", "c"].map(|name| (name, 4, Some(0)))));
    let one_back = ready(three, "a", 4);
    let one_back = after(one_back.clone(), &one_back.plan());
    assert_eq!(noted(&one_back), ["b-0", "c-0"]);
}

/// The pods are back at 10:05, so that an accident at 10:30 is a new loss, although the wait of the first note is over.
#[test]
fn note_of_a_loss_that_was_over_lets_no_later_one_pass() {
    let world = seen(shops(&[("a", 4, Some(0)), ("b", 4, Some(0))]));
    let back = at(both(world, 4), NOW + minutes(5));
    let back = after(back.clone(), &back.plan());
    let plan = at(both(back, 0), NOW + minutes(30)).plan();
    assert_eq!((guard_state(&plan), lost(&plan, "a")), (Some(GuardState::Held), 0));
}

#[test]
fn note_counts_on_an_instance_of_its_service_alone() {
    let noted_as = |text: String| {
        let world = shops(&[("a", 4, Some(0)), ("b", 4, Some(0))]);
        let world = at(world, NOW + minutes(10)).with("http/a", |it| {
            let instances = it.instances.as_mut().expect("read");
            instances.get_mut("a-0").expect("it is there").insert(SIGHTING, text);
        });
        let observed = world.observed(&Selection::Everything);
        ["a", "b"].map(|name| sightings(&observed).contains_key(&named(&format!("shop/{name}"))))
    };
    assert_eq!(noted_as(note_of("a")), [true, false]);
    assert_eq!(noted_as(note_of("b")), [false, false]);
    assert_eq!(noted_as("soon".to_owned()), [false, false]);
}

#[test]
fn full_sync_holds_a_service_by_its_oldest_note_until_that_expires() {
    let before = shops(&[("a", 4, Some(0)), ("b", 4, Some(0)), ("c", 1, Some(1))]);
    let is_held = |world: &World| {
        let observed = world.observed(&Selection::Everything);
        ["a", "b", "c"]
            .map(|name| sightings(&observed).contains_key(&named(&format!("shop/{name}"))))
    };
    assert_eq!(is_held(&before), [false; 3], "there is no note");
    let world = seen(before);
    assert_eq!(is_held(&world), [true, true, false]);
    assert_eq!(is_held(&at(world.clone(), NOW + minutes(60))), [true, true, false]);
    assert_eq!(is_held(&at(world.clone(), NOW + minutes(61))), [false; 3]);
    let note = |id: &str, time: &str| (id.to_owned(), note_of("a").replace("10:51", time));
    let twice = [note("a-0", "10:55"), note("a-1", "10:51")].into_iter().fold(
        world,
        |world, (id, text)| {
            world.with("http/a", |it| {
                let instances = it.instances.as_mut().expect("read");
                instances.get_mut(&id).expect("it is there").insert(SIGHTING, text);
            })
        },
    );
    let sightings = sightings(&twice.observed(&Selection::Everything));
    assert_eq!(sightings[&named("shop/a")].first_seen, NOW);
}

/// A message about one of the held Services takes nothing out: each has its note on instances that the message reads.
#[test]
fn messages_about_each_of_the_held_services_take_nothing_out() {
    let names = ["a", "b", "c"];
    let world = seen(shops(&names.map(|name| (name, 4, Some(0)))));
    for name in names {
        let mut part = world.clone();
        part.0.extent = Extent::Part;
        part.0.registry.services.retain(|key, _| key.name.as_str() == name);
        let plan = crate::publish::plan::plan(
            &part.observed(&Selection::service(named(&format!("shop/{name}")))),
        );
        assert_eq!(
            (guard_state(&plan), lost(&plan, name)),
            (Some(GuardState::HeldByFullSync), 0),
            "{name}"
        );
    }
}

#[test]
fn nobody_else_gets_the_name_of_a_held_service() {
    let next = service("shop/next", "http/a").ready([pod("new", "10.0.1.1")]);
    let world = shops(&[("a", 4, None), ("b", 4, None)]).service(next);
    let refused = |world: &World| {
        let plan = world.plan();
        let lines = plan.held_back.iter().filter(|it| it.service.name == "next");
        let codes: Vec<_> = lines.map(|it| it.reason.code()).collect();
        let is_registered = plan.changes.values().flatten().any(Change::is_registration);
        (held(&plan).len(), codes, is_registered)
    };
    // In the run that sees the loss first, and in those after it.
    assert_eq!(refused(&world), (2, vec!["DomainConflict"], false));
    let noted = after(world.clone(), &world.plan());
    assert_eq!(refused(&noted), (2, vec!["DomainConflict"], false));
    // Once the loss may pass, the next one has an instance before the last of the former one goes.
    let ripe = at(noted.clone(), NOW + minutes(10));
    assert_eq!(refused(&ripe), (0, vec![], true));
    assert_eq!((lost(&ripe.plan(), "a"), lost(&ripe.plan(), "b")), (4, 4));
    // What a third Service has left there stays until the loss is decided, as it would until the next holder comes.
    let third = noted.clone().with("http/a", |it| {
        let instances = it.instances.as_mut().expect("read");
        instances.insert("third".into(), ours("shop/third", "10.0.1.3"));
    });
    let third = third.service(service("shop/third", "http/b").levers(false, None));
    assert_eq!(lost(&third.plan(), "third"), 0);
    // One that has an instance beside those stays.
    let beside = world.with("http/a", |it| {
        let instances = it.instances.as_mut().expect("read");
        instances.insert("beside".into(), ours("shop/next", "10.0.1.2"));
    });
    let (held_services, codes, is_registered) = refused(&beside);
    assert_eq!((held_services, codes, is_registered), (2, vec![], true));
}

/// The loss of `a` alone is within the limits.
#[test]
fn name_passes_on_in_the_run_after_the_one_that_no_longer_holds_its_service() {
    let next = service("shop/next", "http/a").ready([pod("new", "10.0.1.1")]);
    let world = seen(shops(&[("a", 4, None), ("b", 4, None)]).service(next));
    let over = ready(world, "b", 4);
    let registers = |plan: &Plan| plan.changes.values().flatten().any(Change::is_registration);

    let plan = over.plan();

    assert_eq!((registers(&plan), lost(&plan, "a")), (false, 0), "{}", lines_of(&plan));
    let left = plan.held_back.iter().filter(|line| line.reason.code() == "Waiting").count();
    assert_eq!(left, 4, "{}", lines_of(&plan));
    let again = after(over, &plan);
    assert_eq!(notes(&again), []);
    let plan = again.plan();
    assert_eq!((registers(&plan), lost(&plan, "a")), (true, 4), "{}", lines_of(&plan));
}

#[test]
fn note_says_how_many_instances_its_service_would_be_left_with() {
    let left = |world: &World| {
        let plan = world.plan();
        assert_eq!(guard_state(&plan), Some(GuardState::Held), "{}", lines_of(&plan));
        let notes = notes(&after(world.clone(), &plan));
        let of = |(_, text): &(String, String)| {
            text.split_once('+').map_or("0", |(_, left)| left).to_owned()
        };
        notes.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(left(&shops(&[("a", 9, Some(2)), ("b", 9, None)])), ["2", "0"]);
    // Three new pods besides two that stay.
    let both = [pods("10.0.0", 0..2), pods("10.0.1", 0..3)].concat();
    let world = shops(&[("a", 12, Some(2)), ("b", 9, None)]);
    assert_eq!(left(&world.service(service("shop/a", "http/a").ready(both))), ["5", "0"]);
}

/// The world in which no instance under a name has room for a mark.
fn full(world: World, place: &str) -> World {
    let attributes = (0..23).map(|index| (format!("k{index}"), "x".to_owned()));
    let attributes: Attributes = attributes.collect();
    world.with(place, |it| {
        it.instances.as_mut().expect("read").values_mut().for_each(|it| it.extend(&attributes));
    })
}

/// Only what is noted lets a loss pass by itself.
#[test]
fn service_without_room_for_a_note_waits_for_a_person_and_leaves_messages_to_the_full_sync() {
    let world = full(shops(&[("a", 5, None), ("b", 5, None)]), "http/a");
    let plan = world.plan();
    assert_eq!(
        plan.guard.as_ref().map(|status| &status.without_note),
        Some(&[named("shop/a")].into())
    );
    let world = after(world, &plan);
    assert_eq!(noted(&world), ["b-0"]);
    let later = at(world.clone(), NOW + minutes(10)).plan();
    // `b` may go by then, and `a`, which is alone and not in the cluster, stays.
    assert_eq!(
        (guard_state(&later), lost(&later, "a"), lost(&later, "b")),
        (Some(GuardState::Held), 0, 5)
    );
    let mut part = full(shops(&[("a", 3, Some(0)), ("b", 3, Some(3))]), "http/a");
    part.0.extent = Extent::Part;
    let plan = crate::publish::plan::plan(&part.observed(&Selection::service(named("shop/a"))));
    assert_eq!((guard_state(&plan), lost(&plan, "a")), (Some(GuardState::HeldByFullSync), 0));
}

/// A key and 60 characters.
#[test]
fn new_instance_keeps_room_for_a_note() {
    let of = |keys: usize, characters: usize| {
        let annotated = (0..keys).map(|index| (format!("k{index}"), "x".to_owned()));
        let long = ("long".to_owned(), "x".repeat(characters));
        let attributes: Attributes = annotated.chain([long]).collect();
        let size: usize = attributes.iter().map(|(key, value)| key.len() + value.len()).sum();
        (attributes.len(), size, attributes.beyond_limits_with_note().is_none())
    };
    assert_eq!(
        [of(28, 1), of(29, 1)].map(|(count, _, fits)| (count, fits)),
        [(29, true), (30, false)]
    );
    assert_eq!(
        [of(0, 4936), of(0, 4937)].map(|(_, size, fits)| (size, fits)),
        [(4940, true), (4941, false)]
    );
    let text = note_of("a") + "+20000";
    assert!(SIGHTING.len() + text.len() <= 60, "{}", SIGHTING.len() + text.len());
}

#[test]
fn a_rewrite_carries_the_note_over_and_the_note_alone_is_no_difference() {
    let world = seen(shops(&[("a", 4, None), ("b", 4, None)]));
    assert_eq!(world.plan().changes, BTreeMap::new());
    // The noted instance is wanted again, by another pod.
    let world = world.service(service("shop/a", "http/a").ready([pod("two", "10.0.0.0")]));
    let plan = world.plan();
    assert_eq!(guard_state(&plan), Some(GuardState::Held));
    assert_eq!(noted(&after(world, &plan)), ["a-0", "b-0"], "{}", lines_of(&plan));
}

#[test]
fn instance_that_passes_to_another_service_drops_the_note() {
    let world = seen(shops(&[("a", 4, None), ("b", 4, None)]));
    let beside = world.with("http/a", |it| {
        let instances = it.instances.as_mut().expect("read");
        instances.insert("beside".into(), ours("shop/next", "10.0.1.2"));
    });
    let ready = [pod("new", "10.0.1.2"), pod("two", "10.0.0.0")];
    let passed = beside.service(service("shop/next", "http/a").ready(ready));
    let after = after(passed.clone(), &passed.plan());
    let instance = after.0.registry.instance(&key("http/a"), "a-0").expect("it stays");
    assert_eq!(
        (instance.get("cloud-map-sync/service"), instance.contains_key(SIGHTING)),
        (Some("next"), false)
    );
}

#[test]
fn the_note_is_taken_off_in_the_turn_in_which_its_instance_goes() {
    let marked = with(ours("shop/left", "10.0.0.1"), SIGHTING, &note_of("left"));
    let world = shops(&[])
        .service(service("ops/next", "http/a").ready([pod("two", "10.0.0.2")]))
        .service(service("shop/left", "http/new").levers(false, None))
        .http("a", [("a-0", marked)]);
    assert_snapshot!(at(world, NOW + minutes(10)).planned(), @r"
    ops/next: register http/a: 10.0.0.2 (pod two)
    ops/next: deregister http/a a-0: 10.0.0.1: Service shop/left asks for another name now; stays until Service ops/next has an instance under this name
    ops/next: rewrite http/a a-0: cloud-map-sync/guard 2026-11-21T10:51:00Z -> nothing
    ");
}

#[test]
fn the_note_of_an_instance_that_goes_needs_no_call() {
    let world = shops(&[("a", 4, Some(3))]).with("http/a", |it| {
        let marked = it.instances.as_mut().expect("read").get_mut("a-3").expect("it is there");
        marked.insert(SIGHTING, note_of("a"));
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
        assert_eq!(
            forgets,
            if policy == Policy::UpsertOnly { 2 } else { 0 },
            "{}",
            lines_of(&plan)
        );
        assert_eq!(guard_state(&plan).is_some(), policy == Policy::Sync, "{policy}");
    }
}

/// One that passed to another Service since the plan was made gets no note.
#[test]
fn note_is_written_on_an_instance_of_its_service_as_it_is_by_then() {
    let world = shops(&[("a", 4, None)]);
    let observed = world.observed(&Selection::Everything);
    let mut present =
        observed.registry.instance(&key("http/a"), "a-0").expect("it is there").clone();
    present.insert("by-hand", "since");
    let written =
        with_note(&observed.owner, &named("shop/a"), &present, Some("x")).expect("its own");
    assert_eq!([SIGHTING, "by-hand"].map(|key| written.get(key)), [Some("x"), Some("since")]);
    assert_eq!(with_note(&observed.owner, &named("shop/b"), &present, Some("x")), None);
}
