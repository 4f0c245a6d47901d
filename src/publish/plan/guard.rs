//! The guard against mass deletion. If a full sync would lose most of a cluster's instances at once, the cause may be
//! an accident: the instances of the losing Services stay, and all other changes are made, until a later full sync sees
//! the same loss or a person confirms it.
//!
//! ```text
//! changes ──> loss (per Service) ──────────┐
//! registry ─> the sighting of earlier runs ┴─> verdict ─> the plan without the held removals
//!                                                 └─────> remember or forget the sighting
//! ```
//!
//! The plan of a run is judged. If the verdict depends on registrations, the plan is judged once more between the pass
//! that adds and the pass that removes ([`GuardBaseline`]). Removals that only the second look finds are not made in that run,
//! since only announced removals are.
//!
//! The memory of the guard is a note on one of the instances that it holds, or if none has room on something else of
//! ours (`mark`), never on anything of another owner. The note is written once while the loss is held, is carried over on a
//! rewrite, and is removed when the loss is over or let pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::change::{Change, Stage};
use super::mark::NotePlace;
use super::observation::{Observation, Plan};
use super::reason::Reason;
use super::removals::WaitsFor;
use crate::guard::{
    Age, Circumstances, Extent, GuardStatus, Loss, LossSubject, Losses, Measure, Sighting, Verdict,
};
use crate::model::attributes::SIGHTING;
use crate::model::{Attributes, GuardState, ServiceRef, count_each};

impl Observation {
    fn circumstances(&self) -> Circumstances {
        let (guard, cluster) = (self.rules.guard, self.owner.cluster.clone());
        Circumstances { guard, now: self.now, cluster, subject: LossSubject::Instances }
    }

    /// All instances of the cluster; in a targeted sync, those of the Services that the sync covers.
    fn measure(&self) -> Measure {
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
        let (instances, unread) = (instances.sum(), self.instances_unread());
        // The note of a full sync may be on an instance that was not read in this run.
        let may_be_noted = extent == Extent::Part && !self.registry.is_current();
        Measure { extent, instances, unread, may_be_noted }
    }

    /// Whether a plan would lose instances, so that the removals held by a full sync matter.
    pub fn would_lose(&self) -> bool {
        !self.losses(&super::unjudged(self), Offset::Planned).is_empty()
    }

    /// Whether a plan would lose so much that the verdict depends on a note, and no instance carries one: it may be on
    /// a service from the time when no instance had room.
    pub(super) fn lacks_note(&self) -> bool {
        let measure = self.measure();
        let is_past = |losses: &Losses| match measure.extent {
            Extent::Everything => measure.judge(&self.circumstances(), losses, None).is_some(),
            Extent::Part => !losses.is_empty(),
            Extent::Confirmed | Extent::Remainder => false,
        };
        self.recall_sighting().is_none()
            && is_past(&self.losses(&super::unjudged(self), Offset::Planned))
    }

    /// Whether everything was read in this run and no instance carries a sighting.
    pub fn is_quiet(&self) -> bool {
        self.registry.is_current()
            && self.recall_sighting().is_none()
            && self.instances_unread() == 0
    }

    /// Whether a change removes an instance with the guard's note.
    pub fn removes_note(&self, change: &Change) -> bool {
        let instance = change.instance().unwrap_or_default();
        let present = self.registry.instance(&change.place().key, instance);
        change.stage() == Stage::Deregister && present.is_some_and(|it| it.contains_key(SIGHTING))
    }

    /// Whether the guard of a full sync holds the instances of a Service, as far as its note was read.
    pub fn is_held(&self, service: &ServiceRef) -> bool {
        let sighting = self.recall_sighting();
        sighting
            .is_some_and(|it| it.age(self.rules.guard, self.now) != Age::Stale && it.has(service))
    }
}

