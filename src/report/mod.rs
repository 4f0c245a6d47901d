//! The report of a run: the changes that it made or would make, as one value. It serialises as the JSON response to a
//! direct invocation, prints as a table (`table`) and becomes CloudWatch metrics (`metrics`). The plugin of kubectl
//! parses that JSON. Pure; `function` logs it.

mod cluster;
pub mod metrics;
mod table;

use std::fmt::{self, Display, Formatter};
use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::{Traffic, words};

pub use cluster::{
    ChangeLine, ClustersetLine, Counts, GuardReport, HeldBackLine, ImportLine, InvalidRegistration,
    LosingService, MultiClusterReport, Obstacle, ServiceReport, StaleCluster,
};
pub use table::count;

/// The release of the function, in the answer to a direct invocation.
pub const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// A word of a closed set: a constant of this crate, or text parsed from a response.
pub type Word = std::borrow::Cow<'static, str>;

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
    /// A remark on the settings, at the end of the last line. Only a requested plan has one.
    pub remark: Option<Word>,
    /// Whether everything requested was read, and every change was made.
    pub ok: bool,
    /// The sum over all clusters.
    pub counts: Counts,
    /// The clusters, in the order of the settings.
    pub clusters: Vec<ClusterReport>,
    /// The instances of clusters that are not configured for their Cloud Map. Only a full sync counts them.
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
    /// Its ARN.
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
    #[serde(skip_serializing_if = "cluster::is_zero")]
    pub unread: usize,
    /// The age in seconds of the oldest read of a Cloud Map service, if a run has not had the time to read all.
    #[serde(skip_serializing_if = "cluster::is_zero")]
    pub oldest_read: usize,
    /// Its part in a clusterset, if it takes one.
    pub multi_cluster: Option<MultiClusterReport>,
    /// Whether the run covered every Service of the cluster, for the metrics.
    #[serde(skip)]
    pub whole: bool,
    /// Whether its faults are left out of the metrics of the alarms that page (`page: false`).
    #[serde(skip)]
    pub quiet: bool,
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
    pub fn with_orphans(self, orphans: Vec<OrphanReport>) -> Self {
        let orphaned = orphans.iter().map(|orphans| orphans.instances).sum();
        Self { counts: Counts { orphaned, ..self.counts }, orphans, ..self }
    }
}

// The size limit of a response: Lambda rejects one of more than 6 MB. Longer lists are shortened until the response
// fits, and the response names the part that is left out.

/// Below Lambda's limit of 6 MB for a response.
const LARGEST_ANSWER: usize = 5_000_000;

/// A response with lists that can be shortened.
pub trait Shorten: Serialize {
    /// The length of the longest list.
    fn longest(&self) -> usize;
    /// Keeps the given number of entries of each list, the most important first, and records the cut.
    fn shorten(&mut self, entries: usize);

    /// Shortens the response until Lambda accepts it.
    fn fit(&mut self) {
        let mut entries = self.longest();
        while entries > 0 && !is_within_limit(self) {
            self.shorten(entries);
            entries /= 2;
        }
    }
}

fn is_within_limit(answer: &(impl Serialize + ?Sized)) -> bool {
    let mut length = Length(0);
    serde_json::to_writer(&mut length, answer).is_ok_and(|()| length.0 <= LARGEST_ANSWER)
}

/// Counts bytes, so that a response that is too large is never held in memory.
struct Length(usize);

impl Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The response as JSON, shortened if it is too large.
pub fn within_limit(mut answer: impl Shorten) -> Value {
    answer.fit();
    json!(answer)
}

impl Shorten for Report {
    fn longest(&self) -> usize {
        let lists = [self.orphans.len(), self.dropped.len()];
        self.clusters.iter().map(ClusterReport::lines).chain(lists).max().unwrap_or_default()
    }

    fn shorten(&mut self, entries: usize) {
        for cluster in &mut self.clusters {
            cluster.shorten(entries);
        }
        self.orphans.truncate(entries);
        self.dropped.truncate(entries);
        self.cut = Some(format!(
            "the report is too large for a Lambda response: it has the first {entries} lines of each cluster, and the \
             counts of all lines; select a cluster, a namespace or a Service"
        ));
    }
}

