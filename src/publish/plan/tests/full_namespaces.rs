//! A Cloud Map namespace that takes no more instances: only a refused registration shows it, an exchange goes on, a
//! renamed Service moves one for one, and everything else waits for the next run.

use insta::assert_snapshot;

use super::capacity::{ready, stands, task};
use super::simulation::{Course, Simulation};
use super::world::{World, key, named, own, pod, pods, service, tell};
use crate::model::attributes::IPV4;
use crate::model::{Attributes, CloudMapService, Selection, ServiceRef};
use crate::publish::plan::plan;

/// The plan of a run in which Cloud Map refused a registration in the namespace `http`.
pub fn refused(world: &World) -> String {
    let mut world = world.clone();
    world.0.registry.capacity.refuse("ns-http", "the namespace holds 3 instances");
    tell(&plan(&world.observed(&Selection::Everything)))
}

/// A world with namespaces that are full at their present number of instances.
fn full(world: World) -> Simulation {
    let held = world.0.registry.services.values().map(CloudMapService::held).sum();
    Simulation::new(world, Course { namespace_quota: held, ..Course::undisturbed() })
}

/// The addresses of a Service's instances, by name.
fn found(simulation: &Simulation, service: &str) -> Vec<String> {
    let world = &simulation.world.0;
    let marked =
        |attributes: &Attributes| world.owner.service_of(attributes) == Some(named(service));
    let all = world.registry.services.keys().flat_map(|key| {
        let ours = world.ours(key).filter(|(_, attributes)| marked(attributes));
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
        .http("api", [("a", stands("api", 1)), ("b", stands("api", 2))])
        .http("web", [("c", task(1))]);
    assert_snapshot!(refused(&world), @r"
    shop/api: rewrite http/api b: 10.0.0.5 (pod one) in place of 10.0.0.2 (pod one): no ready endpoint has this address and port
    ! shop/web http/web: 0 of 1 instances fit, since Cloud Map accepts no more: the namespace holds 3 instances; the next run tries again (LimitExceeded)
    ");
    // If a single replica moves, the name is not without an instance.
    let single = World::of(ready("web", &[2])).http("web", [("a", stands("web", 1))]);
    assert_snapshot!(refused(&single), @"shop/web: rewrite http/web a: 10.0.0.2 (pod one) in place of 10.0.0.1 (pod one): no ready endpoint has this address and port");
    // An instance of the former holder is displaced before the new one has any.
    let passed = World::of(ready("web", &[2])).http("web", [("a", stands("gone", 1))]);
    assert_snapshot!(refused(&passed), @"shop/web: rewrite http/web a: 10.0.0.2 (pod one) in place of 10.0.0.1 (pod one): Service shop/gone is gone, or no longer annotated and headless");
}

#[test]
fn a_service_that_grows_waits_and_the_next_sync_writes_nothing() {
    let world =
        World::of(ready("web", &[1, 2, 3])).http("web", [("a", stands("web", 1)), ("b", task(1))]);
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
                let instances = (1..=count).map(|last| (format!("i-{last}"), stands("web", last)));
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
    ! shop/web http/new: 0 of 1 instances fit, since Cloud Map accepts no more: the namespace holds 3 instances; the instance under the former name http/old stays until one is registered under this name, which every run tries again (LimitExceeded)
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
    assert_eq!(simulation.world.0.registry.services[&key("http/new")].held(), 0);
}
