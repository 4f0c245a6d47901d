//! Verdicts, each with the whole of what it has: which names are held, which pass, and what the report says of it.

use super::*;
use crate::model::GuardState;

/// The loss of a name that was not read.
const UNREAD: Loss = Loss { lost: 0, left: 0, was_read: false, was_held: false };

/// A run at ten o'clock, with the default limits: more than ten instances and more than half of them.
fn run() -> Circumstances {
    let cluster = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";
    let cluster = ClusterArn::parse(cluster).expect("well formed");
    let (guard, subject) = (Guard::default(), LossSubject::Instances);
    Circumstances { guard, now: at("10:00"), cluster, subject }
}

fn at(time: &str) -> Timestamp {
    format!("2026-11-21T{time}:00Z").parse().expect("a time")
}

/// Names that lose so many instances, and have none left.
fn losses(all: &[(&str, usize)]) -> Losses {
    let loss = |(name, lost): &(&str, usize)| {
        (ServiceRef::new("shop", *name), Loss { lost: *lost, left: 0, ..UNREAD })
    };
    all.iter().map(loss).collect()
}

fn of_all(instances: usize, unread: usize) -> Measure {
    Measure { extent: Extent::Everything, instances, unread, may_be_noted: false }
}

fn verdict(state: GuardState, held: Losses, passed: Losses, instances: usize) -> Verdict {
    let (unread, first_seen, is_new) = (0, None, false);
    Verdict { state, held, passed, instances, unread, first_seen, is_new }
}

#[test]
fn confirmed_loss_passes_with_the_time_it_was_first_seen() {
    let all = losses(&[("web", 20), ("mail", 20)]);
    let seen = Sighting::of(&all, at("09:55"));
    let measure = Measure { extent: Extent::Confirmed, ..of_all(40, 0) };
    let expected = verdict(GuardState::Confirmed, Losses::default(), all.clone(), 40);
    let expected = Some(Verdict { first_seen: Some(at("09:55")), ..expected });
    assert_eq!(measure.judge(&run(), &all, Some(&seen)), expected);
}

#[test]
fn part_of_a_loss_that_was_seen_passes_and_the_new_part_is_held_from_now_on() {
    let (old, new) = (losses(&[("web", 20)]), losses(&[("mail", 30)]));
    let seen = Sighting::of(&old, at("09:45"));
    let all = losses(&[("web", 20), ("mail", 30)]);
    let expected = verdict(GuardState::Held, new, old, 50);
    let expected = Some(Verdict { first_seen: Some(at("10:00")), is_new: true, ..expected });
    assert_eq!(of_all(70, 0).judge(&run(), &all, Some(&seen)), expected);
}

#[test]
fn what_could_not_be_read_counts_as_lost_and_as_an_instance() {
    let judge = |measure: Measure| measure.judge(&run(), &losses(&[("mail", 6)]), None);
    let expected = verdict(GuardState::HeldUntilRead, losses(&[("mail", 6)]), losses(&[]), 20);
    let expected = Some(Verdict { unread: 10, ..expected });
    assert_eq!(judge(of_all(20, 10)), expected, "16 of 30");
    assert_eq!(judge(of_all(30, 10)), None, "16 of 40");
    assert_eq!(judge(of_all(20, 0)), None, "6 of 20");
}

#[test]
fn part_that_was_seen_passes_while_the_rest_waits_until_all_is_read() {
    let old = losses(&[("web", 20)]);
    let seen = Sighting::of(&old, at("09:45"));
    let all = losses(&[("web", 20), ("mail", 6)]);
    let expected = verdict(GuardState::HeldUntilRead, losses(&[("mail", 6)]), old, 20);
    let expected = Some(Verdict { unread: 10, ..expected });
    assert_eq!(of_all(40, 10).judge(&run(), &all, Some(&seen)), expected);
}

#[test]
fn at_most_so_many_names_are_in_the_sentence() {
    let sentence = |count: usize| {
        let names: Vec<String> = (0..count).map(|index| format!("web-{index}")).collect();
        let all: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 20)).collect();
        let held = of_all(20 * count, 0).judge(&run(), &losses(&all), None).expect("a verdict");
        let sentence = held.status(run()).to_string();
        sentence.split(" would lose").next().map(str::to_owned).expect("the names")
    };
    assert_eq!(sentence(3), "Services shop/web-0, shop/web-1, shop/web-2");
    assert_eq!(sentence(4), "Services shop/web-0, shop/web-1, shop/web-2 and 1 more");
}

#[test]
fn loss_is_past_the_guard_if_it_is_past_both_limits() {
    let guard = Guard { share: 50, minimum: 10, ..Guard::default() };
    let cases = [(11, 21, true), (11, 22, false), (10, 10, false), (11, 11, true), (0, 0, false)];
    for (lost, instances, expected) in cases {
        assert_eq!(guard.is_passed_by(lost, instances), expected, "{lost} of {instances}");
    }
}

#[test]
fn full_sync_is_whole_and_its_remainder_is_not() {
    let all = [Extent::Everything, Extent::Confirmed, Extent::Part, Extent::Remainder];
    assert_eq!(all.map(Extent::is_whole), [true, true, false, false]);
}

#[test]
fn sighting_that_is_as_long_as_an_attribute_may_be_has_all_services() {
    // 142 entries of 7 characters and one of 10, after a time of 20.
    let all = |count: usize| -> Losses {
        let loss = |index: usize| {
            let left = if index == 0 { 10 } else { 0 };
            let loss = Loss { lost: 1000 - index, left, ..UNREAD };
            (ServiceRef::new("shop", format!("web-{index}")), loss)
        };
        (0..count).map(loss).collect()
    };
    let sighting = |count| Sighting::of(&all(count), at("09:55"));
    assert_eq!((sighting(143).to_string().len(), sighting(143).left.len()), (1024, 143));
    assert_eq!((sighting(144).to_string().len(), sighting(144).left.len()), (1024, 143));
}
