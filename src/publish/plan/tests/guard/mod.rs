//! The guard against mass deletion: the losses that it holds and reports (`held`), those that it lets pass (`passing`)
//! and those that it remembers (`memory`), also when it judges a second time (`again`), in clusters written in one line,
//! and in random ones (`convergence`).

mod again;
mod convergence;
mod held;
mod memory;
mod passing;
mod unread;

use std::collections::BTreeSet;

use super::world::{HTTP, NOW, World, lines_of, ours, pods, service, with};
use crate::guard::{Loss, SightingNote};
use crate::model::attributes::SIGHTING;
use crate::model::{GuardState, ServiceRef, SignedDuration, Timestamp};
use crate::publish::plan::{Change, Extent, Guard, Plan, Rules};

/// A Service of `shop`: its name, its number of instances, and the number of ready ones; `None` if the Service is gone.
pub type Shop<'a> = (&'a str, usize, Option<usize>);

/// A cluster of these Services under a guard of 50 % and 3 instances.
pub fn shops(shops: &[Shop<'_>]) -> World {
    let guard = Guard { share: 50, minimum: 3, ..Guard::default() };
    let world = World::new().under(Rules { guard, ..Rules::default() });
    shops.iter().fold(world, |world, (name, registered, count)| {
        let address = |index: usize| format!("10.0.0.{index}");
        let of = format!("shop/{name}");
        let place = format!("http/{name}");
        let instance = |index| {
            let marked = with(ours(&of, &address(index)), "cloud-map-sync/pod", "one");
            (format!("{name}-{index}"), marked)
        };
        let instances = (0..*registered).map(instance).collect();
        let world =
            world.cloud_map(&place, HTTP, []).with(&place, |it| it.instances = Some(instances));
        match count {
            Some(count) => ready(world, name, *count),
            None => world,
        }
    })
}

/// The world in which so many pods of a Service of `shops` are ready.
pub fn ready(world: World, name: &str, count: usize) -> World {
    let service = service(&format!("shop/{name}"), &format!("http/{name}"));
    world.service(service.ready(pods("10.0.0", 0..count)))
}

pub fn at(mut world: World, now: Timestamp) -> World {
    world.0.now = now;
    world
}

pub fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

pub fn confirmed(mut world: World) -> World {
    world.0.extent = Extent::Confirmed;
    world
}

/// The world after the changes of a plan.
pub fn after(mut world: World, plan: &Plan) -> World {
    let mut changes: Vec<&Change> = plan.changes.values().flatten().collect();
    changes.sort_by_key(|change| change.stage());
    for change in changes {
        match change {
            Change::Register { place, instance, attributes, .. }
            | Change::Rewrite { place, instance, attributes, .. } => {
                let service = world.0.registry.services.get_mut(&place.key).expect("it is there");
                let instances = service.instances.as_mut().expect("they were read");
                instances.insert(instance.clone(), attributes.clone());
            }
            Change::Note { place, instance, text, .. } => {
                let service = world.0.registry.services.get_mut(&place.key).expect("it is there");
                let instances = service.instances.as_mut().expect("they were read");
                let attributes = instances.get_mut(instance).expect("it is there");
                match text {
                    Some(text) => attributes.insert(SIGHTING, text),
                    None => attributes.remove(SIGHTING),
                }
            }
            Change::Deregister { place, instance, .. } => {
                let service = world.0.registry.services.get_mut(&place.key).expect("it is there");
                service.instances.as_mut().expect("they were read").remove(instance);
            }
            _ => panic!("{change}"),
        }
    }
    world
}

/// The world after a first full sync, which must hold its loss.
pub fn seen(world: World) -> World {
    let plan = world.plan();
    assert_eq!(guard_state(&plan), Some(GuardState::Held), "{}", lines_of(&plan));
    after(world, &plan)
}

pub fn guard_state(plan: &Plan) -> Option<GuardState> {
    plan.guard.as_ref().map(|status| status.verdict.state)
}

/// The names of the Services with a held loss.
pub fn held(plan: &Plan) -> Vec<&str> {
    let held = plan.held_back.iter().filter(|it| it.reason.code() == "Guard");
    let names: BTreeSet<&str> = held.map(|it| it.service.name.as_str()).collect();
    names.into_iter().collect()
}

/// The number of instances of a Service that are deregistered.
pub fn lost(plan: &Plan, name: &str) -> usize {
    let of = ServiceRef::new("shop", name);
    plan.changes
        .values()
        .flatten()
        .filter(|change| change.deregisters_instance_of() == Some(&of))
        .count()
}

/// The text of a note that says that a Service of `shop` was to lose all.
pub fn note_of(name: &str) -> String {
    let loss = Loss { lost: 1, left: 0, was_read: true, has_room: true };
    SightingNote::of(&[(ServiceRef::new("shop", name), loss)].into(), NOW).to_string()
}

/// The notes, each with its instance.
pub fn notes(world: &World) -> Vec<(String, String)> {
    let services = world.0.registry.services.keys();
    let all = services.flat_map(|key| world.0.registry.instances(key));
    let noted =
        all.filter_map(|(id, attributes)| Some((id.clone(), attributes.get(SIGHTING)?.to_owned())));
    noted.collect()
}

/// The instances with a note.
pub fn noted(world: &World) -> Vec<String> {
    notes(world).into_iter().map(|(id, _)| id).collect()
}
