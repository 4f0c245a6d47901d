//! Verdicts, each with the whole of what it has: which names are held, which pass, and what the report says of it.

use super::*;
use crate::model::{GuardState, SignedDuration};

/// The loss of a name that was not read.
const UNREAD: Loss = Loss { lost: 0, left: 0, was_read: false, has_room: true };

/// A run at ten o'clock, with the default limits: more than ten instances and more than half of them.
fn run() -> Circumstances {
    let cluster = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";
    let cluster = ClusterArn::parse(cluster).expect("well formed");
    let guard = Guard::default();
    let subject = LossSubject::Instances;
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

fn full_sync(instances: usize, unread: usize) -> LossBase {
    LossBase { extent: Extent::Everything, instances, unread, has_earlier_reads: false }
}

fn verdict(state: GuardState, held: Losses, passed: Losses, instances: usize) -> Verdict {
    let new = BTreeSet::new();
    Verdict { state, held, passed, instances, unread: 0, first_seen: None, new }
}

/// These losses as they were seen at a time.
fn seen(losses: &Losses, first_seen: Timestamp) -> Sightings {
    let sighting = |loss: &Loss| Sighting { first_seen, left: loss.left };
    losses.iter().map(|(service, loss)| (service.clone(), sighting(loss))).collect()
}

fn named(name: &str) -> ServiceRef {
    ServiceRef::new("shop", name)
}

#[test]
fn confirmed_loss_passes_with_the_time_it_was_first_seen() {
    let all = losses(&[("web", 20), ("mail", 20)]);
    let seen = seen(&all, at("09:55"));
    let measure = LossBase { extent: Extent::Confirmed, ..full_sync(40, 0) };
    let expected = verdict(GuardState::Confirmed, Losses::default(), all.clone(), 40);
    let expected = Some(Verdict { first_seen: Some(at("09:55")), ..expected });
    assert_eq!(measure.judge(&run(), &all, &seen), expected);
}

#[test]
fn part_of_a_loss_that_was_seen_passes_and_the_new_part_is_held_from_now_on() {
    let old = losses(&[("web", 20)]);
    let new = losses(&[("mail", 30)]);
    let seen = seen(&old, at("09:45"));
    let all = losses(&[("web", 20), ("mail", 30)]);
    let expected = verdict(GuardState::Held, new, old, 50);
    let expected =
        Some(Verdict { first_seen: Some(at("10:00")), new: [named("mail")].into(), ..expected });
    assert_eq!(full_sync(70, 0).judge(&run(), &all, &seen), expected);
}

#[test]
fn unread_instance_counts_as_lost_and_as_an_instance() {
    let judge =
        |measure: LossBase| measure.judge(&run(), &losses(&[("mail", 6)]), &Sightings::new());
    let expected = verdict(GuardState::HeldUntilRead, losses(&[("mail", 6)]), losses(&[]), 20);
    let expected = Some(Verdict { unread: 10, ..expected });
    assert_eq!(judge(full_sync(20, 10)), expected, "16 of 30");
    assert_eq!(judge(full_sync(30, 10)), None, "16 of 40");
    assert_eq!(judge(full_sync(20, 0)), None, "6 of 20");
}

#[test]
fn part_that_was_seen_passes_while_the_rest_waits_until_all_is_read() {
    let old = losses(&[("web", 20)]);
    let seen = seen(&old, at("09:45"));
    let all = losses(&[("web", 20), ("mail", 6)]);
    let expected = verdict(GuardState::HeldUntilRead, losses(&[("mail", 6)]), old, 20);
    let expected = Some(Verdict { unread: 10, ..expected });
    assert_eq!(full_sync(40, 10).judge(&run(), &all, &seen), expected);
}

#[test]
fn at_most_so_many_names_are_in_the_sentence() {
    let sentence = |count: usize| {
        let names: Vec<String> = (0..count).map(|index| format!("web-{index}")).collect();
        let all: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 20)).collect();
        let held = full_sync(20 * count, 0)
            .judge(&run(), &losses(&all), &Sightings::new())
            .expect("a verdict");
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
        assert_eq!(guard.is_exceeded_by(lost, instances), expected, "{lost} of {instances}");
    }
}

