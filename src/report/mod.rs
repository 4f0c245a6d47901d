//! The report of a run: the changes that the run made or would make, and the reasons for the others. The JSON response
//! to a direct invocation is a serialised report, which the kubectl plugin parses. `table` formats a report as text,
//! and `metrics` as CloudWatch metrics. This module has no side effects; `function` writes the log.

mod cluster;
pub mod metrics;
mod table;

use std::fmt::{self, Display, Formatter};
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::model::{Line, Traffic, words};

pub use crate::model::Word;
pub use cluster::{Counts, GuardReport, LosingService, MultiClusterReport, ServiceReport};
pub use table::count;

/// The release of the function, in the answer to a direct invocation.
pub const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// The result of one invocation.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether the run changes Cloud Map or only plans.
    pub mode: Mode,
    /// Whether the run covered every Service of every configured cluster.
    pub whole: bool,
    /// The scope that a direct invocation names, such as `blue/shop/web`. `None` for any other run.
    pub scope: Option<String>,
    /// A remark on the settings, which the summary line of a requested plan ends with. `None` for any other run.
    pub remark: Option<Word>,
    /// Whether everything requested was read, and every change was made.
    pub ok: bool,
    /// The sum over all clusters.
    pub counts: Counts,
    /// The clusters, in the order of the settings.
    pub clusters: Vec<ClusterReport>,
    /// The orphans, by cluster. Only a full sync counts them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphans: Vec<OrphanReport>,
    /// The messages without a valid scope. A retry does not help, so they are not delivered again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Dropped>,
    /// The sentence about where the lines are. `None` unless the report was too large for a Lambda response.
    pub cut: Option<String>,
    /// The calls to Cloud Map, for the metrics.
    #[serde(skip)]
    pub traffic: Traffic,
    /// The age of the oldest drift, for the metrics.
    #[serde(skip)]
    pub oldest: OldestOutOfStep,
}

/// The age of the oldest drift in seconds. 0 without drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldestOutOfStep {
    /// The age of the oldest endpoint that is ready and not registered.
    pub missing: usize,
    /// The age of the oldest endpoint that is gone and still registered.
    pub leftover: usize,
}

/// A message without a valid scope.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Dropped {
    /// The message's id.
    pub message: String,
    /// The reason's stable code.
    pub reason: Word,
    /// The expected content. It never repeats the content of the message.
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
    /// The cluster's ARN.
    pub cluster: String,
    /// The cluster's Cloud Map. `None` for the default Cloud Map.
    pub registry: Option<String>,
    /// The error if the cluster or its registry could not be read. `services` then has the additions that were made
    /// before the error. Nothing else was changed.
    pub error: Option<String>,
    /// The counts of all lines.
    pub counts: Counts,
    /// The guard's verdict. `None` unless a loss exceeds its limits.
    pub guard: Option<GuardReport>,
    /// The Cloud Map services.
    pub services: Vec<ServiceReport>,
    /// The lines that belong to no Cloud Map service: held-back requests, and warnings to read before a confirmation.
    pub lines: Vec<Line>,
    /// The number of Cloud Map services with instances that this process has not had the time to read yet.
    #[serde(skip_serializing_if = "cluster::is_zero")]
    pub unread: usize,
    /// The number of unread services under names that Services of the cluster hold. A full sync is incomplete until
    /// they are read.
    #[serde(skip_serializing_if = "cluster::is_zero")]
    pub unread_names: usize,
    /// The age in seconds of the oldest read by an earlier run that this report uses. 0 if the run read everything
    /// itself.
    #[serde(skip_serializing_if = "cluster::is_zero")]
    pub oldest_read: usize,
    /// The cluster as a member of a clusterset. `None` if it takes part in none.
    pub multi_cluster: Option<MultiClusterReport>,
    /// Whether the run covered every Service of the cluster, for the metrics.
    #[serde(skip)]
    pub whole: bool,
    /// Whether the faults of the cluster are left out of the metrics of alarms that page (`page: false`).
    #[serde(skip)]
    pub quiet: bool,
}

impl Report {
    pub fn new(mode: Mode, clusters: Vec<ClusterReport>) -> Self {
        let counts = clusters.iter().map(|cluster| cluster.counts).sum();
        let ok = clusters.iter().all(ClusterReport::is_complete);
        Self { mode, ok, counts, clusters, ..Self::default() }
    }

    /// Adds the orphans.
    #[must_use]
    pub fn with_orphans(self, orphans: Vec<OrphanReport>) -> Self {
        let orphaned = orphans.iter().map(|orphans| orphans.instances).sum();
        Self { counts: Counts { orphaned, ..self.counts }, orphans, ..self }
    }
}

// The size limit of a response: Lambda rejects a response of more than 6 MB. A larger report is cut to its counts, and
// to a sentence about where its lines are.

/// The largest response in bytes, below Lambda's limit of 6 MB.
const MAX_RESPONSE_BYTES: usize = 5_000_000;

/// Calls `keep_only_counts` on a response that Lambda would reject as too large.
pub fn cut_if_too_large<T: Serialize>(answer: &mut T, keep_only_counts: fn(&mut T)) {
    let mut length = ByteCounter(0);
    let is_written = serde_json::to_writer(&mut length, answer).is_ok();
    if !is_written || length.0 > MAX_RESPONSE_BYTES {
        keep_only_counts(answer);
    }
}

