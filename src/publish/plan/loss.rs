//! The loss of each Kubernetes Service: how many fewer of our instances would be registered for it in all of Cloud Map.
//! New registrations offset removals, so a rolling restart and a rename lose nothing. An instance that passes to
//! another Service in place is still found, and is no loss of the former either. A removal that waits for a
//! registration that this run does not make is not carried out in this run, and counts in the run that makes it.

use std::collections::BTreeMap;

use super::change::{Change, Stage};
use super::observation::Observation;
use super::removals::WaitsFor;
use super::result::Plan;
use crate::guard::{Loss, Losses};
use crate::model::{Attributes, ServiceRef};

/// The instances of one Service.
#[derive(Default)]
struct LossTally {
    present: usize,
    gone: usize,
    came: usize,
    passed_on: usize,
}

/// The registrations that offset a loss.
#[derive(Clone, Copy, Debug)]
pub enum Offset<'a> {
    /// The registrations of the plan.
    Planned,
    /// No registrations.
    Nothing,
    /// The registrations made since each Service had this number of instances.
    Registered(&'a BTreeMap<ServiceRef, usize>),
}

/// The losses of a plan: the instances that each Service had and loses, but for those that offset the loss.
pub fn losses(observation: &Observation, plan: &Plan, offset: Offset) -> Losses {
    let tallies = tallies(observation, plan, offset).into_iter();
    let losses = tallies.filter_map(|(service, tally)| {
        let LossTally { present, gone, came, passed_on } = tally;
        let before = match offset {
            Offset::Registered(counts) => counts.get(&service).copied().unwrap_or_default(),
            Offset::Planned | Offset::Nothing => present,
        };
        let lost = (before + gone).checked_sub(present + came).filter(|lost| *lost > 0)?;
        let left = (present + came).saturating_sub(gone + passed_on);
        let was_read = observation.desired.was_read(&service);
        Some((service, Loss { lost, left, was_read, was_held: false }))
    });
    losses.collect()
}

fn tallies(
    observation: &Observation,
    plan: &Plan,
    offset: Offset,
) -> BTreeMap<ServiceRef, LossTally> {
    let is_planned = matches!(offset, Offset::Planned);
    let marked = |attributes: &Attributes| observation.owner.service_of(attributes);
    let mut tallies: BTreeMap<ServiceRef, LossTally> = BTreeMap::new();
    for (_, service) in observation.all_marked_services() {
        tallies.entry(service).or_default().present += 1;
    }
    let mut tally = |service: Option<ServiceRef>, count: fn(&mut LossTally) -> &mut usize| {
        if let Some(service) = service {
            *count(tallies.entry(service).or_default()) += 1;
        }
    };
    for change in plan.changes.values().flatten() {
        match change {
            Change::Deregister { marked, waits_for, .. }
                if offset.counts(waits_for.as_deref(), marked, plan) =>
            {
                tally(Some(marked.clone()), |tally| &mut tally.gone);
            }
            Change::Register { attributes, .. } if is_planned => {
                tally(marked(attributes), |tally| &mut tally.came);
            }
            // The addition and the removal are one call.
            Change::Rewrite { attributes, exchange: Some(exchange), .. } => {
                tally(Some(exchange.marked.clone()), |tally| &mut tally.gone);
                tally(marked(attributes), |tally| &mut tally.came);
            }
            Change::Rewrite { place, instance, attributes, .. } if is_planned => {
                let before = observation.registry.instance(&place.key, instance);
                let (before, after) = (before.and_then(&marked), marked(attributes));
                if before != after {
                    tally(before, |tally| &mut tally.passed_on);
                    tally(after, |tally| &mut tally.came);
                }
            }
            _ => {}
        }
    }
    tallies
}

impl Offset<'_> {
    /// Whether a removal counts: its wait may end in this run. When all registrations are done, only removals that wait
    /// for nothing count; the others are judged in the pass in which their wait has ended.
    fn counts(self, waits_for: Option<&WaitsFor>, marked: &ServiceRef, plan: &Plan) -> bool {
        match self {
            Self::Registered(_) => waits_for.is_none(),
            Self::Planned | Self::Nothing => may_end(waits_for, marked, plan),
        }
    }
}

/// Whether the wait of a removal may end in this run.
fn may_end(waits_for: Option<&WaitsFor>, marked: &ServiceRef, plan: &Plan) -> bool {
    match waits_for {
        None => true,
        Some(WaitsFor::FirstRegistration) => registers(marked, plan),
        Some(other) => other.services().into_iter().any(|service| registers(service, plan)),
    }
}

fn registers(service: &ServiceRef, plan: &Plan) -> bool {
    let mut changes = plan.changes.get(service).into_iter().flatten();
    changes.any(|change| matches!(change.stage(), Stage::Create | Stage::Register))
}
