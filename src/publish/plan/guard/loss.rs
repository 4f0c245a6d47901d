//! Who loses how much: how many fewer of our instances would be registered for a Kubernetes Service,
//! wherever in Cloud Map they are. What is registered anew makes up for what goes, so a rolling restart
//! and a rename lose nothing. An instance that passes to another Service in place stays where it can be
//! found, and is no loss of the former either. A removal that waits for what nobody registers now is
//! not made in this run, and counts when it is.

use std::collections::BTreeMap;

use crate::model::{Attributes, ServiceRef};
use crate::publish::plan::{Change, Observation, Plan, Stage, WaitsFor};

/// What one Service would lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// So many instances fewer.
    pub lost: usize,
    /// So many would be left.
    pub left: usize,
}

/// Every Service that would lose instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses(BTreeMap<ServiceRef, Loss>);

#[derive(Default)]
struct Tally {
    present: usize,
    gone: usize,
    came: usize,
    /// Of those that came, the ones that displace another instance: either both happens or nothing.
    displaced: usize,
    passed_on: usize,
}

/// What makes up for the instances that go.
#[derive(Clone, Copy, Debug)]
pub enum Offset<'a> {
    /// What the plan registers.
    Planned,
    /// Nothing.
    Nothing,
    /// What was registered since each Service had so many instances.
    Registered(&'a BTreeMap<ServiceRef, usize>),
}

impl Losses {
    /// The losses of a plan.
    pub fn of(observation: &Observation, plan: &Plan, offset: Offset) -> Self {
        let tallies = tallies(observation, plan, offset).into_iter();
        let losses = tallies.filter_map(|(service, tally)| {
            let loss = tally.loss(&service, offset)?;
            Some((service, loss))
        });
        Self(losses.collect())
    }

    /// How many instances in all.
    pub fn total(&self) -> usize {
        self.0.values().map(|loss| loss.lost).sum()
    }

    /// Whether the Service is among those that lose.
    pub fn has(&self, service: &ServiceRef) -> bool {
        self.0.contains_key(service)
    }

    /// Each Service with its loss.
    pub fn iter(&self) -> impl Iterator<Item = (&ServiceRef, Loss)> {
        self.0.iter().map(|(service, loss)| (service, *loss))
    }

    /// How many Services lose.
    pub fn services(&self) -> usize {
        self.0.len()
    }

    /// Whether a single Service loses, and its object was read in this run: then it is no accident of
    /// reading, and no other Service is concerned.
    pub fn is_of_one_that_was_read(&self, observation: &Observation) -> bool {
        let mut services = self.0.keys();
        let one = services.next().filter(|_| services.next().is_none());
        one.is_some_and(|service| observation.desired.was_read(service))
    }

    /// Those for which `belongs` holds, and the others.
    pub fn partition(&self, belongs: impl Fn(&ServiceRef, Loss) -> bool) -> (Self, Self) {
        let all = self.0.clone().into_iter();
        let (these, others) = all.partition(|(service, loss)| belongs(service, *loss));
        (Self(these), Self(others))
    }
}

/// Counts the instances that each Service has and loses, and those that make up for them.
fn tallies(observation: &Observation, plan: &Plan, offset: Offset) -> BTreeMap<ServiceRef, Tally> {
    let marked = |attributes: &Attributes| observation.owner.service_of(attributes);
    let mut tallies: BTreeMap<ServiceRef, Tally> = BTreeMap::new();
    for (_, service) in observation.all_marked_services() {
        tallies.entry(service).or_default().present += 1;
    }
    let mut tally = |service: Option<ServiceRef>, count: fn(&mut Tally) -> &mut usize| {
        if let Some(service) = service {
            *count(tallies.entry(service).or_default()) += 1;
        }
    };
    for change in plan.changes.values().flatten() {
        match change {
            Change::Deregister { marked, waits_for, .. }
                if offset.counts(waits_for.as_ref(), marked, plan) =>
            {
                tally(Some(marked.clone()), |tally| &mut tally.gone);
            }
            Change::Register { attributes, .. } => {
                tally(marked(attributes), |tally| &mut tally.came);
            }
            Change::Rewrite { attributes, exchange: Some(exchange), .. } => {
                tally(Some(exchange.marked.clone()), |tally| &mut tally.gone);
                tally(marked(attributes), |tally| &mut tally.came);
                tally(marked(attributes), |tally| &mut tally.displaced);
            }
            Change::Rewrite { place, instance, attributes, .. } => {
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

impl Tally {
    fn loss(mut self, service: &ServiceRef, offset: Offset) -> Option<Loss> {
        let mut before = self.present;
        if !matches!(offset, Offset::Planned) {
            (self.came, self.passed_on) = (self.displaced, 0);
        }
        if let Offset::Registered(counts) = offset {
            before = counts.get(service).copied().unwrap_or_default();
        }
        let lost = (before + self.gone).checked_sub(self.present + self.came);
        let lost = lost.filter(|lost| *lost > 0)?;
        let left = (self.present + self.came).saturating_sub(self.gone + self.passed_on);
        Some(Loss { lost, left })
    }
}

impl Offset<'_> {
    /// Whether a removal counts: what it waits for may come about in this run. When all registrations are done, only
    /// those count that wait for nothing; the others are judged in the pass in which they do.
    fn counts(self, waits_for: Option<&WaitsFor>, marked: &ServiceRef, plan: &Plan) -> bool {
        match self {
            Self::Registered(_) => waits_for.is_none(),
            Self::Planned | Self::Nothing => may_end(waits_for, marked, plan),
        }
    }
}

/// Whether what a removal waits for may come about in this run.
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

#[cfg(test)]
impl FromIterator<(ServiceRef, Loss)> for Losses {
    fn from_iter<I: IntoIterator<Item = (ServiceRef, Loss)>>(losses: I) -> Self {
        Self(losses.into_iter().collect())
    }
}
