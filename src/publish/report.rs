//! The report of one cluster, from a plan and the outcomes of its changes.

use std::collections::{BTreeMap, BTreeSet};

use super::lines::{Lines, LinesAt};
use crate::model::Place;
use crate::publish::passes::{Applied, Outcome};
use crate::publish::plan::{GuardStatus, HeldBack, MendedBy, Note, Observation, Plan};
use crate::report::{
    ClusterReport, Counts, GuardReport, HeldBackLine, LosingService, NoteKind, NoteLine,
    ServiceReport,
};

/// The report of a plan that was not carried out.
pub fn of_plan(cluster: &str, mut plan: Plan) -> ClusterReport {
    let changes = std::mem::take(&mut plan.changes);
    let planned = changes.into_iter().flat_map(|(service, changes)| {
        let outcome = Outcome::Planned;
        let planned =
            move |change| Applied { service: service.clone(), change, outcome: outcome.clone() };
        changes.into_iter().map(planned)
    });
    let lines = planned.collect();
    of_results(cluster, plan, lines)
}

/// The report with the age of the reads that it rests on.
pub fn with_reads(report: ClusterReport, observation: &Observation) -> ClusterReport {
    let oldest = observation.registry.oldest_read();
    let age = oldest.map(|oldest| observation.now.as_second() - oldest.as_second());
    let oldest_read = usize::try_from(age.unwrap_or_default()).unwrap_or_default();
    ClusterReport { unread: observation.registry.never_read(), oldest_read, ..report }
}

/// The report of a plan and the outcomes of its changes.
pub fn of_results(cluster: &str, plan: Plan, lines: Lines) -> ClusterReport {
    let mut services: BTreeMap<Place, ServiceReport> = BTreeMap::new();
    for (place, unchanged) in plan.unchanged {
        let service = at(&mut services, &place);
        service.emptied = is_emptied(unchanged.present, lines.at(&place));
        service.unchanged = unchanged.ours;
        service.foreign = unchanged.foreign;
        service.unreadable = unchanged.unreadable;
        service.notes = unchanged.notes.into_iter().map(NoteLine::from).collect();
    }
    let mut held_back = plan.held_back;
    let mut refusals = BTreeSet::new();
    for (place, mut lines) in lines {
        let service = at(&mut services, &place);
        service.refused = std::mem::take(&mut lines.refused);
        let (changes, refused) = lines.into_lines();
        service.changes = changes.collect();
        service.changes.shrink_to_fit();
        for line in refused {
            if held_back.binary_search(&line).is_err() {
                refusals.insert(line);
            }
        }
    }
    held_back.extend(refusals);
    let (placed, unplaced): (Vec<_>, Vec<_>) =
        held_back.into_iter().partition(|held_back| held_back.place.is_some());
    for line in placed {
        if let Some(place) = line.place.clone() {
            at(&mut services, &place).held_back.push(line.into());
        }
    }
    let mut report = ClusterReport {
        cluster: cluster.to_owned(),
        guard: plan.guard.as_deref().map(GuardReport::from),
        services: services.into_values().collect(),
        held_back: unplaced.into_iter().map(HeldBackLine::from).collect(),
        ..ClusterReport::default()
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

/// Whether the last instance of any party was removed from a name, or would be, and none was registered.
fn is_emptied(present: usize, lines: Option<&LinesAt>) -> bool {
    let difference = lines.map_or(0, |lines| lines.difference);
    difference < 0 && present.saturating_add_signed(difference) == 0
}

impl From<Note> for NoteLine {
    fn from(note: Note) -> Self {
        let kind = match note {
            Note::Unread { .. } => NoteKind::NotRead,
            Note::TtlWaits { .. } => NoteKind::Waits,
        };
        Self { note: kind, detail: note.to_string() }
    }
}

impl From<HeldBack> for HeldBackLine {
    fn from(held_back: HeldBack) -> Self {
        let HeldBack { service, reason, .. } = held_back;
        let keeps_out = reason.keeps_out() && reason.mended_by() == MendedBy::Owner;
        let (code, failed) = (reason.code(), reason.mended_by() == MendedBy::Retry);
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
