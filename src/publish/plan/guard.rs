//! The guard against mass deletion. If a full sync would lose most of a cluster's instances at once, the cause may be
//! an accident: the instances of the losing Services stay, and all other changes are made, until a later full sync sees
//! the same loss or a person confirms it.
//!
//! ```text
//! changes ──> loss (per Service) ───────────┐
//! instances ─> what earlier runs have noted ┴─> verdict ─> the plan without the held removals
//!                                                  └─────> notes, on instances of the held Services
//! ```
//!
//! The comparison of a run is judged, on the instances that each Service had when the run began ([`Baseline`]): what the
//! run has registered before counts against the loss, and so does what it finds later. If the verdict counts on
//! registrations, all removals of the run wait until these were tried, and the comparison is judged once more.
//!
//! The memory of the guard is a note on each Service that it holds, on one of that Service's own instances (`mark`). It is
//! written once while the loss is held, after the additions of the run. It counts for six waits, and a full sync that does
//! not want the loss takes it off.
//!
//! Why each Service has its own: if one of 200 held Services had the note of all, a message about another one would read no
//! note, and 200 messages would carry the loss out. And a full sync in which the pods are back forgets what it noted: an
//! accident half an hour later is a new loss.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::change::{Change, Stage};
use super::mark::Leaving;
use super::observation::{Look, Observation, Plan};
use super::reason::Reason;
use super::removals::WaitsFor;
use crate::guard::{
    Age, Circumstances, Extent, GuardStatus, Loss, LossSubject, Losses, Measure, SightingNote,
    Verdict,
};
use crate::model::{Attributes, GuardState, InstanceKey, Place, ServiceRef, count_each};

impl Observation {
    fn circumstances(&self) -> Circumstances {
        let (guard, cluster) = (self.rules.guard, self.owner.cluster.clone());
        Circumstances { guard, now: self.now, cluster, subject: LossSubject::Instances }
    }

    /// All instances of the cluster when the run began; in a targeted sync, those of the Services that the sync covers.
    fn measure(&self) -> Measure {
        let baseline = self.baseline.as_ref().map(|baseline| baseline.instances);
        let instances = baseline.unwrap_or_else(|| self.count_instances());
        let is_old = self.extent == Extent::Part && !self.registry.is_current();
        Measure { extent: self.extent, instances, unread: self.instances_unread(), is_old }
    }

    fn count_instances(&self) -> usize {
        let affected = &self.affected;
        let extent = self.extent;
        let counts = |service: &ServiceRef| extent != Extent::Part || affected.contains(service);
        let services = self.registry.services.iter();
        let instances = services.map(|(key, service)| {
            let marked = self.marked_services(key).filter(counts).count();
            // Of those that were read in an earlier run some may have gone since.
            let is_old = service.read_before.is_some();
            let most = usize::try_from(service.instance_count).ok().filter(|_| is_old);
            marked.min(most.unwrap_or(usize::MAX))
        });
        instances.sum()
    }

    /// Whether a full sync holds the instances of a Service, as far as its note was read.
    pub fn is_held(&self, service: &ServiceRef) -> bool {
        self.sightings().contains_key(service)
    }

    /// The Services that keep their names from others, since the guard holds their instances. Once the wait is over a full
    /// sync lets the loss pass: then the name is not empty until the next Service has an instance.
    pub fn held_services(&self) -> BTreeSet<ServiceRef> {
        let mut held = self.sightings();
        held.retain(|_, sighting| match self.extent {
            Extent::Confirmed => false,
            Extent::Part => true,
            Extent::Everything => sighting.age(self.rules.guard, self.now) == Age::Early,
        });
        held.into_keys().collect()
    }
}

