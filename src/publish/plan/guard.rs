//! The guard against mass deletion. If a full sync would lose most of a cluster's instances at once, the cause may be
//! an accident: the instances of the losing Services stay, and all other changes are made, until a later full sync sees
//! the same loss or a person confirms it.
//!
//! ```text
//! changes ──> loss (per Service) ───────────┐
//! instances ─> notes of earlier runs ───────┴─> verdict ─> the plan without the held removals
//!                                                  └─────> notes, on instances of the held Services
//! ```
//!
//! The guard judges the comparison of a run against the instances that each Service had when the run began (`Baseline`
//! in `loss`). So an instance that the run has registered before the verdict reduces the loss. If the verdict depends
//! on registrations that are only planned, all removals of the run wait until these were tried, and the guard judges
//! again.
//!
//! The memory of the guard is a note for each held Service, on one of that Service's own instances (`notes`). It is
//! written once while the loss is held, after the additions of the run. It expires after six waits or three periods of
//! the schedule, whichever is longer. A full sync that plans no such loss removes it.
//!
//! Why each Service has its own note: if the losses of 200 Services were noted on one of them, a message about another
//! Service would not read the note, and 200 messages would carry out the loss. Why a note is removed when the pods are
//! back: an accident half an hour later is a new loss.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::change::Change;
use super::loss::{Offset, count_instances, losses};
use super::notes::{NoteChanges, instances_of, removes_note, sightings};
use super::observation::{Observation, Plan, PlanPhase};
use super::reason::Reason;
use super::unread;
use crate::guard::{
    Age, Circumstances, Extent, GuardStatus, Loss, LossBase, LossSubject, Losses, SightingNote,
    Sightings, Verdict,
};
use crate::model::{GuardState, Place, ServiceRef};

/// The circumstances that the verdict depends on.
fn circumstances(observation: &Observation) -> Circumstances {
    Circumstances {
        guard: observation.rules.guard,
        now: observation.now,
        cluster: observation.owner.cluster.clone(),
        subject: LossSubject::Instances,
    }
}

/// The quantities that the loss is measured on. The instances are those of the cluster when the run began; in a
/// targeted sync, those of the Services that the sync covers.
fn measure(observation: &Observation) -> LossBase {
    let baseline = observation.baseline.as_ref().map(|baseline| baseline.instances);
    LossBase {
        extent: observation.extent,
        instances: baseline.unwrap_or_else(|| count_instances(observation)),
        unread: unread::instances(observation),
        has_earlier_reads: observation.extent == Extent::Part && !observation.registry.is_current(),
    }
}

/// The Services whose names no other Service gets, since the guard holds their instances. After the wait a full sync
/// lets the loss pass, and the name goes to the next claimant. The old instances stay until that Service has an
/// instance.
pub fn held_services(observation: &Observation) -> BTreeSet<ServiceRef> {
    let mut held = sightings(observation);
    held.retain(|_, sighting| match observation.extent {
        Extent::Confirmed => false,
        Extent::Part => true,
        Extent::Everything => sighting.age(observation.rules.guard, observation.now) == Age::Early,
    });
    held.into_keys().collect()
}

/// Whether the guard would hold removals of a judged plan if every registration failed. Cloud Map can refuse
/// registrations that offset a loss, so the removals wait until all were tried, and are then judged again.
pub fn depends_on_additions(observation: &Observation, plan: &Plan) -> bool {
    if observation.phase != PlanPhase::Comparison || observation.extent == Extent::Part {
        return false;
    }
    let gross = losses(observation, plan, Offset::Nothing);
    measure(observation).exceeds_limits(&circumstances(observation), &gross)
}

