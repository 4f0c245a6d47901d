//! The report of one cluster, from a plan and the outcomes of its changes.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Place, ServiceRef};
use crate::publish::passes::{Applied, Outcome};
use crate::publish::plan::{Change, GuardStatus, HeldBack, Note, Plan, Reason};
use crate::report::{
    ChangeLine, ClusterReport, Counts, GuardReport, HeldBackLine, LosingService, NoteKind,
    NoteLine, Refused, ServiceReport,
};

/// The report of a plan that was not carried out.
pub fn of_plan(cluster: &str, mut plan: Plan) -> ClusterReport {
    let changes = std::mem::take(&mut plan.changes);
    let planned = changes.into_iter().flat_map(|(service, changes)| {
        let applied =
            move |change| Applied { service: service.clone(), change, outcome: Outcome::Planned };
        changes.into_iter().map(applied).collect::<Vec<_>>()
    });
    let planned: Vec<Applied> = planned.collect();
    of_results(cluster, plan, planned)
}

/// The report of a plan and the outcomes of its changes.
pub fn of_results(cluster: &str, plan: Plan, applied: Vec<Applied>) -> ClusterReport {
    let mut services: BTreeMap<Place, ServiceReport> = BTreeMap::new();
    let emptied = emptied(&plan, &applied);
    for (place, unchanged) in plan.unchanged {
        let service = at(&mut services, &place);
        service.unchanged = unchanged.ours;
        service.foreign = unchanged.foreign;
        service.emptied = emptied.contains(&place);
        service.unreadable = unchanged.unreadable;
        service.notes = unchanged.notes.into_iter().map(NoteLine::from).collect();
    }
    let mut held_back = plan.held_back;
    for applied in applied {
        let place = applied.change.place().clone();
        let service = at(&mut services, &place);
        let line = add(applied, service).filter(|line| !held_back.contains(line));
        held_back.extend(line);
    }
    let (placed, unplaced): (Vec<_>, Vec<_>) =
        held_back.into_iter().partition(|held_back| held_back.place.is_some());
    for line in placed {
        if let Some(place) = line.place.clone() {
            at(&mut services, &place).held_back.push(line.into());
        }
    }
    let mut report = ClusterReport {
        cluster: cluster.to_owned(),
        registry: None,
        error: None,
        counts: Counts::default(),
        guard: plan.guard.as_deref().map(GuardReport::from),
        services: services.into_values().collect(),
        held_back: unplaced.into_iter().map(HeldBackLine::from).collect(),
        warnings: Vec::new(),
        multi_cluster: None,
        whole: false,
        quiet: false,
        awaited: false,
    };
    report.counts = Counts::of(&report);
    report
}

/// Adds the outcome of a change to its Cloud Map service. Returns the line of one that is held back.
fn add(applied: Applied, report: &mut ServiceReport) -> Option<HeldBack> {
    let Applied { service, change, outcome } = applied;
    match outcome.into_result() {
        Ok(result) => {
            report.changes.push(ChangeLine {
                change: change.verb(),
                instance: change.instance().map(str::to_owned),
                service: change.marked().cloned().unwrap_or(service),
                detail: change.detail(),
                result,
            });
            None
        }
        Err(reason) => {
            if let (Change::Register { instance, .. }, Reason::InvalidInput(_)) = (&change, &reason)
            {
                let instance = Some(instance.clone());
                report.refused.push(Refused { service: service.clone(), instance });
            }
            Some(held(service, &change, reason))
        }
    }
}

fn at<'a>(
    services: &'a mut BTreeMap<Place, ServiceReport>,
    place: &Place,
) -> &'a mut ServiceReport {
    services.entry(place.clone()).or_insert_with(|| ServiceReport {
        namespace: place.namespace.clone(),
        name: place.name.clone(),
        ..ServiceReport::default()
    })
}

fn held(service: ServiceRef, change: &Change, reason: Reason) -> HeldBack {
    HeldBack { service, place: Some(change.place().clone()), reason }
}

/// The places at which the last instance of any party was removed, or would be, and none was registered.
fn emptied(plan: &Plan, applied: &[Applied]) -> BTreeSet<Place> {
    let mut differences: BTreeMap<&Place, isize> = BTreeMap::new();
    let made = |it: &&Applied| matches!(it.outcome, Outcome::Planned | Outcome::Applied);
    for Applied { change, .. } in applied.iter().filter(made) {
        *differences.entry(change.place()).or_default() += change.difference();
    }
    let unchanged = plan.unchanged.iter();
    let emptied = unchanged.filter(|(place, unchanged)| {
        let difference = differences.get(place).copied().unwrap_or_default();
        difference < 0 && unchanged.present.saturating_add_signed(difference) == 0
    });
    emptied.map(|(place, _)| place.clone()).collect()
}

impl From<Note> for NoteLine {
    fn from(note: Note) -> Self {
        let kind = match note {
            Note::Unread(_) => NoteKind::NotRead,
            Note::TtlWaits { .. } => NoteKind::Waits,
        };
        Self { note: kind, detail: note.to_string() }
    }
}

impl From<HeldBack> for HeldBackLine {
    fn from(held_back: HeldBack) -> Self {
        let HeldBack { service, reason, .. } = held_back;
        let keeps_out = reason.keeps_out() && reason.concerns_owner();
        let (code, failed) = (reason.code(), reason.is_failure());
        Self { service, reason: code.into(), detail: reason.to_string(), failed, keeps_out }
    }
}

impl From<&GuardStatus> for GuardReport {
    fn from(status: &GuardStatus) -> Self {
        let services = status
            .losses
            .iter()
            .map(|loss| LosingService { service: loss.service.clone(), instances: loss.instances });
        Self {
            state: status.state,
            loss: status.loss,
            instances: status.instances,
            share: status.share,
            minimum: status.minimum,
            first_seen: status.first_seen.map(|time| time.to_string()),
            later_look: status.later_look,
            lifts_from: status.lifts_from.map(|time| time.to_string()),
            services: services.collect(),
            detail: status.to_string(),
        }
    }
}