#[test]
fn full_sync_is_whole_and_a_message_is_not() {
    let all = [Extent::Everything, Extent::Confirmed, Extent::Part];
    assert_eq!(all.map(Extent::is_full_sync), [true, true, false]);
}

/// Each row: when the loss of `web` was seen, with how many left; how many instances it loses and has left now; how
/// many of them pass, and whether the rest is seen for the first time.
#[test]
fn name_may_fall_to_the_number_that_was_seen_and_the_rest_is_a_new_loss() {
    let cases = [
        ("09:45", 0, (20, 0), 20, false),
        ("09:45", 5, (15, 5), 15, false),
        ("09:45", 5, (20, 5), 20, false),
        ("09:45", 5, (10, 10), 10, false),
        ("09:45", 5, (20, 0), 15, true),
        ("09:45", 20, (20, 0), 0, true),
        ("09:55", 0, (20, 0), 0, false),
        ("09:55", 5, (20, 0), 0, false),
        // Longer ago than six waits, or by a clock that is ahead.
        ("08:55", 0, (20, 0), 0, true),
        ("10:15", 0, (20, 0), 0, true),
    ];
    for (first_seen, left_then, (lost, left), passes, is_new) in cases {
        let all = losses(&[("mail", 40), ("web", lost)]);
        let all: Losses = all
            .into_iter()
            .map(|(service, loss)| {
                let left = if service == named("web") { left } else { 0 };
                (service, Loss { left, ..loss })
            })
            .collect();
        let sighting = Sighting { first_seen: at(first_seen), left: left_then };
        let sightings = Sightings::from([(named("web"), sighting)]);
        let verdict = full_sync(70, 0).judge(&run(), &all, &sightings).expect("past the limits");
        let lost_of = |losses: &Losses| losses.get(&named("web")).map_or(0, |loss| loss.lost);
        let case = format!("{first_seen} {left_then} {lost} {left}");
        assert_eq!(
            (lost_of(&verdict.passed), lost_of(&verdict.held)),
            (passes, lost - passes),
            "{case}"
        );
        assert_eq!(verdict.new.contains(&named("web")), is_new, "{case}");
        assert!(verdict.new.contains(&named("mail")), "{case}");
    }
}

/// Each row: the losses of a message, the Service with a note and its time, and the Service without room for one.
#[test]
fn message_takes_out_nothing_of_a_service_with_a_note_or_without_room_for_one() {
    use GuardState::{HeldByFullSync, LeftToFullSync};
    type Held = Option<(GuardState, &'static [&'static str])>;
    let cases: [(&[(&str, usize)], _, _, Held); 7] = [
        (&[("web", 20)], None, None, None),
        (&[("web", 20)], Some(("web", "09:55")), None, Some((HeldByFullSync, &["web"]))),
        (&[("web", 20)], Some(("web", "09:05")), None, Some((HeldByFullSync, &["web"]))),
        (&[("web", 20)], Some(("web", "08:55")), None, None),
        (&[("web", 20)], Some(("mail", "09:55")), None, None),
        (&[("web", 3), ("mail", 3)], None, Some("mail"), Some((HeldByFullSync, &["mail"]))),
        (
            &[("web", 20), ("mail", 20)],
            Some(("web", "09:55")),
            None,
            Some((LeftToFullSync, &["mail", "web"])),
        ),
    ];
    for (lost, noted, without_room, expected) in cases {
        let mut all = losses(lost);
        for (service, loss) in &mut all {
            loss.has_room = without_room != Some(service.name.as_str());
        }
        let sightings: Sightings = noted
            .map(|(name, time)| (named(name), Sighting { first_seen: at(time), left: 0 }))
            .into_iter()
            .collect();
        let measure = LossBase { extent: Extent::Part, ..full_sync(40, 0) };
        let verdict = measure.judge(&run(), &all, &sightings);
        let found = verdict.as_ref().map(|verdict| {
            (verdict.state, verdict.held.keys().map(|it| it.name.as_str()).collect::<Vec<_>>())
        });
        let expected = expected.map(|(state, names)| (state, names.to_vec()));
        assert_eq!(found, expected, "{lost:?} {noted:?} {without_room:?}");
    }
}

