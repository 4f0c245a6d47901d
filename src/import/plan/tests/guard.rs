//! The verdicts on the imports of a cluster, as tables of cases.

use std::collections::BTreeMap;

use crate::guard::{Extent, Guard, Loss, SightingNote};
use crate::import::plan::limits::Judgement;
use crate::import::plan::{GuardedRun, Note, Tally};
use crate::model::{ClusterArn, GuardState, ServiceRef, SignedDuration, Timestamp};

const BLUE: &str = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";

fn at(minutes: i64) -> Timestamp {
    let start: Timestamp = "2026-11-21T10:51:00Z".parse().expect("a time");
    start.checked_add(SignedDuration::from_mins(minutes)).expect("a time")
}

/// Imports, each with its weight, its loss, and whether it goes.
fn imports(all: &[(&str, usize, usize, bool)]) -> BTreeMap<ServiceRef, Tally> {
    let tally = |(name, present, lost, ends): &(&str, usize, usize, bool)| {
        let left = present - lost;
        let lost = *lost;
        let was_read = !ends && !name.ends_with("seen in Cloud Map");
        let loss = Loss { lost, left, was_read, has_room: true };
        let tally = Tally { present: *present, loss, ..Tally::default() };
        (ServiceRef::new("shop", *name), tally)
    };
    all.iter().map(tally).collect()
}

fn run(cluster: &ClusterArn) -> GuardedRun<'_> {
    let guard = Guard { share: 50, minimum: 3, ..Guard::default() };
    let extent = Extent::Everything;
    GuardedRun { cluster, guard, extent, now: at(0), remembers: true }
}

fn blue() -> ClusterArn {
    ClusterArn::parse(BLUE).expect("well formed")
}

fn state(judgement: &Judgement) -> Option<GuardState> {
    judgement.status.as_ref().map(|status| status.verdict.state)
}

#[test]
fn loss_past_both_limits_is_held_unless_one_import_is_scaled_down() {
    let blue = blue();
    for (all, expected) in [
        (&[("a", 4, 4, true), ("b", 4, 1, false)][..], Some(GuardState::Held)),
        // Half of all is not more than half.
        (&[("a", 4, 4, true), ("b", 4, 0, false)], None),
        (&[("a", 2, 2, true), ("b", 1, 1, true)], None),
        // Its export still stands.
        (&[("a", 8, 8, false), ("b", 1, 0, false)], None),
        (&[("a seen in Cloud Map", 8, 8, false), ("b", 1, 0, false)], Some(GuardState::Held)),
        (&[("a", 8, 8, true), ("b", 1, 0, false)], Some(GuardState::Held)),
        // Imports without endpoints count as one.
        (
            &[("a", 1, 1, true), ("b", 1, 1, true), ("c", 1, 1, true), ("d", 1, 1, true)],
            Some(GuardState::Held),
        ),
    ] {
        let judged = run(&blue).judge(&imports(all), None);
        assert_eq!(state(&judged), expected, "{all:?}");
        for (name, _, lost, _) in all {
            let held = (expected.is_some() && *lost > 0).then_some(*lost);
            assert_eq!(judged.held(&ServiceRef::new("shop", *name)), held, "{name} of {all:?}");
        }
    }
}

#[test]
fn loss_is_noted_once_and_passes_when_it_is_seen_again_after_the_wait() {
    let blue = blue();
    let all = imports(&[("a", 4, 4, true), ("b", 4, 4, true)]);
    let first = run(&blue);
    let judged = first.judge(&all, None);
    let Some(Note::Write(sighting)) = judged.note(&first, None, true) else { panic!("a note") };
    let at = |minutes| GuardedRun { now: at(minutes), ..run(&blue) };
    let seen = Some(&sighting);
    for (minutes, expected, note) in [
        (5, GuardState::Held, None),
        (10, GuardState::Lifted, Some(Note::Remove)),
        (60, GuardState::Lifted, Some(Note::Remove)),
    ] {
        let judged = at(minutes).judge(&all, seen);
        assert_eq!(state(&judged), Some(expected), "{minutes}");
        assert_eq!(judged.note(&at(minutes), seen, true), note, "{minutes}");
        assert_eq!(judged.note(&at(minutes), seen, false), None, "the rest passes later");
    }
    let late = at(61).judge(&all, seen);
    assert_eq!(state(&late), Some(GuardState::Held));
    assert!(matches!(late.note(&at(61), seen, true), Some(Note::Write(_))));
    let over = at(5).judge(&imports(&[("a", 4, 0, false)]), seen);
    assert_eq!((state(&over), over.note(&at(5), seen, true)), (None, Some(Note::Remove)));
}