/// Counts the bytes of a response without holding them in memory.
struct ByteCounter(usize);

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Report {
    /// Cuts the report to the counts of each cluster and the guard's verdicts.
    pub fn keep_only_counts(&mut self) {
        for cluster in &mut self.clusters {
            cluster.services.clear();
            cluster.lines.clear();
            let member = cluster.multi_cluster.as_mut();
            let guards = [cluster.guard.as_mut(), member.and_then(|member| member.guard.as_mut())];
            guards.into_iter().flatten().for_each(|guard| guard.services.clear());
            if let Some(member) = &mut cluster.multi_cluster {
                *member = member.counts();
            }
        }
        self.orphans.clear();
        self.dropped.clear();
        // A purge and a confirmation are about a whole cluster.
        let sentence = "the report is too large for a Lambda response, so it has only the counts: read its lines in the \
                        function's log, or select a cluster, a namespace or a Service if the action takes one";
        self.cut = Some(sentence.to_owned());
    }
}

/// The orphans of one cluster in one Cloud Map: the cluster is not configured for this Cloud Map.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OrphanReport {
    /// The cluster's ARN.
    pub cluster: String,
    /// The Cloud Map. `None` for the default Cloud Map.
    pub registry: Option<String>,
    /// The number of instances.
    pub instances: usize,
    /// A sentence with the names of the Cloud Map services that have the instances, and the command that purges them.
    pub detail: String,
}

impl OrphanReport {
    /// Returns the cluster, and the Cloud Map if it is not the function's own.
    fn heading(&self) -> String {
        heading(&self.cluster, self.registry.as_deref())
    }
}

fn heading(cluster: &str, registry: Option<&str>) -> String {
    let registry = registry.map(|registry| format!(" (Cloud Map {registry})")).unwrap_or_default();
    format!("{cluster}{registry}")
}

impl Display for OrphanReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "orphans of cluster {}", self.heading())?;
        writeln!(f, "  ! orphans    {}", self.detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{GuardState, Outcome, ServiceRef, Verb};

    /// Returns a report with a number of services, and a loss that the guard holds.
    fn report(services: usize) -> Report {
        let change = |number: usize| {
            let text = format!("10.0.0.1 port 8080 (pod web-7f9c6d5b8-{number})");
            let line = Line::new('+', Verb::Register.as_str(), text, Outcome::Planned);
            line.about(ServiceRef::new("shop", format!("web-{number}")))
        };
        let service = |number: usize| ServiceReport {
            namespace: "shop.local".to_owned(),
            name: format!("web-{number:06}"),
            lines: vec![change(number)],
            ..ServiceReport::default()
        };
        let services = (0..services).map(service).collect();
        let counts = Counts { registered: 100_000, ..Counts::default() };
        let guard = GuardReport {
            state: GuardState::Held,
            loss: 20,
            instances: 30,
            share: 50,
            minimum: 10,
            first_seen: None,
            needs_operator: false,
            lifts_from: None,
            services: vec![LosingService {
                service: ServiceRef::new("shop", "web"),
                instances: 20,
            }],
            detail: "20 of 30 instances stay".to_owned(),
        };
        let cluster = "blue".to_owned();
        let guard = Some(guard);
        let cluster =
            ClusterReport { cluster, counts, guard, services, ..ClusterReport::default() };
        Report::new(Mode::Plan, vec![cluster])
    }

    /// A cluster has a verdict for each flow. The guard holds the loss of one flow until a service is read, and the
    /// loss of the other flow, which an earlier full sync already saw.
    #[test]
    fn verdict_that_holds_a_loss_comes_first_of_both_flows() {
        let verdict = |state, needs_operator| {
            let mut cluster = report(1).clusters.remove(0);
            let guard = cluster.guard.as_mut().expect("a verdict");
            (guard.state, guard.needs_operator) = (state, needs_operator);
            guard.detail = format!("{state}");
            cluster
        };
        let unread = || verdict(GuardState::HeldUntilRead, false);
        let held = || verdict(GuardState::Held, true);
        for both in [unread().with(held()), held().with(unread())] {
            let guard = both.guard.expect("a verdict");
            assert_eq!(
                (guard.state, guard.loss, guard.needs_operator),
                (GuardState::Held, 20, true)
            );
            assert_eq!(guard.detail, "held; held-until-read");
        }
        let guard = verdict(GuardState::Held, false).with(held()).guard.expect("a verdict");
        assert_eq!((guard.loss, guard.needs_operator, guard.services.len()), (40, true, 2));
    }

    #[test]
    fn a_report_that_fits_is_not_cut() {
        let mut report = report(100);
        cut_if_too_large(&mut report, Report::keep_only_counts);
        assert_eq!((&report.cut, report.clusters[0].services.len()), (&None, 100));
    }

    #[test]
    fn a_report_that_is_too_large_has_the_counts_and_the_verdicts_of_the_guard() {
        let mut report = report(100_000);
        let mut guard = report.clusters[0].guard.clone().expect("a verdict");
        guard.detail = "20 of 30 endpoints stay".to_owned();
        let imports =
            MultiClusterReport { imports: 7, guard: Some(guard), ..MultiClusterReport::default() };
        report.clusters[0].multi_cluster = Some(imports);
        cut_if_too_large(&mut report, Report::keep_only_counts);
        insta::assert_snapshot!(report, @r"
        cluster blue
          100000 to register
          ! guard      held: 20 of 30 instances stay
          ! guard      held: 20 of 30 endpoints stay
        ! the report is too large for a Lambda response, so it has only the counts: read its lines in the function's log, or select a cluster, a namespace or a Service if the action takes one
        plan: 100000 to register
        ");
        assert_eq!(report.clusters[0].multi_cluster.as_ref().map(|member| member.imports), Some(7));
        assert_eq!(report.clusters[0].guard.as_ref().map(|guard| guard.services.len()), Some(0));
    }
}