/// Takes the removals that the guard holds out of a finished plan, and adds the reason.
///
/// One judgement is not enough. If all 200 pods of a cluster are replaced, the first plan registers 200 instances and
/// deregisters 200, which is no loss. If Cloud Map then refuses 150 of the registrations, the removals lose 150. So such
/// a plan is judged again when its registrations are done, by what each Service had before the run.
pub fn restrain(observation: &Observation, plan: &mut Plan) {
    let offset = match observation.look {
        Look::Comparison => Offset::Planned,
        Look::AfterAdditions => Offset::Made,
        Look::Group => return,
    };
    let measure = observation.measure();
    let losses = observation.losses(plan, offset);
    let run = observation.circumstances();
    let verdict = measure.judge(&run, &losses, &observation.sightings());
    let held = verdict.as_ref().map(|verdict| observation.take_held(verdict, plan));
    let held = held.unwrap_or_default();
    let mut without_note = BTreeSet::new();
    if measure.extent != Extent::Part {
        if let Some(verdict) = &verdict {
            without_note = observation.add_notes(verdict, &held, plan);
        }
        // A run that read only a part takes no note off, nor one of which the second judgement may hold the noted loss.
        let is_final = verdict.is_some() || !observation.counts_on_additions(plan);
        if is_final && measure.unread == 0 {
            let is_held = |service: &ServiceRef| {
                verdict.as_ref().is_some_and(|verdict| verdict.held.contains_key(service))
            };
            observation.take_notes_off(|service| !is_held(service), plan);
        }
    }
    if let Some(verdict) = verdict {
        observation.keep_names(&verdict.held, plan);
        let status = Arc::new(GuardStatus { without_note, ..verdict.status(run) });
        hold_back(&held, &status, plan);
        // A loss within the limits that is left to the full sync is nothing to decide for a person.
        let is_left = status.verdict.state == GuardState::LeftToFullSync && !status.is_past();
        plan.guard = (!is_left).then_some(status);
    }
}

impl Observation {
    /// Takes the held removals out of a plan. If a part of a Service's loss passes, the instance with its note is among those
    /// that stay.
    fn take_held(&self, verdict: &Verdict, plan: &mut Plan) -> Vec<Change> {
        let passed = |service: &ServiceRef| verdict.passed.get(service).map_or(0, |loss| loss.lost);
        let mut may_go: BTreeMap<ServiceRef, usize> =
            verdict.held.keys().map(|service| (service.clone(), passed(service))).collect();
        let is_held = |change: &Change| {
            let Some(left) = change.loses().and_then(|service| may_go.get_mut(service)) else {
                return false;
            };
            let passes = *left > 0 && !self.removes_note(change);
            *left -= usize::from(passes);
            !passes
        };
        plan.take(is_held).into_iter().map(|(_, change)| change).collect()
    }

    /// Plans the notes of the losses that this run has seen first. A confirmed loss is noted as one that was seen for the
    /// whole wait, on an instance that goes: if the run is cut short, the next one lets the rest pass too. Returns the held
    /// Services that have no room for a note.
    fn add_notes(
        &self,
        verdict: &Verdict,
        held: &[Change],
        plan: &mut Plan,
    ) -> BTreeSet<ServiceRef> {
        let of_one = |service: &ServiceRef, loss: &Loss, first_seen| {
            SightingNote::of(&Losses::from([(service.clone(), *loss)]), first_seen)
        };
        let is_confirmed = verdict.state == GuardState::Confirmed;
        let own = self.instances_of(|service| {
            verdict.new.contains(service) || is_confirmed && verdict.passed.contains_key(service)
        });
        let held = held.iter().filter_map(Change::instance_key).collect();
        let leaving = Leaving { held, ..self.leaving(plan) };
        let is_removed = |at: &InstanceKey| leaving.removed.contains_key(at);
        let stays = |at: &InstanceKey| !is_removed(at) && !leaving.passed_on.contains(at);
        let of = |service: &ServiceRef| own.get(service).map_or(&[][..], Vec::as_slice);
        let mut without_note = BTreeSet::new();
        for service in &verdict.new {
            let note = of_one(service, &verdict.held[service], self.now);
            if !self.add_note(service, of(service), &note, &leaving, stays, plan) {
                without_note.insert(service.clone());
            }
        }
        if is_confirmed {
            let ripe = self.now.saturating_sub(self.rules.guard.wait).unwrap_or(self.now);
            let sightings = self.sightings();
            for (service, loss) in &verdict.passed {
                let is_ripe = sightings.get(service).is_some_and(|sighting| {
                    sighting.age(self.rules.guard, self.now) == Age::Ripe
                        && sighting.left <= loss.left
                });
                if !is_ripe && loss.lost > 1 {
                    let note = of_one(service, loss, ripe);
                    self.add_note(service, of(service), &note, &leaving, is_removed, plan);
                }
            }
        }
        without_note
    }