impl ClusterReport {
    fn lines(&self) -> usize {
        let of_services = self.services.iter().map(|service| 1 + service.lines()).sum::<usize>();
        let losing = self.guard.iter().map(|guard| guard.services.len()).sum::<usize>();
        let of_clusterset = self.multi_cluster.iter().map(|part| {
            let reasons = part.conflicts.len() + part.held_back.len();
            reasons + part.export_changes.len() + part.changes.len()
        });
        let of_clusterset = of_clusterset.sum::<usize>();
        self.held_back.len() + self.warnings.len() + losing + of_services + of_clusterset
    }

    /// Keeps the given number of lines: first the warnings and the names that were not read or lost their last
    /// instance, then the held-back requests of the Services themselves, then the lines of the clusterset and of
    /// each name. Drops names without a line.
    fn shorten(&mut self, entries: usize) {
        let mut left = entries;
        keep(&mut self.warnings, &mut left);
        self.guard.iter_mut().for_each(|guard| guard.services.truncate(entries));
        for service in &mut self.services {
            if service.is_unread_or_emptied() && left > 0 {
                left -= 1;
            } else {
                service.unreadable = None;
                service.left_unread = None;
                service.emptied = false;
            }
        }
        keep(&mut self.held_back, &mut left);
        if let Some(part) = &mut self.multi_cluster {
            keep(&mut part.held_back, &mut left);
            keep(&mut part.conflicts, &mut left);
            keep(&mut part.export_changes, &mut left);
            keep(&mut part.changes, &mut left);
        }
        self.services.retain_mut(|service| {
            keep(&mut service.changes, &mut left);
            keep(&mut service.held_back, &mut left);
            service.lines() > 0
        });
    }
}

impl ServiceReport {
    fn is_unread_or_emptied(&self) -> bool {
        self.unreadable.is_some() || self.left_unread.is_some() || self.emptied
    }

    fn lines(&self) -> usize {
        let lists = self.changes.len() + self.held_back.len();
        usize::from(self.is_unread_or_emptied()) + lists
    }
}

/// Shortens a list to the lines that are left, and counts the lines that it keeps.
fn keep<T>(list: &mut Vec<T>, left: &mut usize) {
    list.truncate(*left);
    *left -= list.len();
}

/// The instances of this installation in one Cloud Map of a cluster that is not configured for it.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OrphanReport {
    /// The cluster's ARN.
    pub cluster: String,
    /// The Cloud Map, if that is not the default one.
    pub registry: Option<String>,
    /// The number of instances.
    pub instances: usize,
    /// A sentence with the names that they are under, and the command that purges them.
    pub detail: String,
}

impl OrphanReport {
    /// The cluster, and the Cloud Map if that is not the function's own.
    fn heading(&self) -> String {
        heading(&self.cluster, self.registry.as_deref())
    }
}

