//! Properties of every plan, on random clusters and registries: applying it leads to a world in which
//! there is nothing left to do, and nothing is touched or lost on the way.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::allowed::assert_allowed;
use super::arbitrary;
use super::promises::{findable, our_addresses, publishable};
use super::seeds::config;
use super::simulation::{Course, Simulation};
use super::world::{A, AAAA, BOTH, World, lines_of};
use crate::model::attributes::{MARK_PREFIX, SIGHTING};
use crate::model::{Attributes, Selection, ServiceKey, ServiceKind, ServiceRef, ServiceTags, Tags};
use crate::publish::plan::identity::Identity;
use crate::publish::plan::{
    Adoption, Change, DeregisterReason, Holders, Plan, Policy, Reason, Rules, ServiceLimit, Stage,
    WaitsFor,
};

/// After this number of undisturbed syncs there is nothing left to do: the result of one sync may be the condition for
/// a change of another Service.
pub const ROUNDS: usize = 4;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn planning_after_applying_is_empty(world in arbitrary::world(), course in arbitrary::course()) {
        let mut simulation = Simulation::new(world, course);
        let foreign = simulation.foreign();
        let holders = held(&simulation.world);
        settle(&mut simulation, &[Selection::Everything]);
        prop_assert_eq!(simulation.foreign(), foreign);
        assert_kept(&simulation.world, &holders);
        let (plan, _) = simulation.plan(&Selection::Everything);
        assert_settled(&simulation, &plan);
        prop_assert_eq!(simulation.sync(&Selection::Everything), 0);
        if simulation.course.rules.policy == Policy::Sync {
            assert_right(&simulation, &plan);
            assert_allowed(&simulation.world, &plan);
        }
    }

    #[test]
    fn syncs_of_one_service_at_a_time_lead_to_the_same_registry(
        world in arbitrary::world(),
        course in arbitrary::course(),
    ) {
        // If there is not capacity for all, the first instances stay.
        let service_limit = ServiceLimit::default();
        let rules = Rules { guard: arbitrary::OFF, service_limit, ..course.rules.clone() };
        let course = Course { failing: 0, rules, namespace_quota: 2000, ..course };
        let selections: Vec<Selection> = services(&world).into_iter().map(Selection::service).collect();
        let mut whole = Simulation::new(world.clone(), course.clone());
        settle(&mut whole, &[Selection::Everything]);
        let mut single = Simulation::new(world.clone(), course);
        settle(&mut single, &selections);
        let world = world.under(whole.course.rules.clone());
        if !passes_on(&world) && !admits_ours_for_now(&world) {
            prop_assert_eq!(found(&whole.world), found(&single.world));
        }
    }

    #[test]
    fn what_is_adopted_is_of_no_owner_and_right_at_once(
        world in arbitrary::world(),
        course in arbitrary::course(),
    ) {
        // There is no guard, since its mark is a change too.
        let rules = Rules { guard: arbitrary::OFF, ..course.rules };
        let course = Course { rules, failing: 0, ..course };
        let mut simulation = Simulation::new(world, course);
        let mut foreign = simulation.foreign();
        let adopted = simulation.adopt(&Adoption::default());
        for change in &adopted {
            let Change::Rewrite { place, instance, adopted: Some(adopted), .. } = change else {
                continue;
            };
            let others = |key: &str| key.starts_with(MARK_PREFIX) || key.starts_with("ECS_");
            prop_assert!(!adopted.present.keys().any(others), "{change}");
            foreign.retain(|(key, id, _)| (key, id) != (&place.key, instance));
        }
        prop_assert_eq!(simulation.foreign(), foreign.clone());
        prop_assert_eq!(simulation.adopt(&Adoption::default()), vec![]);
        let (plan, _) = simulation.plan(&Selection::Everything);
        for change in plan.changes.values().flatten() {
            let is_adopted = adopted.iter().any(|it| {
                (it.place(), it.instance()) == (change.place(), change.instance())
            });
            let because = match change {
                Change::Deregister { because, .. } => Some(because),
                other => other.exchange().map(|exchange| &exchange.because),
            };
            let duplicate = because == Some(&DeregisterReason::Duplicate);
            prop_assert!(duplicate || !is_adopted, "{change}: {}", change.detail());
        }
        settle(&mut simulation, &[Selection::Everything]);
        prop_assert_eq!(simulation.foreign(), foreign);
    }

    /// The next sync gives the places of a name left behind to others.
    #[test]
    fn one_undisturbed_sync_registers_all_that_there_is_room_for(
        world in arbitrary::world(),
        course in arbitrary::course(),
    ) {
        let rules = Rules { guard: arbitrary::OFF, ..course.rules };
        let mut simulation = Simulation::new(world, Course { failing: 0, rules, ..course });
        let passes_on = passes_on(&simulation.world);
        let (plan, _) = simulation.plan(&Selection::Everything);
        let mut waits = plan.changes.values().flatten().filter_map(Change::waits_for);
        let moves = |wait: &WaitsFor| {
            matches!(wait, WaitsFor::NewName(_) | WaitsFor::HolderAndNewName { .. })
        };
        if passes_on || waits.any(moves) {
            return Ok(());
        }
        // A registration without a place in a namespace is tried again by the next sync.
        while simulation.sync(&Selection::Everything) > 0 && !simulation.refusals.is_empty() {}
        let (plan, _) = simulation.plan(&Selection::Everything);
        let registers = |change: &Change| matches!(change, Change::Register { .. });
        let fits = |it: &Change| registers(it) && !simulation.is_full(&it.place().key);
        prop_assert!(!plan.changes.values().flatten().any(fits), "{}", lines_of(&plan));
    }

    #[test]
    fn what_a_plan_registers_under_one_name_is_registered_once(world in arbitrary::world()) {
        let plan = world.plan();
        let changes = plan.changes.values().flatten();
        // The guard's note is on any instance of ours.
        let changes = changes.filter(|change| !is_note(change));
        let written = changes.filter_map(|change| match change {
            Change::Register { place, instance, attributes, .. }
            | Change::Rewrite { place, instance, attributes, .. } => {
                let kind = world.0.registry.services.get(&place.key).map(|service| service.kind);
                Some((place.key.clone(), instance.clone(), stated(attributes, kind)))
            }
            _ => None,
        });
        let written: Vec<_> = written.collect();
        let ids: BTreeSet<_> = written.iter().map(|(key, id, _)| (key, id)).collect();
        let identities: BTreeSet<_> = written.iter().map(|(key, _, it)| (key, it)).collect();
        prop_assert_eq!((ids.len(), identities.len()), (written.len(), written.len()));
    }

    #[test]
    fn the_same_world_gives_the_same_plan_whatever_the_order_of_endpoints(
        world in arbitrary::world(),
    ) {
        let mut turned = world.clone();
        for service in turned.0.desired.services.values_mut() {
            if let Some(endpoints) = &mut service.endpoints {
                Arc::make_mut(endpoints).reverse();
            }
        }
        prop_assert_eq!(lines_of(&turned.plan()), lines_of(&world.plan()));
    }
}

