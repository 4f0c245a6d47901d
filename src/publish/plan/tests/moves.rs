//! A Service leaves a name and another one takes it over. The old instances are deregistered only when the new holder
//! has instances there, and the renamed Service has instances under its new name.

use std::collections::{BTreeMap, BTreeSet};

use insta::assert_snapshot;

use super::promises::our_addresses;
use super::simulation::{Course, Simulation};
use super::world::{A, CNAME, Kubernetes, World, key, own, pod, pods, service};
use crate::model::{Attributes, Outcome, Place, Selection, ServiceRef};
use crate::publish::group::{Effect, GroupSync, Step};
use crate::publish::plan::{Change, Difference, Permits, Task, in_groups, plan};

/// `shop/web` changed its name from `dns/old` to `dns/new`, and `shop/next` takes over `dns/old`.
fn left(web: Kubernetes, old: &[(&str, Attributes)], new: &[(&str, Attributes)]) -> World {
    let filled = |world: World, place: &str, instances: &[(&str, Attributes)]| {
        let instances = instances.iter().map(|(id, it)| ((*id).to_owned(), it.clone())).collect();
        world.cloud_map(place, A, []).with(place, |service| service.instances = Some(instances))
    };
    let world =
        World::of(web).service(service("shop/next", "dns/old").ready([pod("two", "10.0.0.2")]));
    filled(filled(world, "dns/old", old), "dns/new", new)
}

fn web() -> Kubernetes {
    service("shop/web", "dns/new").ready([pod("one", "10.0.0.1")])
}

/// The result for the instance that `shop/web` left in `dns/old`.
fn planned(world: &World) -> String {
    let planned = world.planned();
    let mut lines = planned.lines().filter_map(|line| line.split_once(" dns/old left: "));
    lines.next().map(|(_, line)| line.to_owned()).unwrap_or_default()
}

#[test]
fn what_a_renamed_service_left_waits_for_the_next_holder_and_for_the_new_name() {
    let left_behind = || own("left", "shop/web", "10.0.0.1");
    let next = || own("b", "shop/next", "10.0.0.2");
    let moved = || own("c", "shop/web", "10.0.0.1");
    let world = |old: &[_], new: &[_]| planned(&left(web(), old, new));
    assert_snapshot!(world(&[left_behind()], &[]), @"10.0.0.1: Service shop/web asks for another name now; stays until Service shop/next has an instance under this name and every endpoint is registered under the new name of Service shop/web");
    assert_snapshot!(world(&[left_behind(), next()], &[]), @"10.0.0.1: Service shop/web asks for another name now; stays until every endpoint is registered under the new name of Service shop/web");
    assert_snapshot!(world(&[left_behind()], &[moved()]), @"10.0.0.1: Service shop/web asks for another name now; stays until Service shop/next has an instance under this name");
    assert_snapshot!(world(&[left_behind(), next()], &[moved()]), @"10.0.0.1: Service shop/web asks for another name now");
}

/// The old instance does not wait for a condition that may never be met.
#[test]
fn what_a_renamed_service_left_does_not_wait_for_a_new_name_that_cannot_become_whole() {
    let old = [own("left", "shop/web", "10.0.0.1"), own("b", "shop/next", "10.0.0.2")];
    let misfit = web().ready([pod("one", "fd00::1")]);
    assert_snapshot!(planned(&left(misfit, &old, &[])), @"10.0.0.1: Service shop/web asks for another name now");
    let contested = left(web().created(2), &old, &[]);
    let contested = contested.service(service("shop/other", "dns/new").created(1));
    assert_snapshot!(planned(&contested), @"10.0.0.1: Service shop/web asks for another name now");
    let none_ready = left(web().ready([]).keeps(false, true), &old, &[]);
    assert_snapshot!(planned(&none_ready), @"10.0.0.1: Service shop/web asks for another name now; stays until every endpoint is registered under the new name of Service shop/web");
    let unreadable = left(web(), &old, &[]).with("dns/new", |service| {
        service.instances = None;
        service.unreadable = Some("throttled".into());
    });
    assert_snapshot!(planned(&unreadable), @"10.0.0.1: Service shop/web asks for another name now; stays until every endpoint is registered under the new name of Service shop/web");
}

