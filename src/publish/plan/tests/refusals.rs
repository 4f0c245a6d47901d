//! The changes that Cloud Map has refused for good, and when they are sent again.

use super::world::{A, HTTP, NOW, World, ours, pods, service};
use crate::model::{Attributes, CloudMapService, Selection, SignedDuration, Timestamp};
use crate::publish::plan::{Change, Reason, Refusals};

fn refused() -> Reason {
    Reason::InvalidInput("not valid".into())
}

fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

/// Two registrations in `web`, and what they rest on.
fn scene() -> (World, Vec<Change>) {
    let world = World::new().cloud_map("http/web", HTTP, []);
    let world = world.service(service("shop/web", "http/web").ready(pods("10.0.0", 1..3)));
    let changes = world.plan().changes.into_values().flatten().collect();
    (world, changes)
}

fn count_remembered(
    refusals: &Refusals,
    changes: &[Change],
    world: &World,
    now: Timestamp,
) -> usize {
    let mut observation = world.observed(&Selection::Everything);
    observation.now = now;
    refusals.remembered_answers(changes.iter(), &observation).iter().flatten().count()
}

#[test]
fn request_is_sent_again_after_ten_minutes_or_if_it_differs() {
    let (world, changes) = scene();
    let mut refusals = Refusals::default();
    let observation = world.observed(&Selection::Everything);
    let answers = changes.iter().map(|change| (change, Some(refused())));
    refusals.record(answers, &observation);
    let ages = [
        (SignedDuration::ZERO, 0),
        (SignedDuration::from_secs(1), 2),
        (minutes(10) - SignedDuration::from_secs(1), 2),
        (minutes(10), 0),
        // The clock was set back.
        (-minutes(1), 0),
    ];
    for (age, expected) in ages {
        assert_eq!(count_remembered(&refusals, &changes, &world, NOW + age), expected, "{age}");
    }
    let other = |edit: fn(&mut String, &mut Attributes)| {
        let mut changes = changes.clone();
        for change in &mut changes {
            let Change::Register { instance, attributes, .. } = change else { panic!("{change}") };
            edit(instance, attributes);
        }
        count_remembered(&refusals, &changes, &world, NOW + minutes(1))
    };
    assert_eq!(other(|_, attributes| attributes.insert("team", "shop")), 0, "an attribute");
    assert_eq!(other(|instance, _| instance.push('x')), 0, "an id");
    let with_instance = world.clone().with("http/web", |service| {
        let instances = service.instances.as_mut().expect("read");
        instances.insert("other".into(), ours("shop/other", "10.0.9.9"));
    });
    let later = NOW + minutes(1);
    assert_eq!(count_remembered(&refusals, &changes, &with_instance, later), 2, "another instance");
    let created_again: [fn(&mut CloudMapService); 2] =
        [|service| service.arn.push('x'), |service| service.kind = A];
    for change in created_again {
        let world = world.clone().with("http/web", change);
        assert_eq!(count_remembered(&refusals, &changes, &world, later), 0, "another service");
    }
}

#[test]
fn answer_of_the_last_try_counts() {
    let (world, changes) = scene();
    let mut refusals = Refusals::default();
    let note = |refusals: &mut Refusals, now: Timestamp, answer: Option<Reason>| {
        let mut observation = world.observed(&Selection::Everything);
        observation.now = now;
        let answers = changes.iter().map(|change| (change, answer.clone()));
        refusals.record(answers, &observation);
    };
    note(&mut refusals, NOW, Some(refused()));
    note(&mut refusals, NOW + minutes(10), Some(refused()));
    assert_eq!(count_remembered(&refusals, &changes, &world, NOW + minutes(19)), 2);
    note(&mut refusals, NOW + minutes(11), None);
    assert_eq!(count_remembered(&refusals, &changes, &world, NOW + minutes(19)), 0);
}
