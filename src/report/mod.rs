//! Report: what a run did or would do, as one value. It serialises as the JSON answer of a direct
//! invocation, prints itself as the plan table (`table`) and counts itself for CloudWatch (`metrics`). The plugin of
//! kubectl reads that JSON back. Pure; the handler logs it.

mod cluster;
mod counts;
mod empty;
mod guard;
mod line;
pub mod metrics;
mod orphans;
mod size;
mod table;
mod unfinished;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::model::Traffic;

pub use counts::Counts;
pub use empty::{Deletion, EmptyServices};
pub use guard::{GuardReport, LosingService};
pub use line::{
    ChangeLine, ChangeResult, HeldBackLine, NoteKind, NoteLine, Refused, ServiceReport,
};
pub use orphans::OrphanReport;
pub use size::{Shorten, within_limit};
pub use unfinished::Unfinished;

/// One of a few words that stand in a report: the code's own, or as they were read from an answer.
pub type Word = Cow<'static, str>;

/// What one invocation did.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether Cloud Map was to be changed, or only a plan made.
    pub mode: Mode,
    /// Whether it was about every Service of every configured cluster.
    pub whole: bool,
    /// Whether everything that was asked for could be read, and every change was made.
    pub ok: bool,
    /// The sum over all clusters.
    pub counts: Counts,
    /// By cluster, in the order of the settings.
    pub clusters: Vec<ClusterReport>,
    /// What became of services that nobody needs, where they are looked for.
    #[serde(default, skip_serializing_if = "EmptyServices::is_empty")]
    pub empty_services: EmptyServices,
    /// What clusters left behind that are not kept in step any more; a full sync looks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphans: Vec<OrphanReport>,
    /// Messages of a batch that name nothing to look at. A retry could not help, so they are not
    /// delivered again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Dropped>,
    /// What is left out, if the whole report is too large for Lambda's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    /// What it took of Cloud Map's rates: for the metrics.
    #[serde(skip)]
    pub traffic: Traffic,
    /// How long endpoints have been out of step: for the metrics.
    #[serde(skip)]
    pub oldest: OldestOutOfStep,
}

/// For how many seconds the oldest endpoint is out of step; none is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldestOutOfStep {
    /// Of those that are ready and not registered.
    pub missing: usize,
    /// Of those that are gone and still registered.
    pub leftover: usize,
}

/// A message that names nothing to look at.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Dropped {
    /// Its id.
    pub message: String,
    /// The reason's stable name.
    pub reason: Word,
    /// What would be right; never what the message says.
    pub detail: String,
}

/// Whether Cloud Map was to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterReport {
    /// Its ARN, or its name where EKS did not tell the ARN.
    pub cluster: String,
    /// Which Cloud Map was looked into, where it is not the one that goes without saying.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// Why it or its registry could not be read; then nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The sum over all lines.
    pub counts: Counts,
    /// What the guard says, where a loss is past its limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardReport>,
    /// By Cloud Map service.
    pub services: Vec<ServiceReport>,
    /// What is held back before it comes to any Cloud Map service.
    pub held_back: Vec<HeldBackLine>,
    /// What a person should know before they let it be done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Whether the run was about every Service of the cluster: for the metrics.
    #[serde(skip)]
    pub whole: bool,
}

impl Report {
    /// The report over clusters.
    pub fn new(mode: Mode, clusters: Vec<ClusterReport>) -> Self {
        let counts = clusters.iter().map(|cluster| cluster.counts).sum();
        let ok = clusters.iter().all(ClusterReport::is_complete);
        let (dropped, orphans, cut) = (Vec::new(), Vec::new(), None);
        let empty_services = EmptyServices::default();
        let (traffic, oldest) = Default::default();
        Self {
            mode,
            whole: false,
            ok,
            counts,
            clusters,
            empty_services,
            orphans,
            dropped,
            cut,
            traffic,
            oldest,
        }
    }

    /// The same report with what clusters left behind.
    #[must_use]
    pub fn with_orphans(mut self, orphans: Vec<OrphanReport>) -> Self {
        let counts = orphans.iter().map(OrphanReport::counts);
        self.counts = counts.fold(self.counts, |sum, counts| sum + counts);
        self.ok &= orphans.iter().all(|orphans| orphans.done.is_complete());
        Self { orphans, ..self }
    }
}