#[test]
fn a_service_that_lost_a_name_which_it_still_asks_for_waits_for_no_other_name_of_its_own() {
    let world = World::of(
        service("shop/web", "dns/old").also("new").created(2).ready([pod("one", "10.0.0.1")]),
    )
    .service(service("shop/next", "dns/old").created(1).ready([pod("two", "10.0.0.2")]))
    .dns("old", [own("left", "shop/web", "10.0.0.1"), own("b", "shop/next", "10.0.0.2")]);
    assert_eq!(planned(&world), "10.0.0.1: Service shop/next holds the name now");
}

/// The old name has another holder with instances. The next sync finds that the new name is free.
#[test]
fn a_renamed_service_leaves_a_name_of_others_also_in_the_run_that_frees_its_new_one() {
    let old = |name, place| service(name, place).created(1);
    let world = World::of(old("ops/web", "http/app").levers(false, None))
        .service(old("shop/cart", "http/web").ready([pod("two", "10.0.0.2")]))
        .service(service("shop/api", "http/app").created(0).ready([pod("one", "10.0.0.1")]))
        .http("app", [own("a", "shop/cart", "10.0.0.2"), own("b", "ops/web", "10.0.0.3")])
        .http("web", [own("c", "shop/api", "10.0.0.1")]);
    let mut simulation = Simulation::new(world, Course::undisturbed());
    let found = |simulation: &Simulation| {
        ["http/app", "http/web"].map(|place| {
            let place = key(place);
            let addresses = our_addresses(&simulation.world.0, &place);
            addresses.map(|address| address.to_string()).collect::<Vec<_>>()
        })
    };
    simulation.sync(&Selection::Everything);
    assert_eq!(found(&simulation), [["10.0.0.2"], ["10.0.0.2"]]);
    simulation.sync(&Selection::Everything);
    assert_eq!(found(&simulation), [["10.0.0.1"], ["10.0.0.2"]]);
}

fn groups(world: &World) -> Vec<Vec<String>> {
    let groups = in_groups(world.plan().changes).into_iter();
    groups.map(|group| group.keys().map(ServiceRef::to_string).collect()).collect()
}

#[test]
fn services_that_wait_for_one_another_are_one_group_and_the_others_one_each() {
    let apart = |world: World| {
        let ready = |name, place| service(name, place).ready([pod("one", "10.0.0.9")]);
        world.service(ready("ops/api", "dns/api")).service(ready("shop/x", "dns/x"))
    };
    let waiting = apart(left(web(), &[own("left", "shop/web", "10.0.0.1")], &[]));
    assert_eq!(groups(&waiting), [vec!["ops/api"], vec!["shop/next", "shop/web"], vec!["shop/x"]]);
    let old = [own("left", "shop/web", "10.0.0.1"), own("b", "shop/next", "10.0.0.2")];
    let contested = left(web().created(2), &old, &[]);
    let contested = contested.service(service("shop/other", "dns/new").created(1));
    assert_eq!(groups(&contested), [["shop/next"]]);
}

#[test]
fn a_group_has_every_change_of_its_services_once() {
    let world = left(web(), &[own("left", "shop/web", "10.0.0.1")], &[]);
    let mut changes: Vec<Change> = world.plan().changes.into_values().flatten().collect();
    let groups = in_groups(world.plan().changes).into_iter();
    let mut grouped: Vec<Change> = groups.flat_map(BTreeMap::into_values).flatten().collect();
    for changes in [&mut changes, &mut grouped] {
        changes.sort_by(|a, b| a.order().cmp(&b.order()));
    }
    assert_eq!(grouped, changes);
}

