//! Those who share a name in their turns: what each waits for of the others, who takes one turn together,
//! and what room one leaves to another.

use insta::assert_snapshot;

use super::shared::{old, world, young};
use super::world::{A, World, foreign, named, own, tell};
use crate::model::ServiceRef;
use crate::plan::{Limits, Rules, in_turns};

#[test]
fn a_sync_of_one_of_them_leaves_the_instances_of_the_other_alone() {
    let present = || [own("a", "shop/old", "10.0.0.1"), own("b", "shop/young", "10.0.0.2")];
    let changed = world([old(&["10.0.0.3"]), young(&["10.0.0.4"])], present());
    assert_snapshot!(tell(&changed.plan_of("shop/young")), @r"
    shop/young: register dns/web: 10.0.0.4
    shop/young: deregister dns/web b: 10.0.0.2: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
    let handed_over = world([old(&["10.0.0.2"]), young(&["10.0.0.4"])], present());
    assert_snapshot!(tell(&handed_over.plan_of("shop/young")), @"shop/young: register dns/web: 10.0.0.4");
    let missing = World::new().service(old(&["10.0.0.1"])).service(young(&["10.0.0.2"]));
    assert_snapshot!(tell(&missing.plan_of("shop/young")), @r"
    shop/young: create dns/web: a DNS service of A records, TTL 60 s
    shop/young: register dns/web: 10.0.0.2
    ");
}

#[test]
fn a_sync_of_one_that_left_the_name_is_about_those_who_share_it() {
    let affected = |world: &World, name: &str| {
        let selection = crate::model::Selection::service(named(name));
        let affected = crate::plan::affected(&world.0, &selection);
        affected.iter().map(ServiceRef::to_string).collect::<Vec<_>>()
    };
    let world = world([old(&[]), young(&[])], [own("a", "shop/gone", "10.0.0.9")]);
    assert_eq!(affected(&world, "shop/young"), ["shop/young"]);
    assert_eq!(affected(&world, "shop/gone"), ["shop/gone", "shop/old", "shop/young"]);
}

#[test]
fn each_takes_its_own_turn_unless_one_registers_where_another_creates_or_waits_for_room() {
    let turns = |world: &World| {
        let turns = in_turns(world.plan().changes).into_iter();
        turns.map(|turn| turn.into_keys().map(|it| it.name).collect()).collect::<Vec<Vec<_>>>()
    };
    let changed = [old(&["10.0.0.3"]), young(&["10.0.0.4"])];
    let present = [own("a", "shop/old", "10.0.0.1"), own("b", "shop/young", "10.0.0.2")];
    assert_eq!(turns(&world(changed.clone(), present)), [["old"], ["young"]]);
    let missing = changed.into_iter().fold(World::new(), World::service);
    assert_eq!(turns(&missing), [["old", "young"]]);
    let more = [old(&["10.0.0.1", "10.0.0.3"]), young(&["10.0.0.4"])];
    let full = world(more, [own("a", "shop/old", "10.0.0.1"), own("b", "shop/young", "10.0.0.2")]);
    assert_eq!(turns(&full), [["old"], ["young"]]);
    let crowded = full.under(of_at_most(3));
    assert_snapshot!(crowded.told(), @r"
    shop/old: register dns/web: 10.0.0.3; waits until there is room for it
    shop/young: register dns/web: 10.0.0.4
    shop/young: deregister dns/web b: 10.0.0.2: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
    assert_eq!(turns(&crowded), [["old", "young"]]);
}

fn of_at_most(service: usize) -> Rules {
    Rules { limits: Limits { service, ..Limits::default() }, ..Rules::default() }
}

#[test]
fn what_one_of_them_leaves_makes_room_for_another() {
    let leaves = [own("a", "shop/old", "10.0.0.9")];
    let world = world([old(&[]), young(&["10.0.0.1", "10.0.0.2"])], leaves);
    assert_snapshot!(world.clone().under(of_at_most(2)).told(), @r"
    shop/old: deregister dns/web a: 10.0.0.9: no ready endpoint has this address and port; stays until Service shop/young has an instance under this name
    shop/young: register dns/web: 10.0.0.1; waits until there is room for it
    shop/young: register dns/web: 10.0.0.2
    ");
    let moved = World::new().service(old(&[])).service(young(&["10.0.0.1"]).also("more"));
    let left = own("a", "shop/old", "10.0.0.9");
    let standing = own("b", "shop/gone", "10.0.0.1");
    let moved = moved.cloud_map("dns/web", A, [left, standing]).cloud_map("dns/more", A, []);
    let limits = Limits { namespace: 2, ..Limits::default() };
    assert_snapshot!(moved.under(Rules { limits, ..Rules::default() }).told(), @r"
    shop/old: deregister dns/web a: 10.0.0.9: no ready endpoint has this address and port; stays until Service shop/young has an instance under this name
    shop/young: register dns/more: 10.0.0.1; waits until there is room for it
    shop/young: rewrite dns/web b: cloud-map-sync/service gone -> young
    ");
}

#[test]
fn the_last_instance_of_one_without_pods_stays_until_another_who_shares_the_name_has_one() {
    let waiting = world([old(&[]), young(&["10.0.0.2"])], [own("a", "shop/old", "10.0.0.1")]);
    assert_snapshot!(waiting.told(), @r"
    shop/old: deregister dns/web a: 10.0.0.1: no ready endpoint has this address and port; stays until Service shop/young has an instance under this name
    shop/young: register dns/web: 10.0.0.2
    ");
    let present = [own("a", "shop/old", "10.0.0.1"), own("b", "shop/young", "10.0.0.2")];
    let served = world([old(&[]), young(&["10.0.0.2"])], present);
    assert_snapshot!(served.told(), @"shop/old: deregister dns/web a: 10.0.0.1: no ready endpoint has this address and port");
}

#[test]
fn what_goes_waits_rather_for_one_that_has_an_instance_to_rewrite() {
    let left = [own("a", "shop/left", "10.0.0.1"), own("b", "shop/gone", "10.0.0.2")];
    let full = world([old(&["10.0.0.3"]), young(&["10.0.0.2"])], left).under(of_at_most(2));
    assert_snapshot!(full.told(), @r"
    shop/old: register dns/web: 10.0.0.3; waits until there is room for it
    shop/old: deregister dns/web a: 10.0.0.1: Service shop/left is gone, or no longer annotated and headless; stays until Service shop/young has an instance under this name
    shop/young: rewrite dns/web b: cloud-map-sync/service gone -> young
    ");
}

#[test]
fn the_last_place_goes_to_the_one_for_whom_what_goes_waits() {
    let left = || [("ecs", foreign("10.0.0.8")), own("b", "shop/gone", "10.0.0.9")];
    for (first, second) in [("10.0.0.1", "10.0.0.2"), ("10.0.0.2", "10.0.0.1")] {
        let full = world([old(&[first]), young(&[second])], left()).under(of_at_most(3));
        let waits = "stays until Service shop/old has an instance under this name";
        let expected = format!(
            "shop/old: register dns/web: {first}\n\
             shop/old: deregister dns/web b: 10.0.0.9: Service shop/gone is gone, or no longer annotated and headless; \
             {waits}\n\
             shop/young: register dns/web: {second}; waits until there is room for it"
        );
        assert_eq!(full.told(), expected);
    }
}