/// Whether a change writes a note of ours to an instance that stays as it is.
fn is_note(change: &Change) -> bool {
    let Change::Rewrite { differences, exchange: None, .. } = change else { return false };
    differences.iter().all(|it| it.attribute == SIGHTING)
}

fn stated(attributes: &Attributes, kind: Option<ServiceKind>) -> Identity {
    Identity::of(attributes, !matches!(kind, Some(A | AAAA | BOTH)))
}

/// Disturbed syncs first, then undisturbed ones. If there is a guard, a loss that it holds at one of them passes at the
/// next.
pub fn settle(simulation: &mut Simulation, selections: &[Selection]) {
    let guarded = simulation.course.rules.guard != arbitrary::OFF;
    let rounds = if guarded { 3 * ROUNDS } else { ROUNDS };
    for round in 0..=rounds {
        if guarded && round < rounds {
            simulation.wait();
        }
        for selection in selections {
            simulation.sync(selection);
        }
        if round == 0 {
            simulation.course.failing = 0;
        }
    }
}

/// Each open change waits for something that does not come, and the plan reports the obstacle.
pub fn assert_settled(simulation: &Simulation, plan: &Plan) {
    // Only a refused call shows that a namespace is full.
    let comes = |change: &&Change| matches!(change.stage(), Stage::Create | Stage::Register);
    let is_refused = |it: &&Change| {
        // Without an instance there, the cluster may not change the TTL either.
        let has_say = |key| simulation.world.0.has_ours(key);
        let key = &it.place().key;
        let is_left = it.stage() == Stage::Update && !has_say(key);
        (comes(it) || is_left) && simulation.is_full(key)
    };
    let holders = Holders::decide(&simulation.world.0);
    for change in plan.changes.values().flatten().filter(|it| !is_refused(it)) {
        let planned = lines_of(plan);
        let Change::Deregister { waits_for: Some(wait), .. } = change else {
            panic!("{change} is left to do:\n{planned}");
        };
        let hinders =
            |service: &ServiceRef| plan.held_back.iter().any(|line| line.service == *service);
        match &**wait {
            WaitsFor::NewName(renamed)
            | WaitsFor::HolderAndNewName { renamed, .. }
            | WaitsFor::ContestedName { renamed, .. }
            | WaitsFor::BlockedRename { renamed, .. } => {
                let all = plan.changes.values().flatten().filter(is_refused);
                let is_full = all.map(|it| &it.place().key).any(|key| holders.holds(key, renamed));
                assert!(is_full || hinders(renamed), "{change}:\n{planned}");
            }
            WaitsFor::FirstRegistration => {
                let hindered = change.deregisters_instance_of().is_some_and(hinders);
                assert!(hindered, "{change}:\n{planned}");
            }
            WaitsFor::Holder(_) | WaitsFor::NamespaceById(_) => {}
        }
    }
}

