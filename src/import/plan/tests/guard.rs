//! The verdicts on the imports of a cluster, as tables of cases.

use std::collections::BTreeMap;

use crate::guard::{Extent, Guard, Loss};
use crate::import::plan::import_guard::{Judgement, Part};
use crate::import::plan::{GuardedRun, HeldParts, ImportNote, NoteChange, Tally};
use crate::model::{ClusterArn, ClusterId, GuardState, ServiceRef, SignedDuration, Timestamp};

const BLUE: &str = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";

fn at(minutes: i64) -> Timestamp {
    let start: Timestamp = "2026-11-21T10:51:00Z".parse().expect("a time");
    start.checked_add(SignedDuration::from_mins(minutes)).expect("a time")
}

/// Imports, each with its weight, its loss, and whether it ends.
fn imports(all: &[(&str, usize, usize, bool)]) -> BTreeMap<ServiceRef, Tally> {
    let tally = |(name, present, lost, ends): &(&str, usize, usize, bool)| {
        let left = present - lost;
        let lost = *lost;
        let loss = Loss { lost, left, was_read: !ends, has_room: true };
        let tally = Tally { present: *present, loss, ..Tally::default() };
        (ServiceRef::new("shop", *name), tally)
    };
    all.iter().map(tally).collect()
}

fn run(cluster: &ClusterArn) -> GuardedRun<'_> {
    let guard = Guard { share: 50, minimum: 3, ..Guard::default() };
    let extent = Extent::Everything;
    GuardedRun { cluster, guard, extent, may_read_more: false, now: at(0) }
}

fn blue() -> ClusterArn {
    ClusterArn::parse(BLUE).expect("well formed")
}

fn state(judgement: &Judgement) -> Option<GuardState> {
    judgement.status().map(|status| status.verdict.state)
}

#[test]
fn loss_past_both_limits_is_held_unless_one_import_is_scaled_down() {
    let blue = blue();
    for (all, expected) in [
        (&[("a", 4, 4, true), ("b", 4, 1, false)][..], Some(GuardState::Held)),
        // Half of all is not more than half.
        (&[("a", 4, 4, true), ("b", 4, 0, false)], None),
        (&[("a", 2, 2, true), ("b", 1, 1, true)], None),
        // Its export still exists.
        (&[("a", 8, 8, false), ("b", 1, 0, false)], None),
        (&[("a", 8, 8, true), ("b", 1, 0, false)], Some(GuardState::Held)),
        // Imports without endpoints count as one.
        (
            &[("a", 1, 1, true), ("b", 1, 1, true), ("c", 1, 1, true), ("d", 1, 1, true)],
            Some(GuardState::Held),
        ),
    ] {
        let judged = run(&blue).judge(&imports(all), &BTreeMap::new());
        assert_eq!(state(&judged), expected, "{all:?}");
        for (name, _, lost, _) in all {
            let held = (expected.is_some() && *lost > 0).then_some(*lost);
            let judged = judged.held(&named(name)).map(|(_, endpoints, _)| endpoints);
            assert_eq!(judged, held, "{name} of {all:?}");
        }
    }
}

fn named(name: &str) -> ServiceRef {
    ServiceRef::new("shop", name)
}

/// The notes that a run writes.
fn written(
    run: &GuardedRun<'_>,
    all: &BTreeMap<ServiceRef, Tally>,
) -> BTreeMap<ServiceRef, ImportNote> {
    let judged = run.judge(all, &BTreeMap::new());
    let notes = all.iter().filter_map(|(name, tally)| match judged.note(run, name, tally, None) {
        NoteChange::Write(note) => Some((name.clone(), note)),
        NoteChange::Keep | NoteChange::Remove => None,
    });
    notes.collect()
}

#[test]
fn loss_is_noted_once_and_passes_when_it_is_seen_again_after_the_wait() {
    let blue = blue();
    let all = imports(&[("a", 4, 4, true), ("b", 4, 4, true)]);
    let seen = written(&run(&blue), &all);
    assert_eq!(seen.len(), 2);
    let at = |minutes| GuardedRun { now: at(minutes), ..run(&blue) };
    for (minutes, expected, note) in [
        (5, GuardState::Held, NoteChange::Keep),
        (10, GuardState::Lifted, NoteChange::Remove),
        (60, GuardState::Lifted, NoteChange::Remove),
    ] {
        let judged = at(minutes).judge(&all, &seen);
        assert_eq!(state(&judged), Some(expected), "{minutes}");
        let noted = Some(&seen[&named("a")]);
        let change = judged.note(&at(minutes), &named("a"), &all[&named("a")], noted);
        assert_eq!(change, note, "{minutes}");
    }
    let late = at(61).judge(&all, &seen);
    assert_eq!(state(&late), Some(GuardState::Held));
    let note = late.note(&at(61), &named("a"), &all[&named("a")], Some(&seen[&named("a")]));
    assert!(matches!(note, NoteChange::Write(note) if note != seen[&named("a")]));
    let over = imports(&[("a", 4, 0, false)]);
    let judged = at(5).judge(&over, &seen);
    let note = judged.note(&at(5), &named("a"), &over[&named("a")], Some(&seen[&named("a")]));
    assert_eq!((state(&judged), note), (None, NoteChange::Remove));
}