    /// Gives the names of the held Services to nobody else: what another Service would register under one that it has no
    /// instance under waits until the loss is decided.
    ///
    /// If shop/new asks for `web` while the 200 pods of shop/web seem to be gone, callers of `web` would reach other pods
    /// by the accident that the guard is to hold.
    fn keep_names(&self, held: &Losses, plan: &mut Plan) {
        for key in self.registry.services.keys() {
            let marked: BTreeSet<ServiceRef> = self.marked_services(key).collect();
            let Some(holder) = marked.iter().find(|service| held.contains_key(*service)) else {
                continue;
            };
            let is_of_another = |change: &Change| {
                let (Change::Register { attributes, .. } | Change::Rewrite { attributes, .. }) =
                    change
                else {
                    return false;
                };
                let service = self.owner.service_of(attributes);
                change.place().key == *key && service.is_some_and(|it| !marked.contains(&it))
            };
            let taken = plan.take(is_of_another);
            let others: BTreeSet<ServiceRef> =
                taken.into_iter().map(|(service, _)| service).collect();
            let place = Place::of(key, &self.registry);
            for service in &others {
                let reason = Reason::DomainConflict { holder: holder.clone() };
                plan.hold_back(service, &place, reason);
            }
        }
    }
}

impl Plan {
    /// Says of these held Services that their loss could not be noted.
    pub fn without_notes(&mut self, services: BTreeSet<ServiceRef>) {
        let Some(guard) = self.guard.as_ref().filter(|guard| guard.verdict.state.holds()) else {
            return;
        };
        let mut status = GuardStatus::clone(guard);
        status.without_note.extend(services);
        let status = Arc::new(status);
        for line in &mut self.held_back {
            if let Reason::Guard { status: of_line, .. } = &mut line.reason {
                *of_line = status.clone();
            }
        }
        self.guard = Some(status);
    }
}

/// One line for each Service and Cloud Map service.
fn hold_back(held: &[Change], status: &Arc<GuardStatus>, plan: &mut Plan) {
    let stay = held.iter().filter_map(|it| Some((it.loses()?.clone(), it.place().clone())));
    for ((service, place), instances) in count_each(stay) {
        plan.hold_back(&service, &place, Reason::Guard { instances, status: status.clone() });
    }
}

/// The instances of a cluster when a run began: the loss of the run is measured on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// The number of all.
    instances: usize,
    /// The number of those of each Service.
    before: BTreeMap<ServiceRef, usize>,
}

impl Baseline {
    /// That of an observation, without the instances that the run has registered.
    pub fn of(observation: &Observation, registered: &BTreeSet<InstanceKey>) -> Self {
        let mut before = BTreeMap::new();
        let mut new = 0;
        for key in observation.registry.services.keys() {
            for instance in observation.marked(key) {
                if registered.contains(&InstanceKey::new(key, instance.id)) {
                    new += 1;
                } else {
                    *before.entry(instance.service).or_default() += 1;
                }
            }
        }
        Self { instances: observation.count_instances().saturating_sub(new), before }
    }
}