/// Takes the removals that the guard holds out of a finished plan, and adds the reason.
///
/// One judgement is not enough. If all 200 pods of a cluster are replaced, the first plan registers 200 instances and
/// deregisters 200, which is no loss. If Cloud Map then refuses 150 of the registrations, the removals lose 150. So such
/// a plan is judged again when its registrations are done, by what each Service had before the run.
pub fn restrain(observation: &Observation, plan: &mut Plan) {
    let judged = observation.judged.as_deref();
    let (measure, losses, sighting) = match (observation.extent, judged) {
        (Extent::Remainder, None) => return,
        (Extent::Remainder, Some(judged)) => {
            let losses = observation.losses(plan, Offset::Registered(&judged.before));
            let unread = observation.instances_unread();
            (Measure { unread, ..judged.measure }, losses, judged.sighting.clone())
        }
        _ => {
            let losses = observation.losses(plan, Offset::Planned);
            (observation.measure(), losses, observation.recall_sighting())
        }
    };
    let run = observation.circumstances();
    let verdict = measure.judge(&run, &losses, sighting.as_ref());
    let is_held = |change: &Change, verdict: &Verdict| {
        change.loses().is_some_and(|service| verdict.held.contains_key(service))
    };
    let held = verdict.as_ref().map(|verdict| plan.take(|change| is_held(change, verdict)));
    let held: Vec<Change> = held.into_iter().flatten().map(|(_, change)| change).collect();
    // A run that read only a part does not remove the note, nor one of which the second judgement may hold the noted loss.
    let is_final = observation.extent != Extent::Remainder && measure.unread == 0;
    let is_final =
        is_final && (verdict.is_some() || GuardBaseline::of(observation, plan).is_none());
    let is_noted = measure.extent == Extent::Part
        || observation.note_sighting((verdict.as_ref(), &held), is_final, plan);
    if let Some(verdict) = verdict {
        let status = verdict.status(run);
        let status =
            if is_noted { status } else { status.without_note(observation.unreadable_notes()) };
        let status = Arc::new(status);
        hold_back(&held, &status, plan);
        // A loss within the limits that is left to the full sync is nothing to decide for a person.
        let is_left = status.verdict.state == GuardState::LeftToFullSync && !status.is_past();
        plan.guard = (!is_left).then_some(status);
    }
}

/// One line for each Service and Cloud Map service.
fn hold_back(held: &[Change], status: &Arc<GuardStatus>, plan: &mut Plan) {
    let stay = held.iter().filter_map(|it| Some((it.loses()?.clone(), it.place().clone())));
    for ((service, place), instances) in count_each(stay) {
        plan.hold_back(&service, &place, Reason::Guard { instances, status: status.clone() });
    }
}

/// The input of the second judgement. Registrations that offset a loss are made before any removal, and Cloud Map can
/// refuse them. If the removals of a plan would exceed the limits without the registrations, they are judged again when
/// all registrations are done, on the instances that are registered then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardBaseline {
    /// The part of the cluster that the run covers, and the instances that the limits are measured on.
    measure: Measure,
    /// The number of instances of each Service when the run began.
    before: BTreeMap<ServiceRef, usize>,
    /// The sighting that was stored when the run began.
    sighting: Option<Sighting>,
}

impl GuardBaseline {
    /// The input for judging the removals of a judged plan again; `None` if they are within the limits even if every
    /// registration fails.
    pub fn of(observation: &Observation, plan: &Plan) -> Option<Self> {
        let measure = observation.measure();
        let gross = observation.losses(plan, Offset::Nothing);
        if !measure.is_past(&observation.circumstances(), &gross) {
            return None;
        }
        let before = count_each(observation.all_marked_services().map(|(_, service)| service));
        Some(Self { measure, before, sighting: observation.recall_sighting() })
    }
}

impl Observation {
    /// An instance that passes in place to another Service is no loss of the former one: clients still find it.
    pub fn pass_on(&mut self, change: &Change) {
        let service_of = |attributes: &Attributes| self.owner.service_of(attributes);
        if let Change::Rewrite { place, instance, attributes, exchange: None, .. } = change
            && let Some(judged) = &mut self.judged
            && let Some(from) = self.registry.instance(&place.key, instance).and_then(service_of)
            && service_of(attributes).is_some_and(|to| to != from)
            && let Some(before) = Arc::make_mut(judged).before.get_mut(&from)
        {
            *before = before.saturating_sub(1);
        }
    }

    /// The sighting that an earlier run stored; of several the oldest. If a loss was noted on a Cloud Map service,
    /// since no instance had room, and one has room since, a second note would begin the wait anew.
    fn recall_sighting(&self) -> Option<Sighting> {
        let marks = self.notes(SIGHTING).filter_map(|(_, text)| Sighting::parse(text));
        marks.min_by_key(|sighting| sighting.first_seen)
    }