#[test]
fn a_service_with_unclear_claims_keeps_the_names_that_it_has() {
    let next = || service("shop/next", "dns/web").ready([pod("two", "10.0.0.2")]);
    let instances = || [own("a", "shop/web", "10.0.0.1"), own("b", "shop/gone", "10.0.0.3")];
    let mistaken = || service("shop/web", "dns/web").mistaken().created(200);
    let nowhere = || service("shop/web", "nowhere/web").created(200);
    let world = |unclear| {
        let world = World::of(next()).service(unclear);
        let planned = world.dns("web", instances()).planned();
        let planned = planned.lines().filter(|line| !line.starts_with("! shop/web"));
        planned.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(world(mistaken()), world(nowhere()));
    assert_snapshot!(world(nowhere()), @r"
    shop/gone: deregister dns/web b: 10.0.0.3: Service shop/gone is gone, or no longer annotated and headless
    ! shop/next dns/web: Service shop/web of this cluster holds the name; this one takes over when that ends (DomainConflict)
    ");
    let nothing_there = World::of(next()).service(mistaken());
    assert!(nothing_there.planned().contains("shop/next: register dns/web"));
}

/// Two runs may have registered both of them.
#[test]
fn a_service_with_unclear_claims_holds_no_name_under_which_a_clear_one_has_instances() {
    let next = service("shop/next", "dns/web").created(100);
    let next = next.ready([pod("two", "10.0.0.2"), pod("three", "10.0.0.3")]);
    let there = [
        own("a", "shop/web", "10.0.0.1"),
        own("b", "shop/next", "10.0.0.2"),
        own("c", "shop/next", "10.0.0.4"),
    ];
    let planned = |created| {
        let web = service("shop/web", "dns/web").mistaken().created(created);
        World::of(next.clone()).service(web).dns("web", there.clone()).planned()
    };
    assert_eq!(planned(1), planned(200));
    assert_snapshot!(planned(1), @r#"
    shop/next: rewrite dns/web b: cloud-map-sync/pod nothing -> two
    shop/next: register dns/web: 10.0.0.3 (pod three)
    shop/next: deregister dns/web c: 10.0.0.4: no ready endpoint has this address and port
    ! shop/web: annotation cloudmap.controller/ttl is "soon": it must be whole seconds; registered instances stay (BadAnnotation)
    "#);
}

#[test]
fn old_instance_of_a_service_that_moves_to_a_cname_service_stays() {
    let world = World::of(web()).dns("old", [own("a", "shop/web", "10.0.0.1")]).cloud_map(
        "dns/new",
        CNAME,
        [],
    );
    assert_snapshot!(world.planned(), @r"
    shop/web: deregister dns/old a: 10.0.0.1: Service shop/web asks for another name now; stays until the problem under dns/new, the new name of Service shop/web, is solved
    ! shop/web dns/new: the Cloud Map service has a CNAME record, so it cannot have addresses; choose another name (CnameService)
    ");
}

/// Its read was old before the rates allowed it, and the group ends before it is planned again.
#[test]
fn registration_that_was_left_out_is_reported() {
    let world = World::of(service("shop/web", "dns/web").ready(pods("10.0.0", [1]))).dns("web", []);
    let failed = Outcome::failed("the cluster does not answer");
    let permits = Permits::default();
    let failed_targets = BTreeSet::new();
    for read in [None, Some(&failed)] {
        let observed = world.observed(&Selection::Everything);
        let changes = plan(&observed).changes;
        let mut group =
            GroupSync::new(Task::Sync, &observed, changes, Some(&permits), &failed_targets);
        let Step::Make(changes) = group.next(true) else { panic!("nothing is due") };
        for planned in changes {
            group.record(planned, Effect::Outdated);
        }
        if let Some(outcome) = read {
            assert!(matches!(group.next(true), Step::Read(_)));
            group.fail(outcome);
        }
        assert!(matches!(group.next(read.is_some()), Step::Done));
        let settled = group.into_results().settled;
        let outcomes: Vec<_> = settled.into_iter().map(|made| made.outcome).collect();
        assert_eq!(outcomes, [Ok(read.cloned().unwrap_or_else(Outcome::out_of_time))]);
    }
}

/// The first sync of 16 clusters on a tenth of a processor: a group has a turn of five seconds, and none of its calls leaves in
/// the first ones.
#[test]
fn registration_waits_for_the_rates_as_long_as_the_run_has_time() {
    let world = World::of(service("shop/web", "dns/web").ready(pods("10.0.0", [1]))).dns("web", []);
    let permits = Permits::default();
    let failed_targets = BTreeSet::new();
    let observed = world.observed(&Selection::Everything);
    let changes = plan(&observed).changes;
    let mut group = GroupSync::new(Task::Sync, &observed, changes, Some(&permits), &failed_targets);
    for _ in 0..20 {
        let Step::Make(changes) = group.next(true) else { panic!("nothing is due") };
        for planned in changes {
            group.record(planned, Effect::Outdated);
        }
        assert!(matches!(group.next(true), Step::Read(_)));
        group.observed(observed.clone());
    }
    let Step::Make(changes) = group.next(true) else { panic!("nothing is due") };
    for planned in changes {
        group.record(planned, Effect::Settled(Outcome::Applied));
    }
    assert!(matches!(group.next(true), Step::Done));
    let settled = group.into_results().settled;
    assert_eq!(settled.len(), 1);
    assert_eq!(settled[0].outcome, Ok(Outcome::Applied));
}

/// The pod came back while its instance was deregistered, and nothing else would register it in this run.
#[test]
fn registration_that_is_put_back_waits_for_the_rates_as_well() {
    let there = [own("a", "shop/web", "10.0.0.1"), own("b", "shop/web", "10.0.0.2")];
    let with = |ready: &[u8]| {
        let web = service("shop/web", "dns/web").ready(pods("10.0.0", ready.iter().copied()));
        World::of(web).dns("web", there.clone())
    };
    let observed = with(&[2]).observed(&Selection::Everything);
    let comparison = plan(&observed);
    let permits = Permits::of(&comparison);
    let failed_targets = BTreeSet::new();
    let changes = comparison.changes;
    let mut group = GroupSync::new(Task::Sync, &observed, changes, Some(&permits), &failed_targets);
    let make = |group: &mut GroupSync<'_>, effect: Effect| {
        let Step::Make(changes) = group.next(true) else { panic!("nothing is due") };
        let [planned] = <[_; 1]>::try_from(changes).expect("one change");
        let change = planned.change.to_string();
        group.record(planned, effect);
        change
    };
    let rewrite = make(&mut group, Effect::Settled(Outcome::Applied));
    assert!(rewrite.starts_with("rewrite"), "{rewrite}");
    assert!(matches!(group.next(true), Step::Read(_)));
    group.observed(observed.clone());
    let removal = make(&mut group, Effect::Settled(Outcome::Applied));
    assert!(removal.starts_with("deregister"), "{removal}");
    let again = with(&[1, 2]).observed(&Selection::Everything).desired;
    for effect in [Effect::Outdated, Effect::Outdated, Effect::Settled(Outcome::Applied)] {
        assert!(matches!(group.next(true), Step::ReadEndpoints(_)), "{effect:?}");
        group.endpoints_read(again.clone());
        let registration = make(&mut group, effect);
        assert!(registration.starts_with("register"), "{registration}");
    }
    assert!(matches!(group.next(true), Step::Done));
}

/// Another run has an operation under way on the instance. No plan of a group makes the note again.
#[test]
fn note_that_meets_another_operation_is_written_again() {
    let world = World::of(service("shop/web", "dns/web").ready(pods("10.0.0", [1])));
    let observed =
        world.dns("web", [own("a", "shop/web", "10.0.0.1")]).observed(&Selection::Everything);
    let note = Change::Note {
        place: Place::new("dns", "web", key("dns/web")),
        instance: "a".to_owned(),
        service: ServiceRef::new("shop", "web"),
        difference: Difference { attribute: "note".into(), present: None, wanted: None },
        text: Some("seen".to_owned()),
    };
    let changes = BTreeMap::from([(ServiceRef::new("shop", "web"), vec![note])]);
    let permits = Permits::default();
    let failed_targets = BTreeSet::new();
    let mut group = GroupSync::new(Task::Sync, &observed, changes, Some(&permits), &failed_targets);
    for effect in [Effect::Contested, Effect::Settled(Outcome::Applied)] {
        let mut notes = 0;
        while notes == 0 {
            match group.next(true) {
                Step::Make(changes) => {
                    for planned in changes {
                        let is_note = matches!(planned.change, Change::Note { .. });
                        notes += usize::from(is_note);
                        let effect = if is_note {
                            effect.clone()
                        } else {
                            Effect::Settled(Outcome::Applied)
                        };
                        group.record(planned, effect);
                    }
                }
                Step::Read(_) => group.observed(observed.clone()),
                step => panic!("{effect:?}: {step:?}"),
            }
        }
    }
    let settled = group.into_results().settled;
    let notes = settled.iter().filter(|made| matches!(made.change, Change::Note { .. }));
    let outcomes: Vec<_> = notes.map(|made| made.outcome.clone()).collect();
    assert_eq!(outcomes, [Ok(Outcome::Applied)]);
}
