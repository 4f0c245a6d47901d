//! The report of a run: the changes that it made or would make, as one value. It serialises as the JSON response to a
//! direct invocation, prints as a table (`table`) and becomes CloudWatch metrics (`metrics`). The plugin of kubectl
//! parses that JSON. Pure; `function` logs it.

mod cleanup;
mod cluster;
mod counts;
pub mod metrics;
mod multi_cluster;
mod size;
mod table;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::model::{Traffic, words};

pub use cleanup::{Deletion, EmptyServices, OrphanReport};
pub use cluster::{
    ChangeLine, GuardReport, HeldBackLine, InvalidRegistration, LosingService, NoteKind, NoteLine,
    ServiceReport, Unfinished,
};
pub use counts::Counts;
pub use multi_cluster::{
    ClustersetLine, ImportLine, MultiClusterReport, Obstacle, StaleCluster, count,
};
pub use size::{Shorten, within_limit};

/// The release of the function, in the answer to a direct invocation.
pub const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// A word of a closed set: a constant of this crate, or text parsed from a response.
pub type Word = Cow<'static, str>;

/// The result of one invocation.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether the run changes Cloud Map or only plans.
    pub mode: Mode,
    /// Whether the run covered every Service of every configured cluster.
    pub whole: bool,
    /// The scope that a direct invocation names, such as `blue/shop/web`.
    pub scope: Option<String>,
    /// Whether the run made only the changes that rest on the claims of all clusters (`cleanup`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleanup: bool,
    /// A remark on the settings, at the end of the last line. Only a requested plan has one.
    pub remark: Option<Word>,
    /// Whether everything requested was read, and every change was made.
    pub ok: bool,
    /// The sum over all clusters.
    pub counts: Counts,
    /// The clusters, in the order of the settings.
    pub clusters: Vec<ClusterReport>,
    /// The deletion of our empty Cloud Map services, if it is enabled.
    #[serde(default, skip_serializing_if = "EmptyServices::is_empty")]
    pub empty_services: EmptyServices,
    /// The instances of clusters that are gone or no longer configured. Only a full sync lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphans: Vec<OrphanReport>,
    /// Messages of a batch without a valid scope. A retry does not help, so they are not delivered again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Dropped>,
    /// The part that is left out, if the report is too large for a Lambda response.
    pub cut: Option<String>,
    /// The calls to Cloud Map, for the metrics.
    #[serde(skip)]
    pub traffic: Traffic,
    /// The age of the oldest drift, for the metrics.
    #[serde(skip)]
    pub oldest: OldestOutOfStep,
}

/// The age of the oldest drift in seconds; 0 without drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldestOutOfStep {
    /// The oldest endpoint that is ready and not registered.
    pub missing: usize,
    /// The oldest endpoint that is gone and still registered.
    pub leftover: usize,
}

/// A message without a valid scope.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Dropped {
    /// The message's id.
    pub message: String,
    /// The reason's stable code.
    pub reason: Word,
    /// The expected content. It never repeats the message.
    pub detail: String,
}

words! {
    /// Whether a run changes Cloud Map.
    #[derive(Default)]
    pub enum Mode {
        /// Changes were made.
        #[default]
        Sync = "sync",
        /// A plan was requested.
        Plan = "plan",
        /// A sync that `DRY_RUN` limits to its plan.
        DryRun = "dry-run",
    }
}

/// The result of one cluster.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterReport {
    /// Its ARN, or its name if EKS did not return the ARN.
    pub cluster: String,
    /// Its Cloud Map, if that is not the default one.
    pub registry: Option<String>,
    /// The error that kept it or its registry from being read. Nothing was changed then.
    pub error: Option<String>,
    /// The sum over all lines.
    pub counts: Counts,
    /// The guard's verdict, if a loss exceeds its limits.
    pub guard: Option<GuardReport>,
    /// The Cloud Map services.
    pub services: Vec<ServiceReport>,
    /// The held-back requests that belong to no Cloud Map service.
    pub held_back: Vec<HeldBackLine>,
    /// Warnings to read before a confirmation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The Cloud Map services with instances that this process has not had the time to read yet.
    #[serde(skip_serializing_if = "counts::is_zero")]
    pub unread: usize,
    /// The age in seconds of the oldest read of a Cloud Map service, if a run has not had the time to read all.
    #[serde(skip_serializing_if = "counts::is_zero")]
    pub oldest_read: usize,
    /// Its part in a clusterset, if it takes one.
    pub multi_cluster: Option<MultiClusterReport>,
    /// Whether the run covered every Service of the cluster, for the metrics.
    #[serde(skip)]
    pub whole: bool,
    /// Whether its faults are left out of the metrics of the alarms that page (`page: false`).
    #[serde(skip)]
    pub quiet: bool,
    /// Whether a run that queues clusters (`FAN_OUT`) expects to hear of the end of this one.
    #[serde(skip)]
    pub awaited: bool,
}

impl Report {
    /// A report of these clusters.
    pub fn new(mode: Mode, clusters: Vec<ClusterReport>) -> Self {
        let counts = clusters.iter().map(|cluster| cluster.counts).sum();
        let ok = clusters.iter().all(ClusterReport::is_complete);
        Self { mode, ok, counts, clusters, ..Self::default() }
    }

    /// Adds the orphans.
    #[must_use]
    pub fn with_orphans(mut self, orphans: Vec<OrphanReport>) -> Self {
        let counts = orphans.iter().map(|orphans| orphans.done.counts);
        self.counts = counts.fold(self.counts, |sum, counts| sum + counts);
        self.ok &= orphans.iter().all(|orphans| orphans.done.is_complete());
        Self { orphans, ..self }
    }
}