#[test]
fn sentence_names_losses_without_a_note() {
    let all = losses(&[("web", 20), ("mail", 20)]);
    let verdict =
        || full_sync(40, 0).judge(&run(), &all, &Sightings::new()).expect("past the limits");
    let until = |without_note: &[&str]| {
        let without_note = without_note.iter().map(|name| named(name)).collect();
        let status = GuardStatus { without_note, ..verdict().status(run()) };
        let times = (status.first_seen().is_some(), status.lifts_from().is_some());
        let sentence = status.to_string();
        let until =
            sentence.split_once("; ").map(|(_, until)| until.to_owned()).expect("a condition");
        (times, status.needs_operator(), until)
    };
    let confirm =
        r#"{"action":"confirm","cluster":"arn:aws:eks:eu-central-1:111122223333:cluster/blue"}"#;
    let seen = format!(
        "first seen 2026-11-21T10:00:00Z; a full sync lets the same loss pass from 2026-11-21T10:10:00Z on; {confirm} lets it pass at once"
    );
    let of = |names: &str| {
        format!(
            "no later run can know of the loss of {names}, since it could not be noted, so these instances stay until you invoke {confirm}"
        )
    };
    assert_eq!(until(&[]), ((true, true), false, seen.clone()));
    assert_eq!(
        until(&["web"]),
        ((true, true), true, format!("{seen}; {}", of("Service shop/web")))
    );
    assert_eq!(until(&["mail", "web"]), ((false, false), true, of("Services shop/mail, shop/web")));
}

#[test]
fn note_that_is_as_long_as_an_attribute_may_be_has_all_services() {
    // 142 entries of 7 characters and one of 10, after a time of 20.
    let all = |count: usize| -> Losses {
        let loss = |index: usize| {
            let left = if index == 0 { 10 } else { 0 };
            let loss = Loss { lost: 1000 - index, left, ..UNREAD };
            (ServiceRef::new("shop", format!("web-{index}")), loss)
        };
        (0..count).map(loss).collect()
    };
    let note = |count| SightingNote::of(&all(count), at("09:55"));
    let entries = |count| note(count).to_string().split(' ').count() - 1;
    assert_eq!((note(143).to_string().len(), entries(143)), (1024, 143));
    assert_eq!((note(144).to_string().len(), entries(144)), (1024, 143));
    let many = all(400);
    let noted = note(400).sightings(many.keys());
    let least = noted.keys().map(|service| many[service].lost).min();
    assert_eq!(least, Some(1000 - 142), "those that lose most are noted");
}

#[test]
fn written_note_is_read_unchanged() {
    let left = |left| Loss { lost: 3, left, ..UNREAD };
    let all = Losses::from([(named("web-0"), left(0)), (named("web-1"), left(1))]);
    let note = SightingNote::of(&all, at("09:55"));
    assert_eq!(note.to_string(), "2026-11-21T09:55:00Z 4ffac5+1 885ac1");
    assert_eq!(SightingNote::parse(&note.to_string()), Some(note.clone()));
    assert_eq!(note.sightings(all.keys()), seen(&all, at("09:55")));
    assert_eq!(note.sighting(&named("web-2")), None);
    for text in ["", "soon", "2026-11-21T10:51:00Z 3fa9c1+x", "3fa9c1"] {
        assert_eq!(SightingNote::parse(text), None, "{text}");
    }
}

#[test]
fn sighting_is_ripe_after_the_wait_until_it_expires() {
    let guard = |wait, period| Guard {
        wait: SignedDuration::from_mins(wait),
        period: SignedDuration::from_mins(period),
        ..Guard::default()
    };
    let sighting = Sighting { first_seen: Timestamp::UNIX_EPOCH, left: 0 };
    let second = SignedDuration::from_secs(1);
    // Six waits, or three periods if these are longer.
    for (wait, period, expires) in [(10, 1, 60), (10, 20, 60), (10, 30, 90)] {
        let guard = guard(wait, period);
        let [wait, expires] = [wait, expires].map(SignedDuration::from_mins);
        let ages = [
            (-wait - second, Age::Stale),
            (-wait, Age::Early),
            (wait - second, Age::Early),
            (wait, Age::Ripe),
            (expires, Age::Ripe),
            (expires + second, Age::Stale),
        ];
        for (after, expected) in ages {
            let now = sighting.first_seen.checked_add(after).expect("a time");
            assert_eq!(sighting.age(guard, now), expected, "{period} {after}");
        }
    }
}
