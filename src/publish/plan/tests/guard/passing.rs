//! The losses that the guard lets pass, and the time at which it does.

use insta::assert_snapshot;

use super::{after, at, confirmed, guard_state, held, lost, minutes, noted, notes, seen, shops};
use crate::model::{GuardState, SignedDuration};
use crate::publish::plan::tests::world::{NOW, World, lines_of, named, pod, service};
use crate::publish::plan::{Change, Guard, Rules};

#[test]
fn what_passes_says_so() {
    let world = || seen(shops(&[("a", 3, Some(1)), ("b", 3, None)]));
    let lifted = at(world(), NOW + minutes(10)).plan();
    assert_snapshot!(lifted.guard.expect("lifted").to_string(), @"Services shop/a, shop/b would lose 5 of 6 instances at once, past GUARD_SHARE (50 %) and GUARD_MINIMUM (3); the same loss was seen before, so the guard lets it pass");
    let confirmed = confirmed(world()).plan();
    assert_snapshot!(confirmed.guard.expect("confirmed").to_string(), @"Services shop/a, shop/b would lose 5 of 6 instances at once, past GUARD_SHARE (50 %) and GUARD_MINIMUM (3); the loss is confirmed, so the guard lets it pass");
}

#[test]
fn the_same_loss_passes_between_one_wait_and_six() {
    let first = seen(shops(&[("a", 3, Some(1)), ("b", 3, None)]));
    let second = SignedDuration::from_secs(1);
    let cases = [
        (SignedDuration::ZERO, GuardState::Held, false),
        (minutes(10) - second, GuardState::Held, false),
        (minutes(10), GuardState::Lifted, false),
        (minutes(60), GuardState::Lifted, false),
        (minutes(60) + second, GuardState::Held, true),
        (-minutes(10), GuardState::Held, false),
        (-minutes(10) - second, GuardState::Held, true),
    ];
    for (later, expected, anew) in cases {
        let plan = at(first.clone(), NOW + later).plan();
        let status = plan.guard.clone().expect("past the limits");
        assert_eq!(status.verdict.state, expected, "{later}");
        let goes = if expected == GuardState::Lifted { (2, 3) } else { (0, 0) };
        assert_eq!((lost(&plan, "a"), lost(&plan, "b")), goes, "{later}");
        let first_seen = if anew { NOW + later } else { NOW };
        assert_eq!(status.verdict.first_seen, Some(first_seen), "{later}");
        let is_held_again = expected == GuardState::Held && first_seen < NOW + later;
        assert_eq!(status.needs_operator(), is_held_again, "{later}");
        let writes = plan
            .changes
            .values()
            .flatten()
            .filter(|it| it.deregisters_instance_of().is_none())
            .count();
        assert_eq!(writes, if anew { 2 } else { 0 }, "{later}:\n{}", lines_of(&plan));
    }
}

#[test]
fn same_loss_passes_up_to_three_periods_if_six_waits_are_less() {
    let world = shops(&[("a", 3, Some(1)), ("b", 3, None)]);
    let guard = Guard { wait: minutes(2), period: minutes(30), ..world.0.rules.guard };
    let rules = Rules { guard, ..(*world.0.rules).clone() };
    let first = seen(world.under(rules));
    let second = SignedDuration::from_secs(1);
    for (later, expected) in [
        (minutes(2) - second, GuardState::Held),
        (minutes(2), GuardState::Lifted),
        (minutes(30), GuardState::Lifted),
        (minutes(90), GuardState::Lifted),
        (minutes(90) + second, GuardState::Held),
    ] {
        let plan = at(first.clone(), NOW + later).plan();
        assert_eq!(guard_state(&plan), Some(expected), "{later}");
    }
}

#[test]
fn pair_of_settings_that_lets_no_full_sync_come_in_time_is_a_warning() {
    let guard =
        |wait, period| Guard { wait: minutes(wait), period: minutes(period), ..Guard::default() };
    for (wait, period) in [(10, 1), (10, 60), (1, 1), (60, 5)] {
        assert_eq!(guard(wait, period).mismatch(), None, "{wait} {period}");
    }
    assert_eq!(Guard { share: 100, ..guard(2, 30) }.mismatch(), None, "it is off");
    let warning = guard(2, 30).mismatch().expect("no run in 12 minutes");
    assert_snapshot!(warning, @"GUARD_WAIT (2m) and SCHEDULE_MINUTES (30) do not go together: no full sync comes between one and six times GUARD_WAIT, so the next full sync lets the held loss pass, if it comes within 1h 30m");
}

