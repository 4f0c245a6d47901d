//! The loss of each Kubernetes Service: how many fewer of our instances would be registered for it in all of Cloud Map.
//! New registrations offset removals, so a rolling restart and a rename lose nothing. An instance that passes to
//! another Service in place can still be discovered, so it is no loss of the former Service. If a removal waits for a
//! registration that this run does not make, it counts in the run that carries it out.
//!
//! All losses of a run are measured on the instances that each Service had when the run began, the [`Baseline`].

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, Stage};
use super::notes;
use super::observation::{Observation, Plan};
use crate::guard::{Extent, Loss, Losses};
use crate::model::{Attributes, InstanceKey, Owner, Registry, ServiceRef};

/// The instances of a cluster when a run began: the loss of the run is measured on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// The number of all instances.
    pub instances: usize,
    /// The number of instances of each Service.
    before: BTreeMap<ServiceRef, usize>,
}

impl Baseline {
    /// The baseline of an observation, without the instances that the run has registered.
    pub fn of(observation: &Observation, registered: &BTreeSet<InstanceKey>) -> Self {
        let mut before = BTreeMap::new();
        let mut new = 0;
        for key in observation.registry.services.keys() {
            for instance in observation.our_instances_with_service(key) {
                if registered.contains(&InstanceKey::new(key, instance.id)) {
                    new += 1;
                } else {
                    *before.entry(instance.service).or_default() += 1;
                }
            }
        }
        Self { instances: count_instances(observation).saturating_sub(new), before }
    }

    /// Accounts for a change that passes an instance to another Service in place. This is no loss of the former
    /// Service: clients still find the instance.
    pub fn pass_on(&mut self, registry: &Registry, owner: &Owner, change: &Change) {
        let service_of = |attributes: &Attributes| owner.service_of(attributes);
        if let Change::Rewrite { place, instance, attributes, exchange: None, .. } = change
            && let Some(from) = registry.instance(&place.key, instance).and_then(service_of)
            && service_of(attributes).is_some_and(|to| to != from)
            && let Some(before) = self.before.get_mut(&from)
        {
            *before = before.saturating_sub(1);
        }
    }
}

/// The number of our instances of the cluster. In a targeted sync, only the instances of the Services that it covers.
pub fn count_instances(observation: &Observation) -> usize {
    let affected = &observation.affected;
    let extent = observation.extent;
    let counts = |service: &ServiceRef| extent != Extent::Part || affected.contains(service);
    let services = observation.registry.services.iter();
    let instances = services.map(|(key, service)| {
        let marked = observation.count_marked(key).into_iter();
        let marked = marked.filter(|(service, _)| counts(service));
        let marked: usize = marked.map(|(_, count)| count).sum();
        // Other writers may have removed instances since the earlier run that read them.
        let is_old = service.read_before.is_some();
        let most = usize::try_from(service.instance_count).ok().filter(|_| is_old);
        marked.min(most.unwrap_or(usize::MAX))
    });
    instances.sum()
}

/// The numbers from which the loss of one Service follows.
#[derive(Default)]
struct LossTally {
    present: usize,
    removed: usize,
    added: usize,
    passed_on: usize,
}

/// The registrations of a plan that offset a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// All of them.
    Planned,
    /// None of them.
    Nothing,
    /// None of them, since all registrations of the run were tried and are counted as present instances.
    Made,
}

/// Returns the losses of a plan: the instances that each Service had and loses, less the registrations that offset
/// them.
pub fn losses(observation: &Observation, plan: &Plan, offset: Offset) -> Losses {
    let is_planned = offset == Offset::Planned;
    let marked = |attributes: &Attributes| observation.owner.service_of(attributes);
    let mut tallies: BTreeMap<ServiceRef, LossTally> = BTreeMap::new();
    for (service, count) in observation.count_all_marked() {
        tallies.entry(service).or_default().present = count;
    }
    let mut tally = |service: Option<ServiceRef>, count: fn(&mut LossTally) -> &mut usize| {
        if let Some(service) = service {
            *count(tallies.entry(service).or_default()) += 1;
        }
    };
    for change in plan.changes.values().flatten() {
        if let Some(loser) = change.losing_service()
            && offset.counts(change, plan)
        {
            tally(Some(loser.clone()), |tally| &mut tally.removed);
        }
        match change {
            Change::Register { attributes, .. } if is_planned => {
                tally(marked(attributes), |tally| &mut tally.added);
            }
            // The addition and the removal are one call.
            Change::Rewrite { attributes, exchange: Some(_), .. } => {
                tally(marked(attributes), |tally| &mut tally.added);
            }
            Change::Rewrite { place, instance, attributes, .. } if is_planned => {
                let before = observation.registry.instance(&place.key, instance);
                let before = before.and_then(&marked);
                let after = marked(attributes);
                if before != after {
                    tally(before, |tally| &mut tally.passed_on);
                    tally(after, |tally| &mut tally.added);
                }
            }
            _ => {}
        }
    }
    let losses = tallies.into_iter().filter_map(|(service, tally)| {
        let LossTally { present, removed, added, passed_on } = tally;
        let before = match &observation.baseline {
            Some(baseline) => baseline.before.get(&service).copied().unwrap_or_default(),
            None => present,
        };
        let lost = (before + removed).checked_sub(present + added).filter(|lost| *lost > 0)?;
        let left = (present + added).saturating_sub(removed + passed_on);
        let was_read = observation.desired.was_read(&service);
        // A full sync reports a loss that it could not note.
        let has_room =
            observation.extent != Extent::Part || notes::has_room_for_note(observation, &service);
        Some((service, Loss { lost, left, was_read, has_room }))
    });
    losses.collect()
}

impl Offset {
    /// Whether a removal counts: it waits for nothing, or its wait may end in this run. After the registrations, only
    /// removals that wait for nothing count. The others are judged in the run that carries them out.
    fn counts(self, removal: &Change, plan: &Plan) -> bool {
        let waits = removal.waits_for().is_some();
        let is_awaited = |service| registers(service, plan);
        !waits || self != Self::Made && removal.awaited_services().into_iter().any(is_awaited)
    }
}

fn registers(service: &ServiceRef, plan: &Plan) -> bool {
    let mut changes = plan.changes.get(service).into_iter().flatten();
    changes.any(|change| matches!(change.stage(), Stage::Create | Stage::Register))
}