impl Observation {
    /// Whether the guard would hold removals of a judged plan if every registration failed. Registrations that offset a
    /// loss are made before any removal, and Cloud Map can refuse them: then the removals are judged again when all
    /// registrations were tried.
    pub fn counts_on_additions(&self, plan: &Plan) -> bool {
        if self.look != Look::Comparison || self.extent == Extent::Part {
            return false;
        }
        let gross = self.losses(plan, Offset::Nothing);
        self.measure().is_past(&self.circumstances(), &gross)
    }

    /// An instance that passes in place to another Service is no loss of the former one: clients still find it.
    pub fn pass_on(&mut self, change: &Change) {
        let service_of = |attributes: &Attributes| self.owner.service_of(attributes);
        if let Change::Rewrite { place, instance, attributes, exchange: None, .. } = change
            && let Some(baseline) = &mut self.baseline
            && let Some(from) = self.registry.instance(&place.key, instance).and_then(service_of)
            && service_of(attributes).is_some_and(|to| to != from)
            && let Some(before) = Arc::make_mut(baseline).before.get_mut(&from)
        {
            *before = before.saturating_sub(1);
        }
    }
}

// The loss of each Kubernetes Service: how many fewer of our instances would be registered for it in all of Cloud Map.
// New registrations offset removals, so a rolling restart and a rename lose nothing. An instance that passes to
// another Service in place is still found, and is no loss of the former either. A removal that waits for a
// registration that this run does not make is not carried out in this run, and counts in the run that makes it.

/// The instances of one Service.
#[derive(Default)]
struct LossTally {
    present: usize,
    gone: usize,
    came: usize,
    passed_on: usize,
}

/// The registrations of a plan that offset a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// All of them.
    Planned,
    /// None of them.
    Nothing,
    /// None of them, since all that are possible in this run were tried.
    Made,
}

impl Observation {
    /// The losses of a plan: the instances that each Service had and loses, but for those that offset the loss.
    pub fn losses(&self, plan: &Plan, offset: Offset) -> Losses {
        let is_planned = offset == Offset::Planned;
        let marked = |attributes: &Attributes| self.owner.service_of(attributes);
        let mut tallies: BTreeMap<ServiceRef, LossTally> = BTreeMap::new();
        for (_, service) in self.all_marked_services() {
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
                    let before = self.registry.instance(&place.key, instance);
                    let (before, after) = (before.and_then(&marked), marked(attributes));
                    if before != after {
                        tally(before, |tally| &mut tally.passed_on);
                        tally(after, |tally| &mut tally.came);
                    }
                }
                _ => {}
            }
        }
        let losses = tallies.into_iter().filter_map(|(service, tally)| {
            let LossTally { present, gone, came, passed_on } = tally;
            let before = match &self.baseline {
                Some(baseline) => baseline.before.get(&service).copied().unwrap_or_default(),
                None => present,
            };
            let lost = (before + gone).checked_sub(present + came).filter(|lost| *lost > 0)?;
            let left = (present + came).saturating_sub(gone + passed_on);
            let was_read = self.desired.was_read(&service);
            // A full sync says what it could not note.
            let has_room = self.extent != Extent::Part || self.has_room_for_note(&service);
            Some((service, Loss { lost, left, was_read, was_held: false, has_room }))
        });
        losses.collect()
    }
}

impl Offset {
    /// Whether a removal counts: its wait may end in this run. When all registrations are done, only removals that wait
    /// for nothing count; the others are judged in the pass in which their wait has ended.
    fn counts(self, waits_for: Option<&WaitsFor>, marked: &ServiceRef, plan: &Plan) -> bool {
        match (self, waits_for) {
            (_, None) => true,
            (Self::Made, Some(_)) => false,
            (_, Some(WaitsFor::FirstRegistration)) => registers(marked, plan),
            (_, Some(other)) => other.services().into_iter().any(|it| registers(it, plan)),
        }
    }
}

fn registers(service: &ServiceRef, plan: &Plan) -> bool {
    let mut changes = plan.changes.get(service).into_iter().flatten();
    changes.any(|change| matches!(change.stage(), Stage::Create | Stage::Register))
}
