//! The losses that the guard holds, and their reports.

use std::collections::BTreeMap;

use insta::assert_snapshot;

use super::{Shop, at, guard_state, held, lost, minutes, seen, shops};
use crate::model::{GuardState, Selection, ServiceRef};
use crate::publish::plan::tests::world::{
    HTTP, NOW, World, lines_of, named, ours, own, pod, pods, service,
};
use crate::publish::plan::{Extent, Guard, Holders, RereadScope, Rules, plan};

#[test]
fn a_loss_is_held_past_both_limits_unless_it_is_of_one_service_that_was_read() {
    let cases: [(&[Shop<'_>], &[&str]); 10] = [
        (&[("a", 4, Some(0)), ("b", 4, Some(0))], &["a", "b"]),
        (&[("a", 4, Some(1)), ("b", 4, Some(2))], &["a", "b"]),
        (&[("a", 4, Some(2)), ("b", 4, Some(2))], &[]),
        (&[("a", 2, Some(0)), ("b", 2, None)], &["a", "b"]),
        (&[("a", 2, Some(0)), ("b", 1, None)], &[]),
        (&[("a", 8, Some(0)), ("b", 1, Some(1))], &[]),
        (&[("a", 8, None), ("b", 1, Some(1))], &["a"]),
        (&[("a", 8, Some(0)), ("b", 1, Some(0)), ("c", 1, Some(1))], &["a", "b"]),
        (&[("a", 8, None), ("b", 8, Some(8))], &[]),
        (&[("a", 3, None), ("b", 3, None), ("c", 3, None)], &["a", "b", "c"]),
    ];
    for (cluster, expected) in cases {
        let plan = shops(cluster).plan();
        assert_eq!(held(&plan), expected, "{cluster:?}:\n{}", lines_of(&plan));
        let removals = cluster.iter().map(|(name, ..)| lost(&plan, name)).sum::<usize>();
        assert_eq!(removals == 0, !expected.is_empty(), "{cluster:?}:\n{}", lines_of(&plan));
    }
}

#[test]
fn a_service_that_lost_its_annotation_was_read() {
    let mut world = shops(&[("a", 8, None), ("b", 1, Some(1))]);
    world.0.desired.unannotated.insert(named("shop/a"));
    assert_eq!(lost(&world.plan(), "a"), 8);
}

#[test]
fn what_goes_when_the_next_holder_is_found_is_lost_in_this_run() {
    let next = service("shop/next", "http/a").ready([pod("new", "10.0.1.1")]);
    let plan = shops(&[("a", 8, None), ("b", 1, Some(1))]).service(next).plan();
    assert_eq!(held(&plan), ["a"], "{}", lines_of(&plan));
}

#[test]
fn what_waits_for_one_who_does_not_come_is_not_lost_in_this_run() {
    let withdrawn = |name, place| service(name, place).levers(false, None);
    let left = ["w", "x", "y", "z"].map(|id| own(id, "shop/left", "10.0.1.1"));
    let world = shops(&[("b", 1, Some(1)), ("c", 1, None)])
        .service(withdrawn("shop/next", "http/a"))
        .service(withdrawn("shop/left", "http/new"))
        .http("a", left);
    let plan = world.plan();
    assert_eq!((held(&plan), lost(&plan, "c"), lost(&plan, "left")), (vec![], 1, 4));
    let waits = plan.changes.values().flatten().filter(|change| change.waits_for().is_some());
    assert_eq!(waits.count(), 4, "{}", lines_of(&plan));
}

#[test]
fn what_is_held_says_who_loses_since_when_and_what_ends_it() {
    let world = shops(&[("a", 3, Some(1)), ("b", 3, None), ("c", 1, Some(1))]);
    assert_snapshot!(world.planned(), @r#"
    shop/a: rewrite http/a a-1: cloud-map-sync/guard nothing -> 2026-11-21T10:51:00Z
    shop/b: rewrite http/b b-0: cloud-map-sync/guard nothing -> 2026-11-21T10:51:00Z
    ! shop/a http/a: 2 instances stay here: Services shop/a, shop/b would lose 5 of 7 instances at once, past GUARD_SHARE (50 %) and GUARD_MINIMUM (3); first seen 2026-11-21T10:51:00Z; a full sync lets the same loss pass from 2026-11-21T11:01:00Z on; {"action":"confirm","cluster":"arn:aws:eks:eu-central-1:111122223333:cluster/blue"} lets it pass at once (Guard)
    ! shop/b http/b: 3 instances stay here: Services shop/a, shop/b would lose 5 of 7 instances at once, past GUARD_SHARE (50 %) and GUARD_MINIMUM (3); first seen 2026-11-21T10:51:00Z; a full sync lets the same loss pass from 2026-11-21T11:01:00Z on; {"action":"confirm","cluster":"arn:aws:eks:eu-central-1:111122223333:cluster/blue"} lets it pass at once (Guard)
    "#);
    let alone = shops(&[("a", 8, None), ("b", 1, Some(1))]);
    assert_snapshot!(alone.plan().guard.expect("held").to_string(), @r#"Service shop/a, which is gone or not published any more, would lose 8 of 9 instances at once, past GUARD_SHARE (50 %) and GUARD_MINIMUM (3); first seen 2026-11-21T10:51:00Z; a full sync lets the same loss pass from 2026-11-21T11:01:00Z on; {"action":"confirm","cluster":"arn:aws:eks:eu-central-1:111122223333:cluster/blue"} lets it pass at once"#);
    let many: Vec<String> = (0..9).map(|index| format!("s{index}")).collect();
    let many: Vec<Shop<'_>> = many.iter().map(|name| (name.as_str(), 2, None)).collect();
    assert_snapshot!(shops(&many).plan().guard.expect("held").to_string(), @r#"Services shop/s0, shop/s1, shop/s2 and 6 more would lose 18 of 18 instances at once, past GUARD_SHARE (50 %) and GUARD_MINIMUM (3); first seen 2026-11-21T10:51:00Z; a full sync lets the same loss pass from 2026-11-21T11:01:00Z on; {"action":"confirm","cluster":"arn:aws:eks:eu-central-1:111122223333:cluster/blue"} lets it pass at once"#);
}

#[test]
fn a_rolling_restart_and_a_rename_lose_nothing() {
    let replaced = |index: usize| pod("two", &format!("10.0.1.{index}"));
    let rolled =
        ["a", "b"].into_iter().fold(shops(&[("a", 4, None), ("b", 4, None)]), |it, name| {
            let pods: Vec<_> = (0..4).map(replaced).collect();
            it.service(service(&format!("shop/{name}"), &format!("http/{name}")).ready(pods))
        });
    let renamed =
        ["a", "b"].into_iter().fold(shops(&[("a", 4, None), ("b", 4, None)]), |it, name| {
            let pods = pods("10.0.0", 0..4);
            it.service(service(&format!("shop/{name}"), &format!("http/new-{name}")).ready(pods))
        });
    for world in [rolled, renamed] {
        let plan = world.plan();
        assert_eq!((guard_state(&plan), lost(&plan, "a"), lost(&plan, "b")), (None, 4, 4));
    }
}

#[test]
fn an_instance_that_passes_to_another_service_is_not_lost() {
    let world = shops(&[("a", 4, None), ("b", 4, None)]);
    let world = ["a", "b"].into_iter().fold(world, |world, name| {
        let pods = pods("10.0.0", 0..4);
        world.service(service(&format!("shop/new-{name}"), &format!("http/{name}")).ready(pods))
    });
    assert_eq!(guard_state(&world.plan()), None);
}

#[test]
fn registrations_and_rewrites_go_on_while_removals_are_held() {
    let mut world = shops(&[("a", 4, None), ("b", 4, Some(0))]);
    let name = "shop/a";
    let ready = [pod("two", "10.0.0.0"), pod("three", "10.0.0.9")];
    world = world.service(service(name, "http/a").ready(ready));
    assert_snapshot!(world.planned(), @r#"
    shop/a: rewrite http/a a-0: cloud-map-sync/pod one -> two
    shop/a: register http/a: 10.0.0.9 (pod three)
    shop/a: rewrite http/a a-1: cloud-map-sync/guard nothing -> 2026-11-21T10:51:00Z
    shop/b: rewrite http/b b-0: cloud-map-sync/guard nothing -> 2026-11-21T10:51:00Z
    ! shop/a http/a: 3 instances stay here: Services shop/a, shop/b would lose 6 of 8 instances at once, past GUARD_SHARE (50 %) and GUARD_MINIMUM (3); first seen 2026-11-21T10:51:00Z; a full sync lets the same loss pass from 2026-11-21T11:01:00Z on; {"action":"confirm","cluster":"arn:aws:eks:eu-central-1:111122223333:cluster/blue"} lets it pass at once (Guard)
    ! shop/b http/b: 4 instances stay here: Services shop/a, shop/b would lose 6 of 8 instances at once, past GUARD_SHARE (50 %) and GUARD_MINIMUM (3); first seen 2026-11-21T10:51:00Z; a full sync lets the same loss pass from 2026-11-21T11:01:00Z on; {"action":"confirm","cluster":"arn:aws:eks:eu-central-1:111122223333:cluster/blue"} lets it pass at once (Guard)
    "#);
}

#[test]
fn a_second_look_neither_holds_nor_says_anything() {
    let world = shops(&[("a", 4, Some(0)), ("b", 4, None), ("c", 4, Some(4))]);
    let holders = Holders::decide(&world.0);
    let changes = at(seen(world.clone()), NOW + minutes(10)).plan().changes;
    let (service, changes) = changes.into_iter().next().expect("the loss passes");
    let again = RereadScope::of(&holders, [&service], changes.iter());
    let narrow = again.narrow(&world.observed(&Selection::Everything));
    let second = plan(&again.decide(narrow));
    assert_eq!((guard_state(&second), lost(&second, "a")), (None, 4), "{}", lines_of(&second));
    assert!(second.held_back.is_empty());
}

#[test]
fn a_targeted_sync_leaves_what_is_too_much_for_it_to_the_full_sync() {
    let part = |mut world: World, selection: &Selection| {
        world.0.extent = Extent::Part;
        plan(&world.observed(selection))
    };
    let one = |name| Selection::service(ServiceRef::new("shop", name));
    let both = one("a").union(one("b"));
    // `c` would make it a small share of the cluster, but this sync is not about `c`.
    let world = || shops(&[("a", 3, Some(0)), ("b", 3, Some(1)), ("c", 90, Some(90))]);
    assert_snapshot!(lines_of(&part(world(), &both)), @r#"
    ! shop/a http/a: 3 instances stay here: Services shop/a, shop/b would lose 5 of 6 instances at once, past GUARD_SHARE (50 %) and GUARD_MINIMUM (3); this targeted sync leaves it to the full sync (Guard)
    ! shop/b http/b: 2 instances stay here: Services shop/a, shop/b would lose 5 of 6 instances at once, past GUARD_SHARE (50 %) and GUARD_MINIMUM (3); this targeted sync leaves it to the full sync (Guard)
    "#);
    assert_eq!(guard_state(&world().plan()), None);
    assert_eq!(lost(&part(world(), &one("a")), "a"), 3);
    assert_eq!(lost(&part(shops(&[("a", 3, None)]), &one("a")), "a"), 3);
    // A loss that a full sync holds is not removed piece by piece.
    let held_before = seen(shops(&[("a", 3, Some(0)), ("b", 3, Some(1)), ("c", 3, Some(3))]));
    assert_snapshot!(lines_of(&part(held_before.clone(), &one("a"))), @r#"! shop/a http/a: 3 instances stay here: Service shop/a would lose 3 instances that are left to the full sync: first seen 2026-11-21T10:51:00Z; a full sync lets the same loss pass from 2026-11-21T11:01:00Z on; {"action":"confirm","cluster":"arn:aws:eks:eu-central-1:111122223333:cluster/blue"} lets it pass at once (Guard)"#);
    let forgotten = at(held_before, NOW + minutes(61));
    assert_eq!(lost(&part(forgotten, &one("a")), "a"), 3);
}

#[test]
fn instance_that_another_service_displaces_is_lost() {
    let mut world = [("web", "shop/gone"), ("api", "shop/left")].into_iter().fold(
        shops(&[]),
        |world, (name, former)| {
            let pods = pods("10.0.1", 0..5);
            let place = format!("http/{name}");
            let before = ["a", "b", "c", "d", "e"].map(|id| own(id, former, "10.0.0.1"));
            let ready = service(&format!("shop/{name}"), &place).ready(pods);
            world.service(ready).cloud_map(&place, HTTP, before)
        },
    );
    world.0.registry.capacity.record_full("ns-http", "full");
    let plan = world.plan();
    assert_eq!(guard_state(&plan), Some(GuardState::Held), "{}", lines_of(&plan));
    assert_eq!(
        plan.guard.map(|it| (crate::guard::total(it.verdict.losses()), it.verdict.instances)),
        Some((10, 10))
    );
}

#[test]
fn instance_that_passes_in_place_offsets_a_loss_of_the_service_that_takes_it() {
    let guard = Guard { share: 10, minimum: 3, ..Guard::default() };
    let world = ["b", "c"].into_iter().fold(
        World::new().under(Rules { guard, ..Rules::default() }),
        |world, name| {
            let of = format!("shop/{name}");
            let at = |last: usize| format!("10.0.0.{last}");
            let pods = pods("10.0.0", 0..5);
            let taken = format!("http/taken-{name}");
            let kept = format!("http/kept-{name}");
            let marked = |of: &str, count| -> BTreeMap<_, _> {
                (0..count).map(|last| (format!("i-{last}"), ours(of, &at(last)))).collect()
            };
            world
                .service(service(&of, &taken).also(&kept[5..]).ready(pods))
                .cloud_map(&taken, HTTP, [])
                .with(&taken, |it| {
                    it.instances = Some(marked("shop/gone", 5).into_iter().collect());
                })
                .cloud_map(&kept, HTTP, [])
                .with(&kept, |it| it.instances = Some(marked(&of, 9).into_iter().collect()))
        },
    );
    let plan = world.plan();
    assert_eq!(guard_state(&plan), None, "{}", lines_of(&plan));
    assert_eq!((lost(&plan, "b"), lost(&plan, "c")), (4, 4));
}
