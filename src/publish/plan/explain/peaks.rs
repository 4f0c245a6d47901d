//! The largest number of instances while a plan is carried out, compared with Cloud Map's quotas: new instances are
//! registered before old ones are removed, so both count.

use std::collections::BTreeMap;

use crate::publish::plan::{Change, Observation, Place, Plan};

/// A service or namespace with a number of instances near its quota or above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The namespace, or the service in it.
    pub of: String,
    /// The largest number of instances during the run.
    pub count: usize,
    pub quota: Quota,
}

/// A quota of Cloud Map for instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Per service: fixed.
    Service(usize),
    /// Per namespace, unless AWS has raised it: no API reports that.
    Namespace(usize),
}

/// AWS's default of the quota "instances per namespace".
pub const DEFAULT_NAMESPACE_QUOTA: usize = 2000;

/// The largest service and the largest namespace, counting the instances of all owners.
pub fn peaks(observation: &Observation, plan: &Plan) -> Vec<Peak> {
    let registry = &observation.registry;
    let mut services: BTreeMap<Place, usize> = BTreeMap::new();
    for (key, service) in &registry.services {
        let listed = usize::try_from(service.instance_count).unwrap_or(usize::MAX);
        let known = service.instances.as_ref().map_or(listed, |it| it.len());
        *services.entry(Place::of(key, registry)).or_default() += known;
    }
    for change in plan.changes.values().flatten() {
        if let Change::Register { place, .. } = change {
            *services.entry(place.clone()).or_default() += 1;
        }
    }
    let mut namespaces: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, count) in &services {
        *namespaces.entry(&place.namespace).or_default() += count;
    }
    let service = services.iter().max_by_key(|(_, count)| **count);
    let service = service.map(|(place, count)| {
        (place.to_string(), *count, Quota::Service(observation.rules.service_limit.0))
    });
    let namespace = namespaces.into_iter().max_by_key(|(_, count)| *count);
    let namespace = namespace
        .map(|(name, count)| (name.to_owned(), count, Quota::Namespace(DEFAULT_NAMESPACE_QUOTA)));
    let peaks = service.into_iter().chain(namespace);
    peaks.map(|(of, count, quota)| Peak { of, count, quota }).collect()
}
