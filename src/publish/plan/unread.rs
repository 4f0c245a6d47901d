//! Cloud Map services with instances that could not be read. None is treated as empty: it may contain instances of an
//! ended claim, so the run is incomplete. The exception is a service that the function may not read, that no Service
//! claims and in which no instance of ours was ever seen: it belongs to another party, and is reported in one line.

use std::collections::BTreeSet;

use super::{Holders, Note, Observation, Place, Plan, Reason};
use crate::model::{CloudMapService, Owner, ServiceKey, Tags};

/// The services that could not be read, each with the cause.
fn unread(
    observation: &Observation,
) -> impl Iterator<Item = (&ServiceKey, &CloudMapService, &String)> {
    let services = observation.registry.services.iter();
    services.filter_map(|(key, service)| Some((key, service, service.unreadable.as_ref()?)))
}

/// Whether the function may not read a service that no Service claims and that was never seen to be ours.
fn is_of_others(
    observation: &Observation,
    holders: &Holders,
    key: &ServiceKey,
    service: &CloudMapService,
) -> bool {
    let is_claimed = holders.claimants(key).next().is_some();
    let is_ours = service.was_ours || service.is_tagged(&observation.owner.id);
    service.is_denied && !is_claimed && !is_ours
}

/// The services of which only the tags can show whether they are ours.
pub fn tags_of_unread(observation: &Observation, holders: &Holders) -> BTreeSet<ServiceKey> {
    let seem = unread(observation)
        .filter(|(key, service, _)| is_of_others(observation, holders, key, service));
    seem.map(|(key, ..)| key.clone()).collect()
}

pub fn unread_keys(observation: &Observation) -> BTreeSet<ServiceKey> {
    unread(observation).map(|(key, ..)| key.clone()).collect()
}

/// The services that have our tag, or instances with marks of this installation and flow for any cluster.
pub fn seen_as_ours(observation: &Observation) -> impl Iterator<Item = &CloudMapService> {
    let owner = &observation.owner;
    observation.registry.services.values().filter(move |service| {
        let mut instances = service.instances.iter().flat_map(|all| all.values());
        let is_marked = |it| Owner::marked(&owner.id, owner.flow, it).is_some();
        service.is_tagged(&owner.id) || instances.any(is_marked)
    })
}

/// The number of instances in services that could not be read and may contain ours, as the list of services reports it.
pub fn instances_unread(observation: &Observation, holders: &Holders) -> usize {
    let unread = unread(observation);
    let ours = unread.filter(|(key, it, _)| !is_of_others(observation, holders, key, it));
    ours.map(|(_, service, _)| service.held()).sum()
}

impl Plan {
    /// Adds the cause to every service that could not be read, unless a Service that claims it is held back for it.
    pub(super) fn note_unread(&mut self, observation: &Observation, holders: &Holders) {
        let unreadable =
            self.held_back.iter().filter(|it| matches!(it.reason, Reason::Unreadable(_)));
        let reported: BTreeSet<Place> = unreadable.filter_map(|it| it.place.clone()).collect();
        for (key, service, problem) in unread(observation) {
            let place = Place::of(key, &observation.registry);
            if reported.contains(&place) {
                continue;
            }
            let unchanged = self.unchanged.entry(place).or_default();
            if is_of_others(observation, holders, key, service) {
                let tags_problem = match &service.tags {
                    Tags::Unreadable(problem) => Some(problem.clone()),
                    Tags::Unread | Tags::Read { .. } => None,
                };
                unchanged.notes.push(Note::Unread { problem: problem.clone(), tags_problem });
            } else {
                unchanged.unreadable = Some(problem.clone());
            }
        }
    }
}
