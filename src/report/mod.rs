//! Report: what a run did or would do, as one value. It serialises as the JSON answer of a direct
//! invocation and prints itself as the plan table (`table`). Pure; the handler logs it.

mod counts;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::error::Error;

use serde::Serialize;

use crate::apply::{Applied, Outcome};
use crate::model::{Selection, ServiceRef};
use crate::plan::{Change, Foreign, HeldBack, Place, Plan, Reason};

pub use counts::Counts;

/// What one invocation did.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether Cloud Map was to be changed, or only a plan made.
    pub mode: Mode,
    /// Whether everything that was asked for could be read, and every change was made.
    pub ok: bool,
    /// The sum over all clusters.
    pub counts: Counts,
    /// By cluster, in the order of the settings.
    pub clusters: Vec<ClusterReport>,
    /// Messages of a batch that name nothing to look at. A retry could not help, so they are not
    /// delivered again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Dropped>,
}

/// A message that names nothing to look at.
#[derive(Clone, Debug, Serialize)]
pub struct Dropped {
    /// Its id.
    pub message: String,
    /// The reason's stable name.
    pub reason: &'static str,
    /// What would be right; never what the message says.
    pub detail: String,
}

/// Whether Cloud Map was to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Changes were made.
    Sync,
    /// A person asked for the plan.
    Plan,
    /// A sync, held to its plan by `DRY_RUN`.
    DryRun,
}

/// What was done for one cluster.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// Its ARN, or its name where EKS did not tell the ARN.
    pub cluster: String,
    /// Why it or its registry could not be read; then nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The sum over all lines.
    pub counts: Counts,
    /// By Cloud Map service.
    pub services: Vec<ServiceReport>,
    /// What is held back before it comes to any Cloud Map service.
    pub held_back: Vec<HeldBackLine>,
}

/// What was done in one Cloud Map service.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceReport {
    /// The Cloud Map namespace's name.
    pub namespace: String,
    /// The Cloud Map service's name.
    pub name: String,
    /// Instances of ours that are as they should be.
    pub unchanged: usize,
    /// Instances of others, left alone.
    pub foreign: BTreeMap<Foreign, usize>,
    /// Every change.
    pub changes: Vec<ChangeLine>,
    /// What is held back.
    pub held_back: Vec<HeldBackLine>,
}

/// One change.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeLine {
    /// `create`, `register`, `rewrite` or `deregister`.
    pub change: &'static str,
    /// The instance; none: the Cloud Map service itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The Kubernetes Service it is registered for.
    pub service: ServiceRef,
    /// Address and pod, what differs, or why it goes.
    pub detail: String,
    /// What became of it.
    #[serde(flatten)]
    pub result: ChangeResult,
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum ChangeResult {
    /// Not tried: a plan or a dry run.
    Planned,
    /// Done.
    Applied,
    /// Tried, and failed.
    Failed {
        /// The error with its cause.
        error: String,
    },
    /// Not tried.
    Undone {
        /// Why.
        why: String,
    },
}

/// Something held back.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldBackLine {
    /// The Kubernetes Service that asks.
    pub service: ServiceRef,
    /// The reason's stable name.
    pub reason: &'static str,
    /// What would help.
    pub detail: String,
    /// Whether a retry may help, so that the run is incomplete.
    pub failed: bool,
}

impl From<HeldBack> for HeldBackLine {
    fn from(held_back: HeldBack) -> Self {
        let HeldBack { service, reason, .. } = held_back;
        let (code, detail) = (reason.code(), reason.to_string());
        Self { service, reason: code, detail, failed: reason.is_failure() }
    }
}

impl Report {
    /// The report over clusters.
    pub fn new(mode: Mode, clusters: Vec<ClusterReport>) -> Self {
        let counts = clusters.iter().map(|cluster| cluster.counts).sum();
        let ok = clusters.iter().all(ClusterReport::is_complete);
        Self { mode, ok, counts, clusters, dropped: Vec::new() }
    }
}

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
        for (place, standing) in plan.standing {
            let service = at(&mut services, &place);
            service.unchanged = standing.unchanged;
            service.foreign = standing.foreign;
        }
        let mut held_back = plan.held_back;
        for Applied { service, change, outcome } in applied {
            let result = match outcome {
                Outcome::Planned => ChangeResult::Planned,
                Outcome::Applied => ChangeResult::Applied,
                Outcome::Failed(error) => ChangeResult::Failed { error },
                Outcome::Undone(why) => ChangeResult::Undone { why },
                Outcome::HeldBack(reason) => {
                    held_back.push(held(service, &change, reason));
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
        let mut report = Self {
            cluster: cluster.to_owned(),
            error: None,
            counts: Counts::default(),
            services: services.into_values().collect(),
            held_back: unplaced.into_iter().map(HeldBackLine::from).collect(),
        };
        report.counts = Counts::of(&report);
        report
    }

    /// Whether the cluster was read and every change was made. What is held back is complete: a
    /// retry would not help.
    pub fn is_complete(&self) -> bool {
        self.error.is_none() && self.counts.failed == 0 && self.counts.undone == 0
    }

    /// Whether all that was to be done for the selected Services is done, as far as a retry could
    /// help.
    pub fn is_complete_for(&self, selection: &Selection) -> bool {
        let changes = self.services.iter().flat_map(|service| &service.changes);
        let mut open = changes.filter(|line| {
            let result = &line.result;
            matches!(result, ChangeResult::Failed { .. } | ChangeResult::Undone { .. })
        });
        let held_back = self.services.iter().flat_map(|service| &service.held_back);
        let mut failed = held_back.filter(|line| line.failed);
        self.error.is_none()
            && !open.any(|line| selection.contains(&line.service))
            && !failed.any(|line| selection.contains(&line.service))
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

/// An error with all its causes, in one line. A cause that the text before it has said already is
/// not said again: some libraries repeat their sources.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