fn heading(cluster: &str, registry: Option<&str>) -> String {
    let registry = registry.map(|it| format!(" (Cloud Map {it})")).unwrap_or_default();
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
    use crate::model::Outcome;
    use crate::model::{ServiceRef, Verb};
    use crate::report::{ChangeLine, Counts, Dropped, ImportLine, Mode};

    fn report(services: usize) -> Report {
        let change = |number: usize| ChangeLine {
            change: Verb::Register,
            instance: Some(format!("ip-10-0-0-1-{number}")),
            service: ServiceRef::new("shop", format!("web-{number}")),
            detail: "10.0.0.1 port 8080 (pod web-7f9c6d5b8-abcde)".to_owned(),
            result: Outcome::Planned,
        };
        let service = |number: usize| ServiceReport {
            namespace: "shop.local".to_owned(),
            name: format!("web-{number:06}"),
            changes: (0..number % 3).map(change).collect(),
            ..ServiceReport::default()
        };
        let services = (0..services).map(service).collect();
        let counts = Counts { registered: 100_000, ..Counts::default() };
        let cluster = ClusterReport { counts, services, ..ClusterReport::default() };
        Report::new(Mode::Plan, vec![cluster])
    }

    #[test]
    fn a_report_that_fits_is_not_cut() {
        let value = within_limit(report(100));
        assert_eq!(value.get("cut"), None);
        assert_eq!(value["clusters"][0]["services"].as_array().map(Vec::len), Some(100));
    }

    #[test]
    fn a_report_that_is_too_large_has_its_first_changes_and_all_counts() {
        let value = within_limit(report(100_000));
        let size = value.to_string().len();
        assert!((LARGEST_ANSWER / 5..=LARGEST_ANSWER).contains(&size), "{size}");
        let report: Report = serde_json::from_value(value).expect("a report");
        assert_eq!(report.counts.registered, 100_000);
        assert_eq!(report.clusters[0].services[0].name, "web-000001");
        assert!(report.clusters[0].services.iter().all(|service| !service.changes.is_empty()));
        assert!(report.to_string().contains("\n! the report is too large"));
    }

    #[test]
    fn names_that_were_not_read_or_went_empty_are_kept_first() {
        let mut whole = report(100_000);
        let services = &mut whole.clusters[0].services;
        services[99_998].unreadable = Some("ListInstances was throttled".to_owned());
        services[99_999].emptied = true;
        let report: Report = serde_json::from_value(within_limit(whole)).expect("a report");
        let last: Vec<_> = report.clusters[0].services.iter().rev().take(2).collect();
        assert!(last[0].emptied, "{}", last[0].name);
        assert!(last[1].unreadable.is_some(), "{}", last[1].name);
    }

    /// Makes one list of a report long.
    type Grow<'a> = &'a dyn Fn(&mut Report);

    #[test]
    fn every_long_list_is_cut() {
        let words = || "a sentence of one hundred characters or more ".repeat(3);
        let dropped = |number: usize| Dropped {
            message: number.to_string(),
            reason: "InvalidEvent".into(),
            detail: words(),
        };
        let sentences = || (0..50_000).map(|_| words()).collect::<Vec<_>>();
        let unread = |mut service: ServiceReport| {
            service.unreadable = Some(words());
            service
        };
        let cases: [(&str, Grow<'_>); 3] = [
            ("dropped", &|it| it.dropped = (0..50_000).map(dropped).collect()),
            ("warnings", &|it| it.clusters[0].warnings = sentences()),
            ("unread", &|it| {
                it.clusters[0].services = report(50_000).clusters.remove(0).services;
                let services = std::mem::take(&mut it.clusters[0].services);
                it.clusters[0].services = services.into_iter().map(unread).collect();
            }),
        ];
        for (list, grow) in cases {
            let mut report = report(1);
            grow(&mut report);
            let value = within_limit(report);
            let size = value.to_string().len();
            assert!((LARGEST_ANSWER / 5..=LARGEST_ANSWER).contains(&size), "{list}: {size}");
            assert!(value["cut"].is_string(), "{list}");
        }
    }

    #[test]
    fn changes_of_imports_are_cut_like_those_of_names() {
        let line = |number: usize| ImportLine {
            change: format!(
                "+ slice      shop/imported-isrlchlhrq-ac321fb1-{number}  IPv4 of blue"
            ),
            result: Outcome::Planned,
        };
        let multi_cluster = MultiClusterReport {
            changes: (0..100_000).map(line).collect(),
            ..MultiClusterReport::default()
        };
        let cluster =
            ClusterReport { multi_cluster: Some(multi_cluster), ..ClusterReport::default() };
        let answer = within_limit(Report::new(Mode::Plan, vec![cluster]));
        assert!(answer.to_string().len() <= LARGEST_ANSWER && answer["cut"].is_string());
        let kept = answer["clusters"][0]["multiCluster"]["changes"].as_array().map(Vec::len);
        assert!(kept.is_some_and(|kept| kept > 10_000), "{kept:?}");
    }
}
