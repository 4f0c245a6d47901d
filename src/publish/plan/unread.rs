//! Cloud Map services whose instances could not be read. Such a service may contain instances of an ended claim, so it
//! is never treated as empty, and the run is incomplete. The exception is a service that IAM does not let the function
//! read, that no Service claims and in which no instance of ours was ever seen: it belongs to another party, and is
//! reported in one line.

use std::collections::BTreeSet;

use super::observation::{Observation, Plan};
use super::reason::Reason;
use crate::model::{CloudMapService, Owner, Place, ServiceKey};

/// The services that could not be read, each with the cause.
fn unread(
    observation: &Observation,
) -> impl Iterator<Item = (&ServiceKey, &CloudMapService, &String)> {
    let services = observation.registry.services.iter();
    services.filter_map(|(key, service)| Some((key, service, service.unreadable.as_ref()?)))
}

/// Whether the function may not read a service that no Service claims and that was never seen to be ours.
fn is_of_others(observation: &Observation, key: &ServiceKey, service: &CloudMapService) -> bool {
    let is_claimed = observation.holders.claimants(key).next().is_some();
    let is_ours = service.was_ours || service.is_tagged(&observation.owner.id);
    service.is_denied && !is_claimed && !is_ours
}

/// The services whose tags must be read: they count as another party's unless their tags show that they are ours.
pub fn tags_needed(observation: &Observation) -> BTreeSet<ServiceKey> {
    let of_others =
        unread(observation).filter(|(key, service, _)| is_of_others(observation, key, service));
    of_others.map(|(key, ..)| key.clone()).collect()
}

/// The keys of the services that could not be read.
pub fn keys(observation: &Observation) -> BTreeSet<ServiceKey> {
    unread(observation).map(|(key, ..)| key.clone()).collect()
}

/// The services that have our tag, or instances with marks of this installation and flow for any cluster.
pub fn seen_as_ours(observation: &Observation) -> impl Iterator<Item = &CloudMapService> {
    let owner = &observation.owner;
    observation.registry.services.values().filter(move |service| {
        let mut instances = service.instances.iter().flat_map(|all| all.values());
        let is_marked =
            |attributes| Owner::of_installation(&owner.id, owner.flow, attributes).is_some();
        service.is_tagged(&owner.id) || instances.any(is_marked)
    })
}

/// The number of names that the affected Services hold and that this process has never read. The names of a Service
/// with unclear claims are not counted, since the plan does not compare them.
pub fn never_read_names(observation: &Observation) -> usize {
    let held = observation.holders.held_clearly_by(&observation.affected);
    held.filter(|(key, _)| observation.registry.is_never_read(key)).count()
}

/// The number of unread instances that may be ours, by the counts in the list of services: instances in services that
/// could not be read or were never read, and instances that were registered after an earlier run read their service.
/// If instances were read, `instance_total` is their number; `instance_count` is always the number in the list.
pub fn instances(observation: &Observation) -> usize {
    let unread = unread(observation);
    let ours = unread.filter(|(key, service, _)| !is_of_others(observation, key, service));
    let unread: usize = ours.map(|(_, service, _)| service.instance_total()).sum();
    let readable =
        observation.registry.services.values().filter(|service| service.unreadable.is_none());
    let new = readable.filter(|service| !service.is_current()).map(|service| {
        let known = service.instances.as_ref().map_or(0, |instances| instances.len());
        usize::try_from(service.instance_count).unwrap_or(usize::MAX).saturating_sub(known)
    });
    unread.saturating_add(new.sum())
}

impl Plan {
    /// A plan without changes, with the cause for each Cloud Map service that could not be read.
    pub(super) fn with_unreadable(observation: &Observation) -> Self {
        let mut plan = Self::default();
        for (key, _, problem) in unread(observation) {
            let place = Place::of(key, &observation.registry);
            plan.unchanged.entry(place).or_default().unreadable = Some(problem.clone());
        }
        plan
    }

    /// Adds the cause to every service that could not be read, unless a Service that claims it is held back for it.
    pub(super) fn add_unread(&mut self, observation: &Observation) {
        let unreadable =
            self.held_back.iter().filter(|line| matches!(line.reason, Reason::Unreadable(_)));
        let reported: BTreeSet<Place> = unreadable.filter_map(|line| line.place.clone()).collect();
        for (key, service, problem) in unread(observation) {
            let place = Place::of(key, &observation.registry);
            if reported.contains(&place) {
                continue;
            }
            let unchanged = self.unchanged.entry(place).or_default();
            if is_of_others(observation, key, service) {
                let about_tags = match service.tags.problem() {
                    None => "and it does not carry our tag".to_owned(),
                    Some(problem) => format!(
                        "but it may contain instances of an ended claim, since its tags cannot be read either: {problem}"
                    ),
                };
                unchanged.left_unread =
                    Some(format!("{problem}; no Service claims it, {about_tags}"));
            } else {
                unchanged.unreadable = Some(problem.clone());
            }
        }
    }
}
