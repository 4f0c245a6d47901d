//! A Cloud Map namespace that takes no more instances: only a refused registration shows it, an exchange goes on, a
//! renamed Service moves one for one, and everything else waits for the next run. How many of the instances under the
//! old name of a renamed one give way to those under its new name in one pass, and which of them stay.

use std::ops::RangeInclusive;

use insta::assert_snapshot;

use super::capacity::{instance_of, ready, task};
use super::simulation::{Course, Simulation};
use super::world::{World, key, lines_of, named, own, pod, pods, service};
use crate::model::attributes::IPV4;
use crate::model::{Attributes, CloudMapService, Selection, ServiceRef};
use crate::publish::plan::{Change, plan};

/// The plan of a run in which Cloud Map refused a registration in the namespace `http`.
fn refused(world: &World) -> String {
    let mut world = world.clone();
    world.0.registry.capacity.record_full("ns-http", "the namespace holds 3 instances");
    lines_of(&plan(&world.observed(&Selection::Everything)))
}

/// A world with namespaces that are full at their present number of instances.
fn full(world: World) -> Simulation {
    let held = world.0.registry.services.values().map(CloudMapService::instance_total).sum();
    Simulation::new(world, Course { namespace_quota: held, ..Course::undisturbed() })
}

/// The addresses of a Service's instances, by name.
fn found(simulation: &Simulation, service: &str) -> Vec<String> {
    let world = &simulation.world.0;
    let marked =
        |attributes: &Attributes| world.owner.service_of(attributes) == Some(named(service));
    let all = world.registry.services.keys().flat_map(|key| {
        let ours = world.our_instances(key).filter(|(_, attributes)| marked(attributes));
        ours.map(move |(_, it)| format!("{} {}", key.name, it.get(IPV4).expect("an address")))
    });
    let mut all: Vec<String> = all.collect();
    all.sort();
    all
}