/// Takes the removals that the guard holds out of a finished plan, and adds the reason.
///
/// One judgement is not enough. If all 200 pods of a cluster are replaced, the first plan registers 200 instances and
/// deregisters 200, which is no loss. If Cloud Map then refuses 150 of the registrations, the removals lose 150. So
/// such a plan is judged again when its registrations are done, on the instances that each Service had before the run.
pub fn apply_guard(observation: &Observation, plan: &mut Plan) {
    let offset = match observation.phase {
        PlanPhase::Comparison => Offset::Planned,
        PlanPhase::AfterAdditions => Offset::Made,
        PlanPhase::Group => return,
    };
    let measure = measure(observation);
    let losses = losses(observation, plan, offset);
    let run = circumstances(observation);
    let sightings = sightings(observation);
    let verdict = measure.judge(&run, &losses, &sightings);
    let held = verdict.as_ref().map(|verdict| take_held(observation, verdict, plan));
    let held = held.unwrap_or_default();
    let is_held = |service: &ServiceRef| {
        verdict.as_ref().is_some_and(|verdict| verdict.held.contains_key(service))
    };
    postpone_under_kept_names(observation, is_held, plan);
    let mut without_note = BTreeSet::new();
    if measure.extent != Extent::Part {
        let notes = NoteChanges::new(observation, plan, &held);
        if let Some(verdict) = &verdict {
            without_note = add_notes(observation, verdict, &sightings, &notes, plan);
        }
        // A run that did not read everything removes no note. Nor does a run whose second judgement may hold the noted
        // loss.
        let is_final = verdict.is_some() || !depends_on_additions(observation, plan);
        if is_final && measure.unread == 0 {
            notes.remove_all(|service| !is_held(service), plan);
        }
    }
    if let Some(verdict) = verdict {
        keep_names(observation, &verdict.held, plan);
        let status = Arc::new(GuardStatus { without_note, ..verdict.status(run) });
        hold_back(&held, &status, plan);
        // A loss within the limits that waits for the next full sync needs no decision by a person.
        let waits_for_full_sync =
            status.verdict.state == GuardState::LeftToFullSync && !status.exceeds_limits();
        plan.guard = (!waits_for_full_sync).then_some(status);
    }
}

/// Takes the held removals out of a plan. If a part of a Service's loss passes, the instance with the note stays.
fn take_held(observation: &Observation, verdict: &Verdict, plan: &mut Plan) -> Vec<Change> {
    let passed = |service: &ServiceRef| verdict.passed.get(service).map_or(0, |loss| loss.lost);
    let mut may_go: BTreeMap<ServiceRef, usize> =
        verdict.held.keys().map(|service| (service.clone(), passed(service))).collect();
    let is_held = |change: &Change| {
        let Some(remaining) = change.losing_service().and_then(|service| may_go.get_mut(service))
        else {
            return false;
        };
        let passes = *remaining > 0 && !removes_note(observation, change);
        *remaining -= usize::from(passes);
        !passes
    };
    plan.take(is_held).into_iter().map(|(_, change)| change).collect()
}

/// Postpones removals under a name that is kept for a Service, if the guard no longer holds that Service. The name has
/// no holder in this run, so no claimant would be registered before the name is empty. This run removes the note, and
/// the next full sync gives the name to a claimant.
///
/// Say the guard holds the losses of shop/web, which is deleted, and of shop/cart, and shop/new claims `web`. If the
/// pods of shop/cart come back, the loss of shop/web alone is within the limits.
fn postpone_under_kept_names(
    observation: &Observation,
    is_held: impl Fn(&ServiceRef) -> bool,
    plan: &mut Plan,
) {
    let is_postponed = |change: &Change| {
        let kept_for = observation.holders.kept_for(&change.place().key);
        kept_for
            .is_some_and(|service| change.losing_service() == Some(service) && !is_held(service))
    };
    plan.postpone(is_postponed, "until the next full sync gives the name to another Service");
}

