//! The second judgement of a run: the removals that are left when all registrations are done, judged on the instances
//! that are registered then.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Shop, confirmed, guard_state, held, lost, note_of, noted as noted_on, shops};
use crate::model::attributes::{POD, SIGHTING};
use crate::model::{GuardState, Outcome, Place, Selection};
use crate::publish::group::{Effect, GroupSync, PlannedChange, Step};
use crate::publish::plan::tests::world::{
    World, foreign, key, lines_of, named, ours, own, pod, pods, service, with,
};
use crate::publish::plan::{
    Baseline, Change, DeregisterReason, Exchange, Extent, Permits, Plan, PlanPhase, Stage, Task,
    depends_on_additions, plan,
};

/// A Service with so many instances, all of whose pods were replaced by so many others.
type Replaced<'a> = (&'a str, usize, u8);

fn replaced(all: &[Replaced<'_>]) -> World {
    let before: Vec<Shop<'_>> = all.iter().map(|(name, count, _)| (*name, *count, None)).collect();
    all.iter().fold(shops(&before), |world, (name, _, ready)| {
        let ready = pods("10.0.1", 0..*ready);
        world.service(service(&format!("shop/{name}"), &format!("http/{name}")).ready(ready))
    })
}

/// What the second judgement measures the loss on, if the plan of a full sync needs one.
fn judged(world: &World) -> Option<Baseline> {
    let observed = world.observed(&Selection::Everything);
    let is_judged_again = depends_on_additions(&observed, &plan(&observed));
    is_judged_again.then(|| Baseline::of(&observed, &BTreeSet::new()))
}

/// The world after so many registrations of each Service; Cloud Map refused the others.
fn registered(mut world: World, count: usize) -> World {
    for (service, changes) in &world.plan().changes {
        for change in changes.iter().filter(|it| it.stage() == Stage::Register).take(count) {
            world.0.record_change(service, change);
        }
    }
    world
}

/// The plan of the removals.
fn remainder(mut world: World, judged: Option<Baseline>) -> Plan {
    world.0.phase = if judged.is_some() { PlanPhase::AfterAdditions } else { PlanPhase::Group };
    world.0.baseline = judged.map(Arc::new);
    world.plan()
}

#[test]
fn plan_is_judged_again_if_only_its_registrations_keep_it_within_the_limits() {
    let cases: [(&[Replaced<'_>], bool); 5] = [
        (&[("a", 6, 6), ("b", 6, 6)], true),
        // A single Service that was read may lose all.
        (&[("a", 6, 6)], false),
        // Three instances, and half of them, are within the limits.
        (&[("a", 2, 2), ("b", 1, 1)], false),
        (&[("a", 2, 2), ("b", 2, 2)], true),
        (&[("a", 6, 6), ("b", 0, 0)], false),
    ];
    for (all, expected) in cases {
        let world = replaced(all);
        assert_eq!(guard_state(&world.plan()), None, "{all:?}");
        assert_eq!(judged(&world).is_some(), expected, "{all:?}");
    }
}

#[test]
fn removals_are_held_if_too_few_registrations_were_made() {
    for (made, expected) in
        [(6, None), (3, None), (2, Some(GuardState::Held)), (1, Some(GuardState::Held))]
    {
        let world = replaced(&[("a", 6, 6), ("b", 6, 6)]);
        let judged = judged(&world);
        let plan = remainder(registered(world, made), judged);
        assert_eq!(guard_state(&plan), expected, "{made}:\n{}", lines_of(&plan));
        let removed = if expected.is_some() { 0 } else { 6 };
        assert_eq!((lost(&plan, "a"), lost(&plan, "b")), (removed, removed), "{made}");
        let status =
            plan.guard.map(|it| (crate::guard::total(it.verdict.losses()), it.verdict.instances));
        assert_eq!(status, expected.map(|_| (2 * (6 - made), 12)), "{made}");
    }
}

#[test]
fn removals_that_wait_for_a_registration_are_not_judged_again() {
    let world = replaced(&[("a", 1, 1), ("b", 1, 1), ("c", 1, 1), ("d", 1, 1)]);
    let judged = judged(&world);
    assert!(judged.is_some());
    let plan = remainder(world, judged);
    assert_eq!(guard_state(&plan), None);
    assert_eq!(["a", "b", "c", "d"].map(|it| lost(&plan, it)), [1; 4]);
    let mut removals =
        plan.changes.values().flatten().filter(|it| it.deregisters_instance_of().is_some());
    assert!(removals.all(|it| it.waits_for().is_some()), "{}", lines_of(&plan));
}

#[test]
fn remainder_without_a_first_judgement_is_not_judged() {
    let plan = remainder(registered(replaced(&[("a", 6, 6), ("b", 6, 6)]), 1), None);
    assert_eq!((guard_state(&plan), lost(&plan, "a")), (None, 6));
    let plan = remainder(shops(&[("a", 6, Some(0)), ("b", 6, None)]), None);
    assert_eq!((guard_state(&plan), lost(&plan, "a"), lost(&plan, "b")), (None, 6, 6));
}

/// With `c`, which stays and carries the note of an earlier loss.
fn noted(world: World) -> World {
    let marked = with(own("c", "shop/c", "10.0.2.1").1, SIGHTING, &note_of("c"));
    world
        .service(service("shop/c", "http/c").ready([pod("one", "10.0.2.1")]))
        .http("c", [("c", with(marked, POD, "one"))])
}

/// The changes of the instance that carries the note.
fn changes_of_the_note(plan: &Plan) -> usize {
    plan.changes.values().flatten().filter(|it| it.place().key == key("http/c")).count()
}

#[test]
fn note_stays_until_the_judgement_that_finds_no_loss() {
    let world = noted(replaced(&[("a", 6, 6), ("b", 6, 6)]));
    let judged = judged(&world);
    assert!(judged.is_some());
    assert_eq!(changes_of_the_note(&world.plan()), 0, "the second judgement may hold it");
    let once = noted(replaced(&[("a", 2, 2), ("b", 1, 1)]));
    assert!(self::judged(&once).is_none());
    assert_eq!(changes_of_the_note(&once.plan()), 1, "it is over");
    let plan = remainder(registered(world, 6), judged);
    assert_eq!((guard_state(&plan), lost(&plan, "a"), lost(&plan, "b")), (None, 6, 6));
    assert_eq!(changes_of_the_note(&plan), 1, "the second judgement says so");
}

#[test]
fn sync_of_a_part_leaves_the_note_alone() {
    let world = noted(replaced(&[("a", 2, 2)]));
    let changes = |extent| {
        let mut world = world.clone();
        world.0.extent = extent;
        changes_of_the_note(&world.plan())
    };
    assert_eq!((changes(Extent::Part), changes(Extent::Everything)), (0, 1));
}

#[test]
fn note_of_the_second_judgement_is_written_at_once_and_lets_pass_later() {
    let world = replaced(&[("a", 6, 6), ("b", 6, 6)]);
    let judged = judged(&world);
    let world = registered(world, 1);
    let mut plan = remainder(world.clone(), judged.clone());
    assert_eq!(held(&plan), ["a", "b"]);
    // Cloud Map still refuses the registrations.
    plan.changes.values_mut().for_each(|it| it.retain(|it| !matches!(it, Change::Register { .. })));
    let noted = super::after(world.clone(), &plan);
    assert_eq!(noted_on(&noted), ["a-0", "b-0"], "{}", lines_of(&plan));
    // The same loss is seen a second time in this run: its notes stay as they are.
    let again = super::after(noted.clone(), &remainder(noted.clone(), judged));
    assert_eq!(super::notes(&again), super::notes(&noted));
    // A person has confirmed it.
    let before = confirmed(replaced(&[("a", 6, 6), ("b", 6, 6)]));
    let of_confirmed = self::judged(&before);
    let plan = remainder(registered(before, 1), of_confirmed);
    assert_eq!((guard_state(&plan), lost(&plan, "a")), (Some(GuardState::Confirmed), 6));
}

/// The changes of a group are planned again if the plan is old by then; such a plan is not judged.
#[test]
fn note_of_a_plan_that_is_old_when_its_group_begins_is_written_all_the_same() {
    let ready = service("shop/a", "http/a").ready(pods("10.0.1", 0..1));
    let world = shops(&[("a", 3, None), ("b", 2, None)]).service(ready);
    let observed = world.observed(&Selection::Everything);
    let mut plan = plan(&observed);
    assert_eq!(guard_state(&plan), Some(GuardState::Held));
    let permits = Permits::of(&plan);
    let failed_targets = BTreeSet::new();
    plan.changes.retain(|service, _| *service == named("shop/a"));
    let mut group =
        GroupSync::new(Task::Sync, &observed, plan.changes, Some(&permits), &failed_targets);
    let Step::Make(changes) = group.next(true) else { panic!("nothing is due") };
    let is_registration = |planned: &PlannedChange| planned.change.is_registration();
    assert!(changes.iter().all(is_registration), "the note comes after the additions");
    let scope = group.refresh(changes.clone(), true);
    let read = scope.decide(group.observation.clone());
    group.observed(read);
    let Step::Make(again) = group.next(true) else { panic!("nothing is due any more") };
    assert_eq!(again, changes);
    for planned in again {
        group.record(planned, Effect::Settled(Outcome::Applied));
    }
    let Step::Make(notes) = group.next(true) else { panic!("no note is due") };
    let notes: Vec<Change> = notes.into_iter().map(|planned| planned.change).collect();
    assert!(matches!(notes.as_slice(), [Change::Note { text: Some(_), .. }]), "{notes:?}");
}

/// A Service with so many instances and two endpoints, which has the note of a former loss.
fn noted_shop(instances: usize) -> World {
    shops(&[("a", instances, Some(2))]).with("http/a", |service| {
        let instances = service.instances.as_mut().expect("read");
        instances.get_mut("a-0").expect("it is there").insert(SIGHTING, note_of("a"));
    })
}

/// A full sync of the only group of a world.
fn with_group(world: &World, test: impl FnOnce(GroupSync<'_>)) {
    let observed = world.observed(&Selection::Everything);
    let plan = plan(&observed);
    let permits = Permits::of(&plan);
    let failed_targets = BTreeSet::new();
    test(GroupSync::new(Task::Sync, &observed, plan.changes, Some(&permits), &failed_targets));
}

/// The cluster has lost nothing, and a full sync takes off the note of a former loss.
fn group_that_takes_a_note_off(test: impl FnOnce(GroupSync<'_>, Vec<PlannedChange>)) {
    with_group(&noted_shop(2), |mut group| {
        let Step::Make(notes) = group.next(true) else { panic!("no note is due") };
        let changes: Vec<&Change> = notes.iter().map(|planned| &planned.change).collect();
        assert!(matches!(changes.as_slice(), [Change::Note { text: None, .. }]), "{changes:?}");
        test(group, notes);
    });
}

/// A later run may find the instance there, and its loss has the note then.
#[test]
fn note_stays_while_another_writer_keeps_an_instance_from_going() {
    with_group(&noted_shop(3), |mut group| {
        let mut tries = 0;
        loop {
            match group.next(true) {
                Step::Make(changes) => {
                    for planned in changes {
                        assert!(planned.change.is_removal(), "{planned:?}");
                        tries += 1;
                        group.record(planned, Effect::Contested);
                    }
                }
                Step::Read(scope) => group.observed(scope.decide(group.observation.clone())),
                _ => break,
            }
        }
        assert!(tries > 1, "{tries}");
    });
}

/// Another run has an operation under way at the instance.
#[test]
fn note_whose_instance_another_writer_changes_is_taken_off_in_the_next_round() {
    group_that_takes_a_note_off(|mut group, notes| {
        for planned in notes.clone() {
            group.record(planned, Effect::Contested);
        }
        let Step::Read(scope) = group.next(true) else { panic!("nothing is read again") };
        group.observed(scope.decide(group.observation.clone()));
        let Step::Make(again) = group.next(true) else { panic!("no note is due any more") };
        assert_eq!(again, notes);
    });
}

#[test]
fn note_whose_plan_is_old_when_its_group_begins_is_taken_off_all_the_same() {
    group_that_takes_a_note_off(|mut group, notes| {
        let scope = group.refresh(notes.clone(), false);
        group.observed(scope.decide(group.observation.clone()));
        let Step::Make(again) = group.next(true) else { panic!("no note is due any more") };
        assert_eq!(again, notes);
    });
}

#[test]
fn instance_that_passes_in_place_is_no_loss_of_the_former_service() {
    let world = replaced(&[("a", 6, 6), ("b", 6, 6)]).http("old", [own("x", "shop/a", "10.0.3.1")]);
    let first = judged(&world).expect("it is judged again");
    let place = Place::of(&key("http/old"), &world.0.registry);
    let noted = |attributes, exchange| {
        let mut world = world.clone();
        world.0.baseline = Some(Arc::new(first.clone()));
        let instance = "x".to_owned();
        let change = Change::Rewrite {
            place: place.clone(),
            instance,
            attributes,
            differences: vec![],
            exchange,
            adopted: None,
        };
        world.0.record_change(&named("shop/b"), &change);
        let judged = world.0.baseline.expect("it stays");
        Arc::unwrap_or_clone(judged)
    };
    let exchange = Exchange {
        newcomer: "y".into(),
        marked: named("shop/a"),
        address: "10.0.3.1".into(),
        because: DeregisterReason::NoReadyEndpoint,
    };
    assert_ne!(noted(ours("shop/b", "10.0.3.1"), None), first);
    assert_eq!(noted(ours("shop/a", "10.0.3.2"), None), first, "of the same Service");
    assert_eq!(noted(foreign("10.0.3.1"), None), first, "of another owner");
    assert_eq!(noted(ours("shop/b", "10.0.3.1"), Some(Box::new(exchange))), first, "an exchange");
}