    /// Adds the changes of the note to the plan; `held` are the removals that were taken out, and only a verdict that
    /// is final removes a note. Returns false if a new loss that is held has no place for its note.
    fn note_sighting(
        &self,
        (verdict, held): (Option<&Verdict>, &[Change]),
        is_final: bool,
        plan: &mut Plan,
    ) -> bool {
        match verdict {
            Some(verdict) if verdict.state.holds() => {
                let sighting = Sighting::of(&verdict.held, self.now);
                return !verdict.is_new || self.mark_sighting(&sighting, held, |_| true, plan);
            }
            _ if !is_final => {}
            None => self.remove_notes(SIGHTING, |_| true, plan),
            Some(verdict) => {
                let changes = plan.changes.values().flatten();
                let is_lost =
                    |it: &&Change| it.loses().is_some_and(|it| verdict.passed.contains_key(it));
                let lost: Vec<Change> = changes.filter(is_lost).cloned().collect();
                // On a Cloud Map service it would outlast the instances, so there it is removed after them.
                let is_instance = |at: &NotePlace| matches!(at, NotePlace::Instance(_));
                self.mark_sighting(&self.passed(verdict), &lost, is_instance, plan);
            }
        }
        true
    }

    /// The note of a loss that is let pass. It stays on the instance that is removed last: if a run is cut short, the
    /// next one finds the note and lets the rest pass too. A confirmed loss is noted as one that was seen for the whole
    /// wait.
    fn passed(&self, verdict: &Verdict) -> Sighting {
        let Observation { now, rules, .. } = self;
        let ripe = now.saturating_sub(rules.guard.wait).unwrap_or(*now);
        let first_seen = verdict.first_seen.map_or(ripe, |first_seen| first_seen.min(ripe));
        self.recall_sighting()
            .filter(|sighting| sighting.first_seen <= ripe)
            .filter(|sighting| verdict.passed.iter().all(|(it, loss)| sighting.has_seen(it, *loss)))
            .unwrap_or_else(|| Sighting::of(&verdict.passed, first_seen))
    }

    /// Writes the note: on the instance that had it before, else on the first held one with room for it, else
    /// elsewhere. Returns false if there is no place for it.
    fn mark_sighting(
        &self,
        sighting: &Sighting,
        held: &[Change],
        may_be_at: impl Fn(&NotePlace) -> bool,
        plan: &mut Plan,
    ) -> bool {
        let text = sighting.to_string();
        let held = held.iter().filter_map(Change::instance_key);
        let at = self.place_for_note((SIGHTING, &text), held, plan).filter(may_be_at);
        let mut noted = self.notes(SIGHTING);
        let is_noted = noted.any(|(place, noted)| Some(&place) == at.as_ref() && noted == text);
        if let Some(at) = at.as_ref().filter(|_| !is_noted) {
            self.put_note(at, (SIGHTING, Some(&text)), plan);
        }
        self.remove_notes(SIGHTING, |it| Some(it) != at.as_ref(), plan);
        at.is_some()
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

impl Observation {
    /// The losses of a plan: the instances that each Service had and loses, but for those that offset the loss.
    pub fn losses(&self, plan: &Plan, offset: Offset) -> Losses {
        let is_planned = matches!(offset, Offset::Planned);
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
            let before = match offset {
                Offset::Registered(counts) => counts.get(&service).copied().unwrap_or_default(),
                Offset::Planned | Offset::Nothing => present,
            };
            let lost = (before + gone).checked_sub(present + came).filter(|lost| *lost > 0)?;
            let left = (present + came).saturating_sub(gone + passed_on);
            let was_read = self.desired.was_read(&service);
            Some((service, Loss { lost, left, was_read, was_held: false }))
        });
        losses.collect()
    }
}

impl Offset<'_> {
    /// Whether a removal counts: its wait may end in this run. When all registrations are done, only removals that wait
    /// for nothing count; the others are judged in the pass in which their wait has ended.
    fn counts(self, waits_for: Option<&WaitsFor>, marked: &ServiceRef, plan: &Plan) -> bool {
        match (self, waits_for) {
            (_, None) => true,
            (Self::Registered(_), Some(_)) => false,
            (_, Some(WaitsFor::FirstRegistration)) => registers(marked, plan),
            (_, Some(other)) => other.services().into_iter().any(|it| registers(it, plan)),
        }
    }
}

fn registers(service: &ServiceRef, plan: &Plan) -> bool {
    let mut changes = plan.changes.get(service).into_iter().flatten();
    changes.any(|change| matches!(change.stage(), Stage::Create | Stage::Register))
}
