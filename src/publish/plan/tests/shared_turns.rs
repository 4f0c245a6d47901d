//! Services that share a name, in their turns: the changes of the others that each waits for, the Services that take
//! one turn together, the capacity that one leaves to another, and the end of a turn with changes that are left.

use insta::assert_snapshot;

use super::shared::{old, world, young};
use super::world::{
    Kubernetes, World, foreign, lines_of, named, ours, own, pod, service, tagged, with,
};
use crate::model::attributes::{HEALTH, INITIAL_HEALTH};
use crate::model::{Health, KnownHealth, Outcome, Selection, ServiceRef};
use crate::publish::passes::{Effect, Step, Turn};
use crate::publish::plan::{Holders, Rules, ServiceLimit, Task, in_turns, plan};

#[test]
fn a_sync_of_one_of_them_leaves_the_instances_of_the_other_alone() {
    let present = || [own("a", "shop/old", "10.0.0.1"), own("b", "shop/young", "10.0.0.2")];
    let changed = world([old(&["10.0.0.3"]), young(&["10.0.0.4"])], present());
    assert_snapshot!(lines_of(&changed.plan_of("shop/young")), @r"
    shop/young: register dns/web: 10.0.0.4
    shop/young: deregister dns/web b: 10.0.0.2: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
    let handed_over = world([old(&["10.0.0.2"]), young(&["10.0.0.4"])], present());
    assert_snapshot!(lines_of(&handed_over.plan_of("shop/young")), @"shop/young: register dns/web: 10.0.0.4");
    let missing = World::of(old(&["10.0.0.1"])).service(young(&["10.0.0.2"]));
    assert_snapshot!(lines_of(&missing.plan_of("shop/young")), @r"
    shop/young: create dns/web: a DNS service of A records, TTL 60 s
    shop/young: register dns/web: 10.0.0.2
    ");
}

#[test]
fn a_sync_of_one_that_left_the_name_is_about_those_who_share_it() {
    let affected = |world: &World, name: &str| {
        let selection = crate::model::Selection::service(named(name));
        world.observed(&selection).affected.iter().map(ServiceRef::to_string).collect::<Vec<_>>()
    };
    let world = world([old(&[]), young(&[])], [own("a", "shop/gone", "10.0.0.9")]);
    assert_eq!(affected(&world, "shop/young"), ["shop/young"]);
    assert_eq!(affected(&world, "shop/gone"), ["shop/gone", "shop/old", "shop/young"]);
}

#[test]
fn each_takes_its_own_turn_unless_one_registers_where_another_creates_removes_or_waits() {
    let turns = |world: &World| {
        let turns = in_turns(world.plan().changes, &Holders::decide(&world.0)).into_iter();
        turns.map(|turn| turn.into_keys().map(|it| it.name).collect()).collect::<Vec<Vec<_>>>()
    };
    let changed = [old(&["10.0.0.3"]), young(&["10.0.0.4"])];
    let present = || [own("a", "shop/old", "10.0.0.1"), own("b", "shop/young", "10.0.0.2")];
    assert_eq!(turns(&world(changed.clone(), present())), [["old", "young"]]);
    let more = [old(&["10.0.0.1", "10.0.0.3"]), young(&["10.0.0.2", "10.0.0.4"])];
    assert_eq!(turns(&world(more, present())), [["old"], ["young"]]);
    let one_each = [old(&["10.0.0.1", "10.0.0.3"]), young(&[])];
    assert_eq!(turns(&world(one_each, present())), [["old", "young"]]);
    // An update of the service takes no place from a registration.
    let updated = [old(&["10.0.0.1"]).ttl(30), young(&["10.0.0.2", "10.0.0.4"])];
    let updated = world(updated, present()).with("dns/web", |it| {
        (it.ttls, it.tags) = ([60].into(), tagged("cloud-map-sync"));
    });
    assert_eq!(turns(&updated), [["old"], ["young"]], "{}", lines_of(&updated.plan()));
    let missing = changed.into_iter().fold(World::new(), World::service);
    assert_eq!(turns(&missing), [["old", "young"]]);
    // The old instance of a renamed Service waits for an endpoint that another registers under the new name.
    let renamed = world([old(&["10.0.0.1"]), young(&["10.0.0.1"])], []);
    let renamed = renamed.dns("former", [own("c", "shop/young", "10.0.0.1")]);
    assert_eq!(turns(&renamed), [["old", "young"]], "{}", lines_of(&renamed.plan()));
}

/// Each turn has a copy of all who share the name.
#[test]
fn many_who_share_a_name_take_one_turn() {
    let turns = |count: usize| {
        let sharer = |index: usize| {
            let name = format!("shop/s{index}");
            service(&name, "dns/web").shared().ready([pod("one", &format!("10.0.0.{index}"))])
        };
        let world = (0..count).map(sharer).fold(World::new(), World::service);
        let world = world.dns("web", []);
        in_turns(world.plan().changes, &Holders::decide(&world.0)).len()
    };
    assert_eq!((turns(16), turns(17)), (16, 1));
}

fn of_at_most(service: usize) -> Rules {
    Rules { service_limit: ServiceLimit(service), ..Rules::default() }
}

#[test]
fn what_one_of_them_leaves_is_displaced_by_an_endpoint_of_another() {
    let leaves = [own("a", "shop/old", "10.0.0.9")];
    let world = world([old(&[]), young(&["10.0.0.1", "10.0.0.2"])], leaves);
    assert_snapshot!(world.clone().under(of_at_most(2)).planned(), @r"
    shop/young: rewrite dns/web a: 10.0.0.1 in place of 10.0.0.9: no ready endpoint has this address and port
    shop/young: register dns/web: 10.0.0.2
    ");
}

#[test]
fn the_last_instance_of_one_without_pods_stays_until_another_who_shares_the_name_has_one() {
    let waiting = world([old(&[]), young(&["10.0.0.2"])], [own("a", "shop/old", "10.0.0.1")]);
    assert_snapshot!(waiting.planned(), @r"
    shop/old: deregister dns/web a: 10.0.0.1: no ready endpoint has this address and port; stays until Service shop/young has an instance under this name
    shop/young: register dns/web: 10.0.0.2
    ");
    let present = [own("a", "shop/old", "10.0.0.1"), own("b", "shop/young", "10.0.0.2")];
    let served = world([old(&[]), young(&["10.0.0.2"])], present);
    assert_snapshot!(served.planned(), @"shop/old: deregister dns/web a: 10.0.0.1: no ready endpoint has this address and port");
}

#[test]
fn an_instance_to_rewrite_is_kept_and_another_one_displaced() {
    let left = [own("a", "shop/left", "10.0.0.1"), own("b", "shop/gone", "10.0.0.2")];
    let full = world([old(&["10.0.0.3"]), young(&["10.0.0.2"])], left).under(of_at_most(2));
    assert_snapshot!(full.planned(), @r"
    shop/old: rewrite dns/web a: 10.0.0.3 in place of 10.0.0.1: Service shop/left is gone, or no longer annotated and headless
    shop/young: rewrite dns/web b: cloud-map-sync/service gone -> young
    ");
}

#[test]
fn the_last_places_go_to_those_with_the_fewest_instances() {
    let left = || [("ecs", foreign("10.0.0.8")), own("b", "shop/gone", "10.0.0.9")];
    for (first, second) in [("10.0.0.1", "10.0.0.2"), ("10.0.0.2", "10.0.0.1")] {
        let full = world([old(&[first]), young(&[second])], left()).under(of_at_most(3));
        let planned = full.planned();
        let written =
            planned.matches("register").count() + planned.matches("in place of 10.0.0.9").count();
        assert_eq!((written, full.plan().held_back.len()), (2, 0), "{planned}");
    }
}

#[test]
fn former_instances_wait_for_the_holder_that_needs_no_further_capacity() {
    let services = || [old(&["10.0.0.1"]), young(&["10.0.0.2"])];
    let id = world(services(), []).id_given("dns/web", "10.0.0.2");
    let gone = own("a", "shop/gone", "10.0.0.9");
    assert_snapshot!(world(services(), [gone.clone()]).planned(), @r"
    shop/old: register dns/web: 10.0.0.1
    shop/old: deregister dns/web a: 10.0.0.9: Service shop/gone is gone, or no longer annotated and headless; stays until Service shop/old has an instance under this name
    shop/young: register dns/web: 10.0.0.2
    ");
    // The address of the instance of young's pod was edited.
    assert_snapshot!(world(services(), [gone, own(&id, "shop/young", "10.0.0.8")]).planned(), @r"
    shop/old: register dns/web: 10.0.0.1
    shop/old: deregister dns/web a: 10.0.0.9: Service shop/gone is gone, or no longer annotated and headless; stays until Service shop/young has an instance under this name
    shop/young: rewrite dns/web: AWS_INSTANCE_IPV4 10.0.0.8 -> 10.0.0.2
    ");
}

/// The pod that both select counts for each of them if its instance is marked for one of them, and healthy.
#[test]
fn last_instance_of_a_sharer_stays_until_the_pod_of_both_is_found() {
    let both = || [old(&["10.0.0.1"]), young(&["10.0.0.1"])].map(Kubernetes::custom_health);
    let planned = |of: &str, health: Health| {
        let healthy = |of, address| {
            let attributes = with(ours(of, address), HEALTH, "custom");
            with(attributes, INITIAL_HEALTH, "HEALTHY")
        };
        let instances = [("a", healthy(of, "10.0.0.1")), ("b", healthy("shop/young", "10.0.0.9"))];
        let services = both().map(|it| it.within("http"));
        let world = services.into_iter().fold(World::new(), World::service);
        let world = world.http("web", instances).with("http/web", |service| {
            service.custom_health = true;
            let known = [("a".to_owned(), health), ("b".to_owned(), Health::Healthy)];
            service.health = KnownHealth::Read(known.into());
        });
        world.planned()
    };
    assert_snapshot!(planned("shop/old", Health::Healthy), @"shop/young: deregister http/web b: 10.0.0.9: no ready endpoint has this address and port");
    assert_snapshot!(planned("shop/old", Health::Unhealthy), @r"
    shop/old: health http/web a: 10.0.0.1: UNHEALTHY -> HEALTHY, since it is ready
    shop/young: deregister http/web b: 10.0.0.9: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
    assert_snapshot!(planned("shop/gone", Health::Healthy), @r"
    shop/old: rewrite http/web a: cloud-map-sync/service gone -> old
    shop/young: deregister http/web b: 10.0.0.9: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
}

/// Its endpoint changed before it was made, and the turn ends before it is planned again.
#[test]
fn registration_that_was_left_out_is_reported() {
    let world = World::of(old(&["10.0.0.1"])).dns("web", []);
    let failed = Outcome::failed("the cluster does not answer");
    for read in [None, Some(&failed)] {
        let observed = world.observed(&Selection::Everything);
        let mut turn = Turn::of(Task::Sync, &observed, plan(&observed).changes, None);
        let Step::Make(changes) = turn.next(true) else { panic!("nothing is due") };
        for change in changes {
            turn.record(change, Effect::Outdated);
        }
        if let Some(outcome) = read {
            assert!(matches!(turn.next(true), Step::Read(_)));
            turn.fail(outcome);
        }
        assert!(matches!(turn.next(read.is_some()), Step::Done));
        let settled = turn.into_results().applied;
        let outcomes: Vec<_> = settled.into_iter().map(|it| it.outcome).collect();
        assert_eq!(outcomes, [Ok(read.cloned().unwrap_or_else(Outcome::out_of_time))]);
    }
}
