//! What the guard holds: a full sync that would lose more than half of a cluster's instances, and more than the
//! minimum, of several Services or of one that is gone, takes none of them out, and notes the loss on something of
//! ours if there is room.

use std::collections::{BTreeMap, BTreeSet};

use super::super::world::{CLUSTERS, NAMES, World};
use super::{Held, Key, Registry, instances, marks, served};
use crate::fleet::Attributes;

pub const SIGHTING: &str = "cloud-map-sync/guard";
/// The most attributes of an instance, beside those of AWS.
const MOST_ATTRIBUTES: usize = 30;

/// The clusters whose loss is noted nowhere since there is no room: only a person's `confirm` lets it pass.
pub fn unnoted(world: &World, registry: &Registry) -> Vec<usize> {
    let is_unnoted = |it: &usize| {
        !standing(world, registry, *it).is_empty()
            && !is_noted(world, registry, *it)
            && !has_room(world, registry, *it)
    };
    served(world).filter(is_unnoted).collect()
}

/// Whether an instance of the cluster takes one more attribute, or a service with our tag that has such an instance.
fn has_room(world: &World, registry: &Registry, cluster: usize) -> bool {
    let used = registry.iter().filter(|(key, _)| world.is_used(&key.0)).map(|(_, held)| held);
    let has_room = |held: &Held, attributes: &Attributes| {
        let own = attributes.keys().filter(|key| !key.starts_with("AWS_")).count();
        let is_of_cluster = marks(world, attributes).is_some_and(|(of, _)| of == cluster);
        is_of_cluster && (held.is_tagged || own < MOST_ATTRIBUTES)
    };
    { used }.any(|held| held.instances.values().any(|it| has_room(held, it)))
}

/// `first` is what the first full sync left, `rest` what stays once the loss was seen long enough.
pub fn held(
    world: &World,
    start: &Registry,
    first: &Registry,
    rest: &Registry,
) -> Result<(), String> {
    for cluster in served(world) {
        let [before, after, left] = [start, first, rest].map(|it| standing(world, it, cluster));
        // One that was seen before may pass at once.
        if is_noted(world, start, cluster) {
            continue;
        }
        let losses: BTreeMap<&str, usize> = before
            .keys()
            .map(|service| (*service, lost(service, &before, &left)))
            .filter(|(_, lost)| *lost > 0)
            .collect();
        let total: usize = before.values().map(BTreeSet::len).sum();
        let sum: usize = losses.values().sum();
        let is_there =
            |it: &str| world.services.keys().any(|at| (at.0, NAMES[at.1]) == (cluster, it));
        let is_excused = losses.len() == 1 && losses.keys().all(|it| is_there(it));
        let is_past = sum > world.settings.guard_minimum as usize && 2 * sum > total && !is_excused;
        if !is_past {
            continue;
        }
        let name = CLUSTERS[cluster];
        if let Some(service) = losses.keys().find(|it| lost(it, &before, &after) > 0) {
            return Err(format!(
                "the guard does not hold {service} of {name}: {losses:?} of {total}"
            ));
        }
        if !is_noted(world, first, cluster) && has_room(world, first, cluster) {
            return Err(format!("the guard holds {losses:?} of {name}, and notes it nowhere"));
        }
    }
    Ok(())
}

/// How many instances a Service loses. What another Service of the cluster takes over in place is not lost.
fn lost<'a>(service: &str, from: &Standing<'a>, to: &Standing<'a>) -> usize {
    let of = |all: &Standing<'a>| all.get(service).cloned().unwrap_or_default();
    let stays = |it: &(&'a Key, &'a String)| to.values().any(|all| all.contains(it));
    let (kept, gone): (BTreeSet<_>, BTreeSet<_>) = of(from).into_iter().partition(stays);
    gone.len().saturating_sub(of(to).difference(&kept).count())
}

/// Instances by their Service.
type Standing<'a> = BTreeMap<&'a str, BTreeSet<(&'a Key, &'a String)>>;

/// The instances of a cluster in the namespaces that the function uses.
fn standing<'a>(world: &World, registry: &'a Registry, cluster: usize) -> Standing<'a> {
    let mut standing = Standing::new();
    for (key, _, id, attributes) in instances(registry).filter(|it| world.is_used(&it.0.0)) {
        if let Some((_, service)) = marks(world, attributes).filter(|(of, _)| *of == cluster) {
            standing.entry(service).or_default().insert((key, id));
        }
    }
    standing
}

/// Whether a loss was noted.
pub fn is_noted_anywhere(world: &World, registry: &Registry) -> bool {
    served(world).any(|it| is_noted(world, registry, it))
}

fn is_noted(world: &World, registry: &Registry, cluster: usize) -> bool {
    let on_instance = |held: &Held| {
        let is_of_cluster = |it| marks(world, it).is_some_and(|(of, _)| of == cluster);
        held.instances.values().any(|it| it.contains_key(SIGHTING) && is_of_cluster(it))
    };
    registry.values().any(|held| held.has_sighting || on_instance(held))
}