/// The final instances under a name are the ready endpoints of its holder, except those held back there.
pub fn assert_right(simulation: &Simulation, plan: &Plan) {
    let world = &simulation.world;
    let holders = Holders::decide(&world.0);
    for (key, holder) in holders.with_holders().filter(|(_, holder)| !holders.is_unclear(holder)) {
        let hindered = plan.held_back.iter().any(|held_back| {
            let here = held_back.place.as_ref().is_some_and(|place| place.key == *key);
            let remark = matches!(
                held_back.reason,
                Reason::NotPublishable(_) | Reason::AddressNotAllowed { .. }
            );
            here && !remark
        });
        if hindered || plan.changes.values().flatten().any(|change| change.place().key == *key) {
            continue;
        }
        let ready = publishable(&world.0, holder);
        let there: BTreeSet<_> = our_addresses(&world.0, key).collect();
        for addresses in &ready {
            let found = addresses.iter().any(|address| there.contains(address));
            assert!(found, "{addresses:?} is ready and is not found under {key:?}");
        }
        for address in &there {
            let wanted = ready.iter().flatten().any(|ready| ready == address);
            assert!(wanted || is_anothers(world, key), "{address} is left under {key:?}");
        }
    }
}

/// Whether a name passes to another Service, since its holder has nothing ready. The instances that the next holder
/// takes over then depend on the order of the removals.
pub fn passes_on(world: &World) -> bool {
    let holders = Holders::decide(&world.0);
    holders.with_holders().any(|(key, holder)| {
        findable(&world.0, holder).is_empty() && holders.claimants(key).count() > 1
    })
}

/// Whether something of ours is in a service of ECS Service Connect, or in one whose tags cannot be read. Others of ours
/// may come there until it goes, so the order of events decides whether a new name is usable.
pub fn admits_ours_for_now(world: &World) -> bool {
    let mut services = world.0.registry.services.iter();
    services.any(|(key, service)| {
        let admits_only_ours = matches!(
            service.tags,
            Tags::Unreadable(_) | Tags::Read(ServiceTags { managed_by_ecs: true, .. })
        );
        admits_only_ours && world.0.marked_services(key).next().is_some()
    })
}

/// The instances of ours that can be found, with their Services. Their ids depend on the order of events: if a name
/// passes to another Service, an instance that is still there is taken over.
pub fn found(world: &World) -> BTreeSet<(ServiceKey, Identity, ServiceRef)> {
    let keys = world.0.registry.services.keys();
    let all = keys.flat_map(|key| world.0.registry.instances(key).map(move |(_, it)| (key, it)));
    let ours = all.filter_map(|(key, it)| {
        Some((key.clone(), Identity::of(it, true), world.0.owner.service_of(it)?))
    });
    ours.collect()
}

/// Whether an unclear party left instances under the name: they stay.
fn is_anothers(world: &World, key: &ServiceKey) -> bool {
    let holders = Holders::decide(&world.0);
    world.0.marked_services(key).any(|service| !holders.holds(key, &service))
}

/// Every Service that exists or left marks.
fn services(world: &World) -> BTreeSet<ServiceRef> {
    let marked = world.0.all_marked_services().map(|(_, service)| service);
    marked.chain(world.0.desired.services.keys().cloned()).collect()
}

/// A Service that holds a name keeps it, unless it has no instance there: then there is no sign that it held the name.
fn assert_kept(world: &World, before: &[(ServiceKey, ServiceRef)]) {
    let holders = Holders::decide(&world.0);
    for (key, former) in before.iter().filter(|(key, former)| !holders.holds(key, former)) {
        let ready = findable(&world.0, former);
        assert!(ready.is_empty(), "{former} lost {key:?} and has {ready:?} ready");
    }
}

fn held(world: &World) -> Vec<(ServiceKey, ServiceRef)> {
    let holders = Holders::decide(&world.0);
    holders.with_holders().map(|(key, holder)| (key.clone(), holder.clone())).collect()
}
