//! What the guard holds: a full sync that would lose more than half of a cluster's instances, and more than the
//! minimum, of several Services or of one that is gone, takes none of them out, and notes the loss of each Service on one of
//! that Service's instances, if there is room.

use std::collections::{BTreeMap, BTreeSet};

use super::super::world::{CLUSTERS, NAMES, World};
use super::{Key, Registry, instances, marks, served};
use testbed::cloud_map::RecordType;

pub const SIGHTING: &str = "cloud-map-sync/guard";
/// The most attributes of an instance, beside those of AWS.
const MOST_ATTRIBUTES: usize = 30;

/// The clusters with a Service whose loss could not be noted, since none of its instances has room: only a person's
/// `confirm` lets it pass.
pub fn unnoted(world: &World, registry: &Registry) -> Vec<usize> {
    let has_unnoted = |cluster: &usize| {
        let standing = standing(world, registry, *cluster);
        standing
            .values()
            .any(|instances| !is_noted(registry, instances) && !has_room(registry, instances))
    };
    served(world).filter(has_unnoted).collect()
}

/// Whether one of the instances of a Service takes one more attribute. Its service may have been made again with records
/// that it does not fit.
fn has_room(registry: &Registry, instances: &Instances<'_>) -> bool {
    instances.iter().any(|(key, id)| {
        let held = &registry[*key];
        let attributes = &held.instances[*id];
        let own = attributes.keys().filter(|key| !key.starts_with("AWS_")).count();
        let needs_ipv4 = held.records.as_deref() == Some(&[RecordType::A]);
        own < MOST_ATTRIBUTES && (!needs_ipv4 || attributes.contains_key("AWS_INSTANCE_IPV4"))
    })
}

/// Whether one of the instances of a Service has a note.
fn is_noted(registry: &Registry, instances: &Instances<'_>) -> bool {
    instances.iter().any(|(key, id)| {
        let held = registry.get(*key).and_then(|held| held.instances.get(*id));
        held.is_some_and(|attributes| attributes.contains_key(SIGHTING))
    })
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
        if before.values().any(|instances| is_noted(start, instances)) {
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
        let is_without_note = |service: &&&str| {
            let instances = &after[**service];
            !is_noted(first, instances) && has_room(first, instances)
        };
        if let Some(service) = losses.keys().find(is_without_note) {
            return Err(format!(
                "the guard holds {losses:?} of {name}, and does not note {service}"
            ));
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

/// Each instance with its Cloud Map service.
type Instances<'a> = BTreeSet<(&'a Key, &'a String)>;

/// Instances by their Service.
type Standing<'a> = BTreeMap<&'a str, Instances<'a>>;

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
    served(world).any(|cluster| {
        standing(world, registry, cluster).values().any(|instances| is_noted(registry, instances))
    })
}