#[test]
fn targeted_sync_leaves_a_large_loss_and_what_is_held_to_the_full_sync() {
    let blue = blue();
    let none = BTreeMap::new();
    let two = imports(&[("a", 4, 4, true), ("b", 4, 4, true)]);
    let one = imports(&[("a", 8, 8, true)]);
    let part = GuardedRun { extent: Extent::Part, ..run(&blue) };
    assert_eq!(state(&part.judge(&two, &none)), Some(GuardState::LeftToFullSync));
    assert_eq!(state(&part.judge(&one, &none)), None);
    let notes = written(&run(&blue), &two);
    let judged = part.judge(&one, &notes);
    assert_eq!(state(&judged), Some(GuardState::HeldByFullSync));
    let note = judged.note(&part, &named("a"), &one[&named("a")], notes.get(&named("a")));
    assert_eq!(note, NoteChange::Keep);
}

#[test]
fn loss_without_a_place_for_its_note_stays_until_a_person_confirms() {
    let blue = blue();
    let mut all = imports(&[("a", 4, 4, true), ("b", 4, 4, true)]);
    for tally in all.values_mut() {
        tally.loss.has_room = false;
    }
    let judged = run(&blue).judge(&all, &BTreeMap::new());
    let status = judged.status().expect("a verdict");
    assert!(status.needs_operator() && status.lifts_from().is_none());
    insta::assert_snapshot!(status.to_string(), @r#"imports shop/a, shop/b would lose 8 of 8 imported endpoints at once, past GUARD_SHARE (50 %) and GUARD_MINIMUM (3); no later run can know of the loss of imports shop/a, shop/b, since it could not be noted, so these imported endpoints stay until you invoke {"action":"confirm","cluster":"arn:aws:eks:eu-central-1:111122223333:cluster/blue"}"#);
}

#[test]
fn part_that_a_second_pass_may_read_adds_to_a_loss_and_an_unread_one_removes_no_note() {
    let blue = blue();
    let none = BTreeMap::new();
    let mut all = imports(&[("a", 4, 3, false), ("b", 4, 0, false)]);
    all.get_mut(&named("b")).expect("it").unread = 4;
    for (may_read_more, expected) in [(true, Some(GuardState::HeldUntilRead)), (false, None)] {
        let judged = GuardedRun { may_read_more, ..run(&blue) }.judge(&all, &none);
        assert_eq!(state(&judged), expected);
    }
    all.get_mut(&named("a")).expect("it").loss.lost = 0;
    let judged = run(&blue).judge(&all, &none);
    assert_eq!(state(&judged), None);
    let note = judged.note(&run(&blue), &named("b"), &all[&named("b")], None);
    assert_eq!(note, NoteChange::Keep);
}

fn exporter(index: usize) -> ClusterId {
    ClusterId::parse(&format!("c{index}")).expect("an id")
}

/// An import with four endpoints of each of ten exporters, of which some answer with an empty list.
fn import_without(empty: &[usize]) -> Tally {
    let part = |index| {
        let left = if empty.contains(&index) { 0 } else { 4 };
        (exporter(index), Part { present: 4, left, is_unread: false })
    };
    let lost = 4 * empty.len();
    let loss = Loss { lost, left: 40 - lost, was_read: true, has_room: true };
    Tally { present: 40, loss, parts: (0..10).map(part).collect(), ..Tally::default() }
}

/// Two imports, each without the endpoints of these exporters.
fn imports_without(empty: &[usize]) -> BTreeMap<ServiceRef, Tally> {
    ["a", "b"].map(|name| (named(name), import_without(empty))).into()
}

#[test]
fn part_of_each_exporter_is_measured_by_itself() {
    let blue = blue();
    let all = imports_without(&[3]);
    let judged = run(&blue).judge(&all, &BTreeMap::new());
    let (parts, endpoints, status) = judged.held(&named("a")).expect("it is held");
    assert_eq!((parts, endpoints), (HeldParts::Of([exporter(3)].into()), 4));
    assert_eq!(status.verdict.instances, 8);
    let notes = written(&run(&blue), &all);
    let note = notes[&named("a")].to_string();
    assert_eq!(note, "36@2026-11-21T10:51:00Z c3=0@2026-11-21T10:51:00Z");
    assert_eq!(ImportNote::parse(&note).as_ref(), Some(&notes[&named("a")]));
    let later = GuardedRun { now: at(10), ..run(&blue) };
    assert_eq!(later.judge(&all, &notes).held(&named("a")), None);
    let one =
        BTreeMap::from([(named("a"), import_without(&[3])), (named("b"), import_without(&[]))]);
    assert_eq!(run(&blue).judge(&one, &BTreeMap::new()).held(&named("a")), None, "scaled down");
}

#[test]
fn new_loss_of_one_exporter_does_not_prolong_the_wait_of_another() {
    let blue = blue();
    let mut notes = written(&run(&blue), &imports_without(&[3]));
    let all = imports_without(&[3, 5]);
    let second = GuardedRun { now: at(5), ..run(&blue) };
    let judged = second.judge(&all, &notes);
    for (name, tally) in &all {
        let NoteChange::Write(note) = judged.note(&second, name, tally, notes.get(name)) else {
            panic!("{name} has a new loss");
        };
        let expected =
            "36@2026-11-21T10:51:00Z c3=0@2026-11-21T10:51:00Z c5=0@2026-11-21T10:56:00Z";
        assert_eq!(note.to_string(), expected);
        notes.insert(name.clone(), note);
    }
    let third = GuardedRun { now: at(10), ..run(&blue) };
    let judged = third.judge(&all, &notes);
    let held = judged.held(&named("a")).map(|(parts, endpoints, _)| (parts, endpoints));
    assert_eq!(held, Some((HeldParts::Of([exporter(5)].into()), 4)));
}
