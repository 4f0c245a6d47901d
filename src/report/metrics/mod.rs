//! A report as CloudWatch metrics: lines in the embedded metric format, one for each cluster and one for the
//! invocation. CloudWatch Logs extracts the metrics without an API call. The table in docs/reference/metrics.md is
//! generated from the lists here. CloudWatch bills each metric and each combination of dimensions, so the lists have
//! only metrics that an alarm or the dashboard in template.yaml reads.

#[cfg(test)]
mod value_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::SystemTime;

use metrique_writer::unit::{Count, Second, WithUnit};
use metrique_writer::{Entry, EntryIoStream, EntryWriter, FormatExt, IoStreamError};
use metrique_writer_format_emf::Emf;

use super::{ClusterReport, GuardReport, Mode, MultiClusterReport, Report};
use crate::model::{GuardState, Outcome, STALE, Verb};

/// The metrics' namespace in CloudWatch.
pub const NAMESPACE: &str = "cloud-map-sync";
/// The dimension of every metric: the function's name.
pub const FUNCTION: &str = "function_name";
/// The second dimension of a cluster's metrics: the cluster's ARN.
pub const CLUSTER: &str = "cluster";

/// A metric: its name, its meaning and its value in a report.
pub struct Metric<T> {
    pub name: &'static str,
    /// The meaning for the documentation.
    pub meaning: &'static str,
    unit: Unit,
    count: Counter<T>,
}

/// Returns the value of a metric in a report. `None` if the report does not have the metric.
type Counter<T> = fn(&T) -> Option<usize>;

#[derive(Clone, Copy)]
enum Unit {
    Count,
    Second,
}

impl<T> Metric<T> {
    const fn counted(name: &'static str, meaning: &'static str, count: Counter<T>) -> Self {
        Self { name, meaning, unit: Unit::Count, count }
    }

    const fn seconds(name: &'static str, meaning: &'static str, count: Counter<T>) -> Self {
        Self { name, meaning, unit: Unit::Second, count }
    }
}

/// Writes the metrics of an invocation of `function`. A plan has no metrics, since it is not a run.
///
/// # Errors
/// Returns an error if `output` cannot be written to.
pub fn write(
    report: &Report,
    function: &str,
    time: SystemTime,
    output: &mut impl io::Write,
) -> Result<(), IoStreamError> {
    if report.mode == Mode::Plan {
        return Ok(());
    }
    for cluster in &report.clusters {
        let dimensions = [(FUNCTION, function), (CLUSTER, cluster.cluster.as_str())];
        write_document(time, &dimensions, &CLUSTER_METRICS, cluster, output)?;
    }
    write_document(time, &[(FUNCTION, function)], &INVOCATION_METRICS, report, output)
}

struct Document<'a> {
    time: SystemTime,
    dimensions: &'a [(&'static str, &'a str)],
    values: Vec<(&'static str, Unit, usize)>,
}

impl Entry for Document<'_> {
    fn write<'w>(&'w self, writer: &mut impl EntryWriter<'w>) {
        writer.timestamp(self.time);
        for (dimension, value) in self.dimensions {
            writer.value(*dimension, *value);
        }
        for (name, unit, count) in &self.values {
            let count = u64::try_from(*count).unwrap_or(u64::MAX);
            match unit {
                Unit::Count => writer.value(*name, &WithUnit::<u64, Count>::from(count)),
                Unit::Second => writer.value(*name, &WithUnit::<u64, Second>::from(count)),
            }
        }
    }
}

