//! The report of one cluster, from a plan and from the outcomes of its changes.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Place, ServiceRef};
use crate::passes::{Applied, Outcome};
use crate::plan::{Change, HeldBack, Note, Plan, Reason, Stand, Told};
use crate::report::{
    ChangeLine, ClusterReport, Counts, GuardReport, GuardState, HeldBackLine, LosingService,
    NoteKind, NoteLine, Refused, ServiceReport,
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

/// The report of a plan and of what became of its changes.
pub fn of_results(cluster: &str, plan: Plan, applied: Vec<Applied>) -> ClusterReport {
    let mut services: BTreeMap<Place, ServiceReport> = BTreeMap::new();
    let emptied = emptied(&plan, &applied);
    for (place, standing) in plan.standing {
        let service = at(&mut services, &place);
        service.unchanged = standing.unchanged;
        service.foreign = standing.foreign;
        service.emptied = emptied.contains(&place);
        service.unreadable = standing.unreadable;
        service.notes = standing.notes.into_iter().map(NoteLine::from).collect();
    }
    let mut held_back = plan.held_back;
    for Applied { service, change, outcome } in applied {
        let result = match outcome.into_result() {
            Ok(result) => result,
            Err(reason) => {
                if let (Change::Register { instance, .. }, Reason::InvalidInput(_)) =
                    (&change, &reason)
                {
                    let refused =
                        Refused { service: service.clone(), instance: Some(instance.clone()) };
                    at(&mut services, change.place()).refused.push(refused);
                }
                let line = held(service, &change, reason);
                if !held_back.contains(&line) {
                    held_back.push(line);
                }
                continue;
            }
        };
        at(&mut services, change.place()).changes.push(ChangeLine {
            change: change.verb(),
            instance: change.instance().map(str::to_owned),
            service: change.marked().cloned().unwrap_or(service),
            detail: change.detail(),
            result,
        });
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
        whole: false,
    };
    report.counts = Counts::of(&report);
    report
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

/// Where the last instance of anybody was taken out, or would be, and none came.
fn emptied(plan: &Plan, applied: &[Applied]) -> BTreeSet<Place> {
    let mut differences: BTreeMap<&Place, isize> = BTreeMap::new();
    let made = |it: &&Applied| matches!(it.outcome, Outcome::Planned | Outcome::Applied);
    for Applied { change, .. } in applied.iter().filter(made) {
        *differences.entry(change.place()).or_default() += change.difference();
    }
    let standing = plan.standing.iter();
    let emptied = standing.filter(|(place, standing)| {
        let difference = differences.get(place).copied().unwrap_or_default();
        difference < 0 && standing.present.saturating_add_signed(difference) == 0
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

impl From<&Told> for GuardReport {
    fn from(told: &Told) -> Self {
        let services = told.losing.iter().map(|losing| LosingService {
            service: losing.service.clone(),
            instances: losing.instances,
        });
        Self {
            state: told.stand.into(),
            loss: told.loss,
            instances: told.instances,
            share: told.share,
            minimum: told.minimum,
            first_seen: told.first_seen.map(|time| time.to_string()),
            later_look: told.later_look,
            lifts_from: told.lifts_from.map(|time| time.to_string()),
            services: services.collect(),
            detail: told.to_string(),
        }
    }
}

impl From<Stand> for GuardState {
    fn from(stand: Stand) -> Self {
        match stand {
            Stand::Held => Self::Held,
            Stand::Lifted => Self::Lifted,
            Stand::Confirmed => Self::Confirmed,
            Stand::LeftToFullSync => Self::LeftToFullSync,
            Stand::HeldByFullSync => Self::HeldByFullSync,
            Stand::HeldUntilRead => Self::HeldUntilRead,
        }
    }
}
