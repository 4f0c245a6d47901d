//! The report of one cluster, made from a plan and from what became of its changes.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use super::{
    ChangeLine, ChangeResult, ClusterReport, Counts, GuardReport, HeldBackLine, NoteLine, Refused,
    ServiceReport, chain,
};
use crate::apply::{Applied, Outcome};
use crate::model::ServiceRef;
use crate::plan::{Change, HeldBack, Place, Plan, Reason};

impl ClusterReport {
    /// The report of a cluster that could not be read.
    pub fn unreadable(cluster: &str, error: &dyn Error) -> Self {
        let counts = Counts { unreadable: 1, ..Counts::default() };
        Self { cluster: cluster.to_owned(), error: Some(chain(error)), counts, ..Self::default() }
    }

    /// The report of a plan that was not carried out.
    pub fn of_plan(cluster: &str, mut plan: Plan) -> Self {
        let changes = std::mem::take(&mut plan.changes);
        let planned = changes.into_iter().flat_map(|(service, changes)| {
            let applied = move |change| Applied {
                service: service.clone(),
                change,
                outcome: Outcome::Planned,
            };
            changes.into_iter().map(applied).collect::<Vec<_>>()
        });
        let planned: Vec<Applied> = planned.collect();
        Self::new(cluster, plan, planned)
    }

    /// The report of a plan and of what became of its changes.
    pub fn new(cluster: &str, plan: Plan, applied: Vec<Applied>) -> Self {
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
        for Applied { service, change, outcome } in applied {
            let result = match outcome {
                Outcome::Planned => ChangeResult::Planned,
                Outcome::Applied => ChangeResult::Applied,
                Outcome::Failed(error) => ChangeResult::Failed { error },
                Outcome::Undone(why) => ChangeResult::Undone { why },
                Outcome::HeldBack(reason) => {
                    if matches!(
                        (&change, &reason),
                        (Change::Register { .. }, Reason::InvalidInput(_))
                    ) {
                        let instance = change.instance().map(str::to_owned);
                        let refused = Refused { service: service.clone(), instance };
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
                change: change.verb().into(),
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
        let mut report = Self {
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

    /// Whether the cluster was read and every change was made. What is held back is complete: a
    /// retry would not help.
    pub fn is_complete(&self) -> bool {
        self.error.is_none() && self.counts.failed == 0 && self.counts.undone == 0
    }
}

impl ChangeLine {
    /// Whether it is still to be done.
    pub fn is_left_undone(&self) -> bool {
        matches!(self.result, ChangeResult::Failed { .. } | ChangeResult::Undone { .. })
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

/// Where the last instance of anybody was taken out, or would be, and none came.
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