fn write_document<T>(
    time: SystemTime,
    dimensions: &[(&'static str, &str)],
    metrics: &[Metric<T>],
    subject: &T,
    output: &mut impl io::Write,
) -> Result<(), IoStreamError> {
    let value = |metric: &Metric<T>| Some((metric.name, metric.unit, (metric.count)(subject)?));
    let values: Vec<_> = metrics.iter().filter_map(value).collect();
    if values.is_empty() {
        return Ok(());
    }
    let names = dimensions.iter().map(|(name, _)| (*name).to_owned()).collect();
    let format = Emf::no_validations(NAMESPACE.to_owned(), vec![names]);
    format.output_to(output).next(&Document { time, dimensions, values })
}

/// The metrics of one cluster.
pub const CLUSTER_METRICS: [Metric<ClusterReport>; 17] = [
    Metric::counted(
        "GoodFullSync",
        "1 if the cluster was read and every change was made or planned, 0 if its full sync was \
         incomplete",
        |cluster| cluster.whole.then(|| usize::from(cluster.is_complete())),
    ),
    Metric::counted("Created", "Cloud Map services created", |cluster| {
        Some(cluster.counts.created)
    }),
    Metric::counted("Registered", "instances registered", |cluster| {
        Some(cluster.counts.registered)
    }),
    Metric::counted("Rewritten", "instances whose attributes were repaired", |cluster| {
        Some(cluster.counts.rewritten)
    }),
    Metric::counted("Deregistered", "instances deregistered", |cluster| {
        Some(cluster.counts.deregistered)
    }),
    Metric::counted(
        "HeldBack",
        "requests that stay out of Cloud Map until the Service's owner acts",
        |cluster| Some(cluster.kept_out()),
    ),
    Metric::counted(
        "Failed",
        "changes that failed, and Cloud Map services that could not be read",
        |cluster| Some(cluster.counts.failed),
    ),
    Metric::counted(
        "Undone",
        "changes that were not attempted, because the run reached its deadline or an earlier change failed",
        |cluster| Some(cluster.counts.undone),
    ),
    Metric::counted(
        "Missing",
        "endpoints that are ready and not registered: the registrations among `Failed` and `Undone`, and those that \
         Cloud Map rejects as invalid (`InvalidInput`)",
        |cluster| Some(cluster.missing()),
    ),
    Metric::counted(
        "Leftover",
        "endpoints that are gone and still registered: the deregistrations among `Failed` and `Undone`",
        |cluster| Some(cluster.count_failed_or_not_attempted(Verb::Deregister)),
    ),
    Metric::counted(
        "GuardHeld",
        "instances that [the guard](docs/operations.md#the-guard) of a full sync keeps",
        |cluster| Some(loss_held(cluster.guard.as_ref())),
    ),
    Metric::counted(
        "Exports",
        "[exports](docs/multi-cluster.md) of the cluster; this and the next five only in a clusterset",
        |cluster| Some(cluster.multi_cluster.as_ref()?.exports),
    ),
    Metric::counted(
        "Imports",
        "ServiceImports of the function in the cluster after the run; after a dry run, as many as a sync would leave",
        |cluster| Some(cluster.multi_cluster.as_ref()?.imports),
    ),
    Metric::counted(
        "ImportedEndpoints",
        "ready endpoints in its imports, its own among them",
        |cluster| Some(cluster.multi_cluster.as_ref()?.imported_endpoints),
    ),
    Metric::counted(
        "ImportGuardHeld",
        "endpoints of other clusters that the guard of a full sync keeps in its imports",
        |cluster| Some(loss_held(cluster.multi_cluster.as_ref()?.guard.as_ref())),
    ),
    Metric::counted(
        "ExportConflicts",
        "exports of the cluster that disagree with those of other clusters",
        |cluster| Some(cluster.multi_cluster.as_ref()?.conflicts().count()),
    ),
    Metric::counted(
        "ClustersetUnfinished",
        "changes of exports' conditions and imports that failed or were not attempted, failed reads of the clusterset, \
         and 1 if [something stops the member](docs/multi-cluster.md#what-stops-it)",
        |cluster| cluster.multi_cluster.as_ref().map(MultiClusterReport::count_unfinished),
    ),
];

impl ClusterReport {
    fn held_back_as(&self, reason: &str) -> usize {
        self.all_lines().filter(|line| line.code == reason).count()
    }

    fn kept_out(&self) -> usize {
        let frozen = self.multi_cluster.as_ref().is_some_and(MultiClusterReport::is_frozen);
        let kept_out = self.all_lines().filter(|line| line.outcome == Outcome::KeptOut);
        kept_out.count() + usize::from(frozen)
    }

    /// Returns the number of changes of a kind that failed or were not attempted.
    fn count_failed_or_not_attempted(&self, change: Verb) -> usize {
        let left = self.all_lines().filter(|line| line.outcome.is_failed_or_not_attempted());
        left.filter(|line| line.verb() == Some(change)).count()
    }

    /// Returns the number of endpoints that are ready and not registered.
    fn missing(&self) -> usize {
        let rejected = self.services.iter().map(|service| service.rejected.len());
        self.count_failed_or_not_attempted(Verb::Register) + rejected.sum::<usize>()
    }

    /// Whether the guard holds a loss of instances or of imported endpoints that an earlier full sync found.
    fn is_guarded_again(&self) -> bool {
        let import_guard = self.multi_cluster.as_ref().and_then(|member| member.guard.as_ref());
        let guards = [self.guard.as_ref(), import_guard].into_iter();
        guards.filter_map(held).any(|guard| guard.needs_operator)
    }
}

/// Returns the verdict if it is that of a full sync that holds a loss.
fn held(guard: Option<&GuardReport>) -> Option<&GuardReport> {
    guard.filter(|guard| guard.state == GuardState::Held)
}

fn loss_held(guard: Option<&GuardReport>) -> usize {
    held(guard).map_or(0, |guard| guard.loss)
}

// The metrics of a whole invocation. The alarms use these, since a template cannot know the ARN that is a dimension of
// a cluster's metrics.

/// The metrics of an invocation.
pub const INVOCATION_METRICS: [Metric<Report>; 14] = [
    Metric::counted(
        "GoodFullSync",
        "1 if every full sync of the run was complete, 0 if one was not; this, `OutOfStep` and `GuardHeldAgain` leave \
         out clusters with `page: false`",
        |report| full_syncs_that_page(report).next().is_some().then(|| is_good(report)),
    ),
    Metric::counted(
        "Unread",
        "the largest number of [unread services](docs/runbook.md#unread-services) of one cluster; written only above 0",
        unread,
    ),
    Metric::counted(
        "PlannedChanges",
        "the changes that a dry run found necessary and did not make",
        |report| Some(planned_changes(report)),
    ),
    Metric::counted("OutOfStep", "`Missing` and `Leftover` of all clusters", |report| {
        Some(sum_unless_quiet(report, |cluster| {
            cluster.missing() + cluster.count_failed_or_not_attempted(Verb::Deregister)
        }))
    }),
    Metric::seconds(
        "OldestMissing",
        "age in seconds of the oldest endpoint of `Missing`; it begins with the first run of the process that counts \
         the endpoint, and does not begin again after a failed read",
        |report| Some(report.oldest.missing),
    ),
    Metric::seconds("OldestLeftover", "the same for `Leftover`", |report| {
        Some(report.oldest.leftover)
    }),
    Metric::counted("HeldBack", "`HeldBack` of all clusters", |report| {
        Some(sum(report, ClusterReport::kept_out))
    }),
    Metric::counted(
        "Conflicts",
        "the part of `HeldBack` with a name that another Service of the same cluster holds",
        |report| Some(sum(report, |cluster| cluster.held_back_as("DomainConflict"))),
    ),
    Metric::counted(
        "GuardHeldAgain",
        "clusters whose full sync holds a loss that an earlier full sync already found",
        |report| Some(sum_unless_quiet(report, |cluster| usize::from(cluster.is_guarded_again()))),
    ),
    Metric::counted("DroppedMessages", "messages without a valid scope", |report| {
        Some(report.dropped.len())
    }),
    Metric::counted(
        "Orphans",
        "instances of [clusters that are not configured](docs/operations.md#clusters-that-are-gone); of several Cloud Maps the \
         largest number in one",
        orphans,
    ),
    Metric::counted(
        "StaleClusters",
        "members of the clustersets that [were not heard of for long](docs/multi-cluster.md#lost-clusters)",
        stale_clusters,
    ),
    Metric::counted("Calls", "calls to Cloud Map, including retries", |report| {
        Some(report.traffic.calls)
    }),
    Metric::counted("Throttles", "the part of `Calls` that Cloud Map throttled", |report| {
        Some(report.traffic.throttles)
    }),
];

/// Returns the clusters with a full sync, without those with `page: false`. In a full sync of all clusters, a cluster
/// that could not be read is among them.
fn full_syncs_that_page(report: &Report) -> impl Iterator<Item = &ClusterReport> {
    report.clusters.iter().filter(|cluster| !cluster.quiet && (cluster.whole || report.whole))
}

/// Returns the largest number of unread services of a cluster: clusters with the same Cloud Map count the same
/// services. Only full syncs are counted, since other runs do not know all services.
fn unread(report: &Report) -> Option<usize> {
    let whole = report.clusters.iter().filter(|cluster| cluster.whole);
    whole.map(|cluster| cluster.unread).max().filter(|unread| *unread > 0)
}

/// Returns the number of stale members. Each is counted once, since all members of a clusterset report it.
fn stale_clusters(report: &Report) -> Option<usize> {
    let members = || {
        report
            .clusters
            .iter()
            .filter_map(|cluster| Some((cluster.whole, cluster.multi_cluster.as_ref()?)))
    };
    members().find(|(is_whole, _)| *is_whole)?;
    let stale = members().flat_map(|(_, member)| {
        let stale = member.lines.iter().filter(|line| line.code == STALE);
        stale.map(|stale| (&member.clusterset, &stale.text))
    });
    Some(stale.collect::<BTreeSet<_>>().len())
}

/// Returns the largest number of orphans in one Cloud Map. The numbers are not added up, since two Cloud Maps of the
/// settings may show the same orphans.
fn orphans(report: &Report) -> Option<usize> {
    report.clusters.iter().find(|cluster| cluster.whole)?;
    let mut registries: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for orphans in &report.orphans {
        *registries.entry(orphans.registry.as_deref()).or_default() += orphans.instances;
    }
    Some(registries.into_values().max().unwrap_or_default())
}

fn is_good(report: &Report) -> usize {
    usize::from(full_syncs_that_page(report).all(ClusterReport::is_complete))
}

fn planned_changes(report: &Report) -> usize {
    if report.mode == Mode::DryRun { report.counts.changes() } else { 0 }
}

fn sum_unless_quiet(report: &Report, count: fn(&ClusterReport) -> usize) -> usize {
    report.clusters.iter().filter(|cluster| !cluster.quiet).map(count).sum()
}

fn sum(report: &Report, count: fn(&ClusterReport) -> usize) -> usize {
    report.clusters.iter().map(count).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::report::Counts;

    /// The clusters that the run covered completely.
    #[derive(Clone, Copy, PartialEq)]
    enum Whole {
        Nothing,
        OneCluster,
        Everything,
    }

    fn lines(mode: Mode, whole: Whole, unreadable: usize) -> Vec<Value> {
        let counts = Counts { registered: 2, ..Counts::default() };
        let error = (unreadable > 0).then(|| "no answer".to_owned());
        let whole_cluster = whole != Whole::Nothing;
        let cluster = "blue".to_owned();
        let whole = whole == Whole::Everything;
        let cluster =
            ClusterReport { cluster, counts, error, whole: whole_cluster, ..Default::default() };
        let mut report = Report::new(mode, vec![cluster]);
        report.whole = whole;
        written(&report)
    }

    fn written(report: &Report) -> Vec<Value> {
        let mut output = Vec::new();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_252_502);
        write(report, "sync", time, &mut output).expect("memory");
        let text = String::from_utf8(output).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    #[test]
    fn a_sync_writes_a_line_for_each_cluster_and_one_for_the_invocation() {
        let [cluster, invocation] =
            lines(Mode::Sync, Whole::Everything, 0).try_into().expect("two lines");
        let directive = &cluster["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(cluster["_aws"]["Timestamp"], 1_795_252_502_000_u64);
        assert_eq!(directive["Namespace"], NAMESPACE);
        assert_eq!(directive["Dimensions"], serde_json::json!([[FUNCTION, CLUSTER]]));
        // Six metrics are only for members of a clusterset.
        let count = directive["Metrics"].as_array().expect("a list").len();
        assert_eq!(count, CLUSTER_METRICS.len() - 6);
        assert_eq!(directive["Metrics"][0]["Unit"], "Count");
        assert_eq!([&cluster["function_name"], &cluster["cluster"]], ["sync", "blue"]);
        let counts = ["GoodFullSync", "Registered", "Failed"].map(|name| &cluster[name]);
        assert_eq!(counts, [1, 2, 0]);
        let directive = &invocation["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(directive["Dimensions"], serde_json::json!([[FUNCTION]]));
        let metrics = directive["Metrics"].as_array().expect("a list");
        let oldest = metrics.iter().find(|metric| metric["Name"] == "OldestMissing");
        assert_eq!(oldest.expect("the age")["Unit"], "Seconds");
        // One metric is for clustersets, and one for a Cloud Map that was not read completely.
        assert_eq!(metrics.len(), INVOCATION_METRICS.len() - 2);
    }

    #[test]
    fn a_partial_run_reports_no_full_sync_and_a_plan_no_metric() {
        use Whole::{Everything, Nothing, OneCluster};

        let reported = |mode, whole, unreadable| {
            let values = |line: Value| [line["GoodFullSync"].as_u64(), line["Orphans"].as_u64()];
            let lines = lines(mode, whole, unreadable).into_iter();
            lines.map(values).collect::<Vec<_>>()
        };
        let none = [None, None];
        for (mode, whole, unreadable, expected) in [
            (Mode::Sync, Everything, 0, vec![[Some(1), None], [Some(1), Some(0)]]),
            (Mode::DryRun, Everything, 0, vec![[Some(1), None], [Some(1), Some(0)]]),
            (Mode::Sync, Everything, 1, vec![[Some(0), None], [Some(0), Some(0)]]),
            (Mode::Sync, OneCluster, 0, vec![[Some(1), None], [Some(1), Some(0)]]),
            (Mode::Sync, OneCluster, 1, vec![[Some(0), None], [Some(0), Some(0)]]),
            (Mode::Sync, Nothing, 0, vec![none, none]),
            (Mode::Sync, Nothing, 1, vec![none, none]),
            (Mode::Plan, Everything, 0, vec![]),
        ] {
            assert_eq!(reported(mode, whole, unreadable), expected, "{mode} {unreadable}");
        }
    }
}