/// Plans the notes of the losses that this run is the first to see. A confirmed loss gets a note whose wait is already
/// over, on an instance that the plan removes: if the run is cut short, the next run lets the rest of the loss pass
/// too. Returns the held Services that have no room for a note.
fn add_notes(
    observation: &Observation,
    verdict: &Verdict,
    sightings: &Sightings,
    notes: &NoteChanges<'_>,
    plan: &mut Plan,
) -> BTreeSet<ServiceRef> {
    let Observation { rules, now, .. } = observation;
    let note_for = |service: &ServiceRef, loss: &Loss, first_seen| {
        SightingNote::of(&Losses::from([(service.clone(), *loss)]), first_seen)
    };
    let is_confirmed = verdict.state == GuardState::Confirmed;
    let own = instances_of(observation, |service| {
        verdict.new.contains(service) || is_confirmed && verdict.passed.contains_key(service)
    });
    let instances = |service: &ServiceRef| own.get(service).map_or(&[][..], Vec::as_slice);
    let mut without_note = BTreeSet::new();
    for service in &verdict.new {
        let note = note_for(service, &verdict.held[service], *now);
        if !notes.add(service, instances(service), &note, |at| notes.stays(at), plan) {
            without_note.insert(service.clone());
        }
    }
    if is_confirmed {
        let ripe = now.saturating_sub(rules.guard.wait).unwrap_or(*now);
        for (service, loss) in &verdict.passed {
            let is_ripe = sightings.get(service).is_some_and(|sighting| {
                sighting.age(rules.guard, *now) == Age::Ripe && sighting.left <= loss.left
            });
            if !is_ripe && loss.lost > 1 {
                let note = note_for(service, loss, ripe);
                notes.add(service, instances(service), &note, |at| notes.is_removed(at), plan);
            }
        }
    }
    without_note
}

/// Keeps the names of the held Services from others. If another Service has no instance under such a name, its
/// registrations there are held back until the loss is decided.
///
/// Say the 200 pods of shop/web seem to be gone, and shop/new claims `web` too. Without this rule clients of `web`
/// would reach the pods of shop/new, which is the kind of accident that the guard should contain.
fn keep_names(observation: &Observation, held: &Losses, plan: &mut Plan) {
    for key in observation.registry.services.keys() {
        let marked: BTreeSet<ServiceRef> = observation.marked_services(key).collect();
        let Some(holder) = marked.iter().find(|service| held.contains_key(*service)) else {
            continue;
        };
        let is_of_another = |change: &Change| {
            let (Change::Register { attributes, .. } | Change::Rewrite { attributes, .. }) = change
            else {
                return false;
            };
            let service = observation.owner.service_of(attributes);
            let is_new = |service: ServiceRef| !marked.contains(&service);
            change.place().key == *key && service.is_some_and(is_new)
        };
        let reason = Reason::DomainConflict { holder: holder.clone() };
        let mut others = BTreeSet::new();
        for (service, change) in plan.take(is_of_another) {
            plan.record_fate(&change, &reason);
            others.insert(service);
        }
        let place = Place::of(key, &observation.registry);
        for service in &others {
            plan.hold_back(service, &place, reason.clone());
        }
    }
}

impl Plan {
    /// Adds to the guard's status that the loss of these held Services could not be noted.
    pub fn without_notes(&mut self, services: BTreeSet<ServiceRef>) {
        let Some(guard) = self.guard.as_ref().filter(|guard| guard.verdict.state.holds()) else {
            return;
        };
        let mut status = GuardStatus::clone(guard);
        status.without_note.extend(services);
        let status = Arc::new(status);
        for line in &mut self.held_back {
            if let Reason::Guard { status: reported, .. } = &mut line.reason {
                *reported = status.clone();
            }
        }
        self.guard = Some(status);
    }
}

/// Adds a line for each Service and Cloud Map service with held removals.
fn hold_back(held: &[Change], status: &Arc<GuardStatus>, plan: &mut Plan) {
    let mut stay: BTreeMap<(&ServiceRef, &Place), Vec<&Change>> = BTreeMap::new();
    for change in held {
        if let Some(service) = change.losing_service() {
            stay.entry((service, change.place())).or_default().push(change);
        }
    }
    for ((service, place), changes) in stay {
        let reason = Reason::Guard { instances: changes.len(), status: status.clone() };
        for change in changes {
            plan.record_fate(change, &reason);
        }
        plan.hold_back(service, place, reason);
    }
}