#[test]
fn a_refused_registration_displaces_an_instance_that_goes_or_waits() {
    let world = World::of(ready("api", &[1, 5]))
        .service(ready("web", &[3]))
        .http("api", [("a", instance_of("api", 1)), ("b", instance_of("api", 2))])
        .http("web", [("c", task(1))]);
    assert_snapshot!(refused(&world), @r"
    shop/api: rewrite http/api b: 10.0.0.5 (pod one) in place of 10.0.0.2 (pod one): no ready endpoint has this address and port
    ! shop/web http/web: 0 of 1 instances fit, since Cloud Map accepts no more: the namespace holds 3 instances; it is tried again within ten minutes (LimitExceeded)
    ");
    // If a single replica moves, the name is not without an instance.
    let single = World::of(ready("web", &[2])).http("web", [("a", instance_of("web", 1))]);
    assert_snapshot!(refused(&single), @"shop/web: rewrite http/web a: 10.0.0.2 (pod one) in place of 10.0.0.1 (pod one): no ready endpoint has this address and port");
    // An instance of the former holder is displaced before the new one has any.
    let passed = World::of(ready("web", &[2])).http("web", [("a", instance_of("gone", 1))]);
    assert_snapshot!(refused(&passed), @"shop/web: rewrite http/web a: 10.0.0.2 (pod one) in place of 10.0.0.1 (pod one): Service shop/gone is gone, or no longer annotated and headless");
}

#[test]
fn a_service_that_grows_waits_and_the_next_sync_writes_nothing() {
    let world = World::of(ready("web", &[1, 2, 3]))
        .http("web", [("a", instance_of("web", 1)), ("b", task(1))]);
    let mut simulation = full(world);
    assert_eq!(simulation.sync(&Selection::Everything), 0);
    simulation.course.namespace_quota += 1;
    assert_eq!(simulation.sync(&Selection::Everything), 1);
    assert_eq!(found(&simulation, "shop/web").len(), 2);
    assert_eq!(simulation.sync(&Selection::Everything), 0);
}

#[test]
fn a_renamed_service_moves_one_for_one_and_the_last_instance_after_the_first_new_one() {
    for count in [2_u8, 3, 5, 9, 40] {
        let world = World::of(service("shop/web", "http/new").ready(pods("10.0.0", 1..=count)))
            .http("old", [])
            .http("new", [])
            .with("http/old", |old| {
                let instances =
                    (1..=count).map(|last| (format!("i-{last}"), instance_of("web", last)));
                old.instances = Some(instances.collect());
            });
        let mut simulation = full(world);
        let writes = simulation.sync(&Selection::Everything);
        assert_eq!(writes, 2 * u32::from(count), "of {count}");
        let found = found(&simulation, "shop/web");
        assert_eq!(found.len(), usize::from(count));
        assert!(found.iter().all(|it| it.starts_with("new ")), "{found:?}");
        assert_eq!(simulation.sync(&Selection::Everything), 0);
    }
}

#[test]
fn a_renamed_service_of_one_instance_waits_with_both_names() {
    let world = World::of(service("shop/web", "http/new").ready([pod("one", "10.0.0.1")]))
        .http("old", [own("a", "shop/web", "10.0.0.1")])
        .http("new", []);
    assert_snapshot!(refused(&world), @r"
    shop/web: deregister http/old a: 10.0.0.1: Service shop/web asks for another name now; stays until every endpoint is registered under the new name of Service shop/web
    ! shop/web http/new: 0 of 1 instances fit, since Cloud Map accepts no more: the namespace holds 3 instances; the instance under the former name http/old stays until one is registered under this name, which is tried again within ten minutes (LimitExceeded)
    ");
    let mut simulation = full(world);
    assert_eq!(simulation.sync(&Selection::Everything), 0);
    assert_eq!(found(&simulation, "shop/web"), ["old 10.0.0.1"]);
}

#[test]
fn the_former_holder_of_a_shared_refusal_keeps_what_waits_for_its_new_name() {
    // `shop/left` is not found under its new name, which is full, so `shop/web` may not displace its instance.
    let world =
        World::of(service("shop/left", "http/new").created(1).ready([pod("one", "10.0.0.1")]))
            .service(service("shop/web", "http/old").created(2).ready([pod("two", "10.0.0.2")]))
            .http("old", [own("a", "shop/left", "10.0.0.1")])
            .http("new", []);
    let mut simulation = full(world);
    assert_eq!(simulation.sync(&Selection::Everything), 0);
    assert_eq!(found(&simulation, "shop/left"), ["old 10.0.0.1"]);
    let left: ServiceRef = named("shop/left");
    assert!(simulation.world.0.desired.services.contains_key(&left));
    assert_eq!(simulation.world.0.registry.services[&key("http/new")].instance_total(), 0);
}

/// A renamed Service with so many instances under its old name, its pods up to this number, and the instances of these
/// under its new name.
fn renamed(old: u8, last: u8, new: &[u8]) -> World {
    let instances = |all: &mut dyn Iterator<Item = u8>| {
        Some(all.map(|last| (format!("i-{last}"), instance_of("web", last))).collect())
    };
    World::of(service("shop/web", "http/new").ready(pods("10.0.0", 1..=last)))
        .http("old", [])
        .with("http/old", |it| it.instances = instances(&mut (1..=old)))
        .http("new", [])
        .with("http/new", |it| it.instances = instances(&mut new.iter().copied()))
}

/// How many instances under old names go at once in a run in which Cloud Map refused so many registrations, and if the
/// line about the new name says that the old one stays.
fn gives_up(world: &World, refusals: u8) -> (usize, bool) {
    let mut world = world.clone();
    (0..refusals).for_each(|_| world.0.registry.capacity.record_full("ns-http", "full"));
    let plan = plan(&world.observed(&Selection::Everything));
    let goes = |it: &&Change| matches!(it, Change::Deregister { waits_for: None, place, .. } if place.key != key("http/new"));
    let gone = plan.changes.values().flatten().filter(goes).count();
    let old = plan.held_back.iter().any(|it| it.reason.to_string().contains("former name"));
    (gone, old)
}

#[test]
fn a_quarter_of_the_old_instances_goes_at_once_and_the_last_one_only_for_a_new_one() {
    let cases = [
        (renamed(1, 1, &[]), 1, (0, true)),
        (renamed(2, 2, &[]), 1, (1, false)),
        (renamed(4, 4, &[]), 1, (1, false)),
        (renamed(5, 5, &[]), 1, (2, false)),
        (renamed(9, 9, &[]), 1, (3, false)),
        // The namespace refused a place that was freed.
        (renamed(9, 9, &[]), 2, (0, true)),
        (renamed(9, 9, &[1]), 2, (0, false)),
        // One is registered under the new name.
        (renamed(1, 2, &[1]), 1, (1, false)),
        (renamed(9, 9, &[1, 2, 3]), 1, (3, false)),
        // No more than are refused.
        (renamed(9, 9, &[1, 2, 3, 4, 5, 6, 7, 8]), 1, (1, false)),
        // The new name keeps the instance of one pod, and loses another one.
        (renamed(1, 2, &[1, 8, 9]), 1, (0, false)),
        (renamed(1, 3, &[1, 9]), 1, (1, false)),
        // The place under the new name stays, for another pod.
        (renamed(1, 2, &[9]), 1, (1, false)),
    ];
    for (index, (world, refusals, expected)) in cases.into_iter().enumerate() {
        assert_eq!(gives_up(&world, refusals), expected, "{index}");
    }
}

#[test]
fn each_old_name_that_another_service_holds_keeps_one_instance_for_it() {
    let next = |name: &str| service(&format!("shop/next-{name}"), &format!("http/{name}"));
    let instances = |range: RangeInclusive<u8>| {
        Some(range.map(|last| (format!("i-{last}"), instance_of("web", last))).collect())
    };
    let web = pods("10.0.0", 1..=9);
    let world = ["a", "b"].into_iter().fold(
        World::of(service("shop/web", "http/new").ready(web)),
        |world, name| {
            let ready = [pod("two", "10.0.1.1")];
            world.service(next(name).ready(ready)).http(name, [])
        },
    );
    let world = world
        .http("new", [])
        .with("http/new", |it| it.instances = instances(1..=1))
        .with("http/a", |it| it.instances = instances(2..=3))
        .with("http/b", |it| it.instances = instances(4..=9));
    assert_snapshot!(refused(&world), @r"
    shop/next-a: deregister http/a i-2: 10.0.0.2 (pod one): Service shop/web asks for another name now
    shop/next-a: deregister http/a i-3: 10.0.0.3 (pod one): Service shop/web asks for another name now; stays until Service shop/next-a has an instance under this name and every endpoint is registered under the new name of Service shop/web
    shop/next-b: deregister http/b i-4: 10.0.0.4 (pod one): Service shop/web asks for another name now
    shop/next-b: deregister http/b i-5: 10.0.0.5 (pod one): Service shop/web asks for another name now; stays until Service shop/next-b has an instance under this name and every endpoint is registered under the new name of Service shop/web
    shop/next-b: deregister http/b i-6: 10.0.0.6 (pod one): Service shop/web asks for another name now; stays until Service shop/next-b has an instance under this name and every endpoint is registered under the new name of Service shop/web
    shop/next-b: deregister http/b i-7: 10.0.0.7 (pod one): Service shop/web asks for another name now; stays until Service shop/next-b has an instance under this name and every endpoint is registered under the new name of Service shop/web
    shop/next-b: deregister http/b i-8: 10.0.0.8 (pod one): Service shop/web asks for another name now; stays until Service shop/next-b has an instance under this name and every endpoint is registered under the new name of Service shop/web
    shop/next-b: deregister http/b i-9: 10.0.0.9 (pod one): Service shop/web asks for another name now; stays until Service shop/next-b has an instance under this name and every endpoint is registered under the new name of Service shop/web
    ! shop/next-a http/a: 0 of 1 instances fit, since Cloud Map accepts no more: the namespace holds 3 instances; it is tried again within ten minutes (LimitExceeded)
    ! shop/next-b http/b: 0 of 1 instances fit, since Cloud Map accepts no more: the namespace holds 3 instances; it is tried again within ten minutes (LimitExceeded)
    ! shop/web http/new: 1 of 9 instances fit, since Cloud Map accepts no more: the namespace holds 3 instances; it is tried again within ten minutes (LimitExceeded)
    ");
}