#[test]
fn only_what_was_seen_passes_and_the_rest_is_judged_by_itself() {
    let first = || seen(shops(&[("a", 5, Some(1)), ("b", 5, None), ("c", 4, Some(4))]));
    let later = NOW + minutes(10);
    let ready = |world, name: &str, count| at(super::ready(world, name, count), later);
    // A smaller loss than the remembered one.
    let plan = ready(first(), "a", 2).plan();
    assert_eq!(
        (guard_state(&plan), lost(&plan, "a"), lost(&plan, "b")),
        (Some(GuardState::Lifted), 3, 5)
    );
    // A larger loss of one Service that was read: it alone may lose all its instances.
    let plan = ready(first(), "a", 0).plan();
    assert_eq!(
        (guard_state(&plan), lost(&plan, "a"), lost(&plan, "b")),
        (Some(GuardState::Lifted), 5, 5)
    );
    // A loss of another Service, which exceeds the limits by itself, is seen for the first time.
    let mut gone = at(first(), later);
    gone.0.desired.services.remove(&named("shop/c"));
    let plan = gone.plan();
    assert_eq!((held(&plan), lost(&plan, "a"), lost(&plan, "b")), (vec!["c"], 4, 5));
    let status = plan.guard.clone().expect("held");
    assert_eq!(
        (
            crate::guard::total(status.verdict.losses()),
            status.verdict.instances,
            status.verdict.first_seen
        ),
        (4, 5, Some(later))
    );
    // Those of `a` and `b` go with their instances.
    let left = notes(&after(gone, &plan));
    assert!(
        matches!(left.as_slice(), [(id, text)] if id == "c-0" && text.starts_with("2026-11-21T11:01:00Z ")),
        "{left:?}"
    );
}

#[test]
fn loss_that_has_grown_passes_as_far_as_it_was_seen_and_the_rest_is_seen_anew() {
    let later = NOW + minutes(10);
    let none_ready = |world: World, name: &str| {
        world.service(service(&format!("shop/{name}"), &format!("http/{name}")))
    };
    let first = seen(shops(&[("a", 9, Some(4)), ("b", 9, Some(4))]));
    assert_eq!(noted(&first), ["a-4", "b-4"]);
    let grown = ["a", "b"].into_iter().fold(at(first, later), none_ready);
    let plan = grown.plan();
    assert_eq!((guard_state(&plan), held(&plan)), (Some(GuardState::Held), vec!["a", "b"]));
    assert_eq!((lost(&plan, "a"), lost(&plan, "b")), (5, 5));
    assert_eq!(plan.guard.as_ref().and_then(|status| status.first_seen()), Some(later));
    let world = after(grown, &plan);
    assert_eq!(noted(&world), ["a-4", "b-4"], "the instances with the notes stay");
    let plan = at(world, later + minutes(10)).plan();
    assert_eq!((guard_state(&plan), lost(&plan, "a")), (Some(GuardState::Lifted), 4));
}

#[test]
fn a_loss_that_is_held_is_the_same_whatever_its_new_pods_are_registered_as() {
    let world = seen(shops(&[("a", 4, Some(1)), ("b", 4, None)]));
    let world = world.service(service("shop/a", "http/a").ready([pod("two", "10.0.0.9")]));
    let world = after(world.clone(), &world.plan());
    let plan = at(world, NOW + minutes(10)).plan();
    assert_eq!(
        (guard_state(&plan), lost(&plan, "a"), lost(&plan, "b")),
        (Some(GuardState::Lifted), 4, 4)
    );
}

#[test]
fn a_confirmed_loss_goes_with_all_that_was_remembered() {
    let world = confirmed(seen(shops(&[("a", 4, Some(1)), ("b", 4, None)])));
    let plan = world.plan();
    assert_eq!(
        (guard_state(&plan), lost(&plan, "a"), lost(&plan, "b")),
        (Some(GuardState::Confirmed), 3, 4)
    );
    assert!(notes(&after(world, &plan)).is_empty());
}

/// A run that is cut short leaves the rest to the next one, which finds the note.
#[test]
fn loss_that_passes_is_noted_on_an_instance_that_goes() {
    let planned = |world: &World| {
        let plan = world.plan();
        let changes = plan.changes.values().flatten();
        let planned = changes.filter_map(|change| match change {
            Change::Note { instance, text, .. } => {
                Some((instance.clone(), text.as_ref()?.split(' ').next()?.to_owned()))
            }
            _ => None,
        });
        planned.collect::<Vec<_>>()
    };
    let world = shops(&[("a", 4, Some(1)), ("b", 4, None), ("c", 1, None)]);
    // As if it had been seen for the whole wait. What is one removal needs no note.
    let ripe = |at: &str| ["a-1", "b-0"].map(|id| (id.to_owned(), at.to_owned())).to_vec();
    assert_eq!(planned(&confirmed(world.clone())), ripe("2026-11-21T10:41:00Z"));
    let early = at(seen(world.clone()), NOW + minutes(1));
    assert_eq!(planned(&confirmed(early)), ripe("2026-11-21T10:42:00Z"));
    assert!(planned(&at(seen(world), NOW + minutes(10))).is_empty(), "they are there already");
}
