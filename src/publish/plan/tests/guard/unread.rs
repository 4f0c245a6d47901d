//! A loss beside Cloud Map services that could not be read: their instances may be lost too, in an unknown number.

use insta::assert_snapshot;

use super::{
    Shop, after, at, confirmed, guard_state, held, lost, minutes, notes, ready, seen, shops,
};
use crate::model::GuardState;
use crate::publish::plan::tests::world::{NOW, World, lines_of};

/// A Cloud Map service that holds this number of instances and was not read.
fn unread(world: World, place: &str, count: u32) -> World {
    world.with(place, |service| {
        (service.instances, service.instance_count) = (None, count);
        service.unreadable = Some("throttled".into());
    })
}

#[test]
fn what_is_unread_is_added_to_a_loss_and_to_all_if_something_is_lost_besides() {
    let cases: [(&[Shop<'_>], u32, Option<GuardState>); 8] = [
        // Two of three go, and one of them is unread.
        (&[("a", 3, None), ("b", 3, None), ("c", 2, Some(2))], 3, Some(GuardState::HeldUntilRead)),
        // Nothing is lost, except perhaps in the unread service.
        (&[("a", 3, None), ("b", 3, Some(3)), ("c", 2, Some(2))], 3, None),
        // Too little, and too small a share.
        (&[("a", 1, None), ("b", 2, None), ("c", 1, Some(1))], 1, None),
        (&[("a", 2, None), ("b", 2, None), ("c", 5, Some(5))], 2, None),
        (&[("a", 2, None), ("b", 3, None), ("c", 3, Some(3))], 2, Some(GuardState::HeldUntilRead)),
        // It may be another's loss, so a Service that was read is not alone.
        (
            &[("a", 4, None), ("b", 4, Some(0)), ("c", 2, Some(2))],
            4,
            Some(GuardState::HeldUntilRead),
        ),
        (&[("a", 0, None), ("b", 4, Some(0)), ("c", 2, Some(2))], 0, None),
        // Past the limits by itself.
        (&[("a", 1, None), ("b", 9, None), ("c", 3, Some(3))], 1, Some(GuardState::Held)),
    ];
    for (cluster, count, expected) in cases {
        let plan = unread(shops(cluster), "http/a", count).plan();
        assert_eq!(guard_state(&plan), expected, "{cluster:?}:\n{}", lines_of(&plan));
        assert_eq!(lost(&plan, "b") == 0, expected.is_some() || cluster[1].2 == Some(cluster[1].1));
    }
}

#[test]
fn such_a_hold_notes_nothing_and_forgets_nothing() {
    let shops = || shops(&[("a", 3, None), ("b", 3, None), ("c", 2, Some(2))]);
    let world = unread(shops(), "http/a", 3);
    assert_snapshot!(world.planned(), @"! shop/b http/b: 3 instances stay here: Service shop/b, which is gone or not published any more, would lose 3 of 5 instances, and Cloud Map services with 3 more could not be read: together past GUARD_SHARE (50 %) and GUARD_MINIMUM (3); these instances stay until a full sync has read these Cloud Map services (Guard)");
    // A sighting from before remains, and lifts its hold when it is ripe.
    let noted = seen(shops());
    let text = notes(&noted);
    let plan = unread(at(noted.clone(), NOW + minutes(1)), "http/b", 3).plan();
    assert_eq!((guard_state(&plan), held(&plan)), (Some(GuardState::HeldUntilRead), vec!["a"]));
    assert_eq!(notes(&after(at(noted.clone(), NOW + minutes(1)), &plan)), text);
    let none_lost = unread(unread(at(noted.clone(), NOW), "http/b", 3), "http/a", 3).plan();
    assert_eq!((guard_state(&none_lost), none_lost.changes.len()), (None, 0));
    let all_back = ["a", "b"].into_iter().fold(noted.clone(), |it, name| ready(it, name, 3));
    let plan = unread(all_back, "http/c", 2).plan();
    assert_eq!(
        (guard_state(&plan), plan.changes.len()),
        (None, 0),
        "a part of the loss may be there"
    );
    let ripe = unread(at(noted, NOW + minutes(11)), "http/b", 3).plan();
    assert_eq!(
        (guard_state(&ripe), lost(&ripe, "a")),
        (Some(GuardState::Lifted), 3),
        "{}",
        lines_of(&ripe)
    );
}

#[test]
fn a_confirmation_lets_pass_what_is_known_of_it() {
    let world = shops(&[("a", 3, None), ("b", 3, None), ("c", 2, Some(2))]);
    let plan = confirmed(unread(world, "http/a", 3)).plan();
    assert_eq!((guard_state(&plan), lost(&plan, "b")), (Some(GuardState::Confirmed), 3));
}

#[test]
fn what_the_function_may_not_read_and_is_of_others_is_not_added() {
    let world = shops(&[("a", 3, None), ("b", 3, None), ("c", 2, Some(2))]);
    let denied = unread(world, "http/a", 3).with("http/a", |service| service.is_denied = true);
    assert_eq!(lost(&denied.plan(), "b"), 3, "it was never seen to be ours");
    let ours = denied.with("http/a", |service| service.was_ours = true);
    assert_eq!(guard_state(&ours.plan()), Some(GuardState::HeldUntilRead));
}