#[test]
fn confirmed_loss_passes_and_is_noted_as_ripe_if_it_is_cut_short() {
    let blue = blue();
    let all = imports(&[("a", 4, 4, true), ("b", 4, 4, true)]);
    let confirmed = GuardedRun { extent: Extent::Confirmed, ..run(&blue) };
    let judged = confirmed.judge(&all, None);
    assert_eq!(state(&judged), Some(GuardState::Confirmed));
    assert_eq!(judged.note(&confirmed, None, true), None);
    let Some(Note::Write(ripe)) = judged.note(&confirmed, None, false) else { panic!("a note") };
    let next = GuardedRun { now: at(1), ..run(&blue) };
    assert_eq!(state(&next.judge(&all, Some(&ripe))), Some(GuardState::Lifted));
}

#[test]
fn targeted_sync_leaves_a_large_loss_and_what_is_held_to_the_full_sync() {
    let blue = blue();
    let two = imports(&[("a", 4, 4, true), ("b", 4, 4, true)]);
    let one = imports(&[("a", 8, 8, true)]);
    let part = GuardedRun { extent: Extent::Part, ..run(&blue) };
    assert_eq!(state(&part.judge(&two, None)), Some(GuardState::LeftToFullSync));
    assert_eq!(state(&part.judge(&one, None)), None);
    let Some(Note::Write(seen)) = run(&blue).judge(&two, None).note(&run(&blue), None, true) else {
        panic!("a note")
    };
    let judged = part.judge(&one, Some(&seen));
    assert_eq!(state(&judged), Some(GuardState::HeldByFullSync));
    assert_eq!(judged.note(&part, Some(&seen), true), None);
}

#[test]
fn cluster_that_cannot_remember_keeps_its_imports_until_a_person_confirms() {
    let blue = blue();
    let all = imports(&[("a", 4, 4, true), ("b", 4, 4, true)]);
    let imports_only = GuardedRun { remembers: false, ..run(&blue) };
    let judged = imports_only.judge(&all, None);
    assert_eq!(judged.note(&imports_only, None, true), None);
    let status = judged.status.expect("a verdict");
    assert!(status.is_later_look() && status.lifts_from().is_none());
    insta::assert_snapshot!(status.to_string(), @r#"imports shop/a, shop/b would lose 8 of 8 imported endpoints at once, past GUARD_SHARE (50 %) and GUARD_MINIMUM (3); no later run can know of the loss of imports shop/a, shop/b, since it could not be noted, so these imported endpoints stay until {"action":"confirm","cluster":"arn:aws:eks:eu-central-1:111122223333:cluster/blue"}"#);
}

#[test]
fn part_that_could_not_be_read_adds_to_a_loss_and_removes_no_note() {
    let blue = blue();
    let mut all = imports(&[("a", 4, 3, false), ("b", 4, 0, false)]);
    all.get_mut(&ServiceRef::new("shop", "b")).expect("it").unread = 4;
    let judged = run(&blue).judge(&all, None);
    assert_eq!(state(&judged), Some(GuardState::HeldUntilRead));
    all.get_mut(&ServiceRef::new("shop", "a")).expect("it").loss.lost = 0;
    let judged = run(&blue).judge(&all, None);
    assert_eq!(state(&judged), None);
    let noted = SightingNote::of(
        &[(
            ServiceRef::new("shop", "a"),
            Loss { lost: 4, left: 0, was_read: false, has_room: true },
        )]
        .into_iter()
        .collect(),
        at(0),
    );
    assert_eq!(judged.note(&run(&blue), Some(&noted), true), None);
}
