//! A report as CloudWatch metrics: lines in the embedded metric format, one for each cluster and one for the
//! invocation. CloudWatch Logs extracts the metrics without an API call. The metrics of a cluster are defined in
//! `cluster`, those of the invocation here; the table in docs/reference/metrics.md is generated from those lists, and
//! the alarms and the dashboard in template.yaml use their names. The dimensions are few, since CloudWatch bills each
//! combination.

mod cluster;
#[cfg(test)]
mod counting;

use std::collections::BTreeSet;
use std::io;
use std::time::SystemTime;

use metrique_writer::unit::{Count, Second, WithUnit};
use metrique_writer::{Entry, EntryIoStream, EntryWriter, FormatExt, IoStreamError};
use metrique_writer_format_emf::Emf;

use super::{ClusterReport, Mode, Report};
use crate::model::{Outcome, Verb, words};

pub use cluster::OF_CLUSTER;

/// The metrics' namespace in CloudWatch.
pub const NAMESPACE: &str = "cloud-map-sync";
/// The dimension of every metric: the function's name.
pub const FUNCTION: &str = "function_name";
/// The further dimension of a cluster's metrics: its ARN.
pub const CLUSTER: &str = "cluster";

/// The metric of a cluster to which a run that queues it writes 0, and its own full sync 1 if it was good.
pub const ENDED: &str = "FullSyncEnded";
/// The first metrics of a cluster, on which there are alarms by cluster.
const OF_ALARMS: usize = 2;
const QUEUED: [Metric<()>; 1] = [Metric::counted(ENDED, "", |()| 0)];

words! {
    /// `METRICS`: the metrics that are written.
    #[derive(Default)]
    pub enum WrittenMetrics {
        #[default]
        All = "all",
        /// Those of the function, and of each cluster those on which there are alarms: CloudWatch bills each metric.
        OfFunction = "function",
    }
}

impl WrittenMetrics {
    /// The metrics of a cluster.
    pub fn of_cluster(self) -> &'static [Metric<ClusterReport>] {
        match self {
            Self::All => &OF_CLUSTER,
            Self::OfFunction => &OF_CLUSTER[..OF_ALARMS],
        }
    }
}

/// A metric: its name, its meaning and its value in a report.
pub struct Metric<T> {
    pub name: &'static str,
    /// The meaning for the documentation.
    pub meaning: &'static str,
    unit: Unit,
    is_reported: fn(&T) -> bool,
    count: fn(&T) -> usize,
}

#[derive(Clone, Copy)]
enum Unit {
    Count,
    Second,
}

impl<T> Metric<T> {
    const fn counted(name: &'static str, meaning: &'static str, count: fn(&T) -> usize) -> Self {
        Self { name, meaning, unit: Unit::Count, is_reported: |_| true, count }
    }

    const fn seconds(name: &'static str, meaning: &'static str, count: fn(&T) -> usize) -> Self {
        Self { unit: Unit::Second, ..Self::counted(name, meaning, count) }
    }

    /// Limits the metric to some reports.
    const fn reported_if(self, is_reported: fn(&T) -> bool) -> Self {
        Self { is_reported, ..self }
    }
}

/// Writes the metrics of an invocation of `function`. A plan has none, since it is not a run.
///
/// # Errors
/// Returns an error if `output` cannot be written to.
pub fn write(
    report: &Report,
    written: WrittenMetrics,
    function: &str,
    time: SystemTime,
    output: &mut impl io::Write,
) -> Result<(), IoStreamError> {
    if report.mode == Mode::Plan {
        return Ok(());
    }
    // A cleanup is no run of a cluster.
    for cluster in report.clusters.iter().filter(|_| !report.cleanup) {
        let dimensions = [(FUNCTION, function), (CLUSTER, cluster.cluster.as_str())];
        write_document(time, &dimensions, written.of_cluster(), cluster, output)?;
    }
    write_document(time, &[(FUNCTION, function)], &OF_INVOCATION, report, output)
}

/// Writes that a full sync of each of these clusters was queued (`FAN_OUT`). A run of theirs that dies writes nothing,
/// so this 0 is what remains.
///
/// # Errors
/// Returns an error if `output` cannot be written to.
pub fn write_queued(
    clusters: &[String],
    function: &str,
    time: SystemTime,
    output: &mut impl io::Write,
) -> Result<(), IoStreamError> {
    for cluster in clusters {
        let dimensions = [(FUNCTION, function), (CLUSTER, cluster.as_str())];
        write_document(time, &dimensions, &QUEUED, &(), output)?;
    }
    Ok(())
}

struct Document<'a, T> {
    time: SystemTime,
    dimensions: &'a [(&'static str, &'a str)],
    metrics: &'a [Metric<T>],
    subject: &'a T,
}

impl<T> Entry for Document<'_, T> {
    fn write<'w>(&'w self, writer: &mut impl EntryWriter<'w>) {
        writer.timestamp(self.time);
        for (dimension, value) in self.dimensions {
            writer.value(*dimension, *value);
        }
        for metric in self.metrics.iter().filter(|metric| (metric.is_reported)(self.subject)) {
            let count = u64::try_from((metric.count)(self.subject)).unwrap_or(u64::MAX);
            match metric.unit {
                Unit::Count => writer.value(metric.name, &WithUnit::<u64, Count>::from(count)),
                Unit::Second => writer.value(metric.name, &WithUnit::<u64, Second>::from(count)),
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
    if !metrics.iter().any(|metric| (metric.is_reported)(subject)) {
        return Ok(());
    }
    let names = dimensions.iter().map(|(name, _)| (*name).to_owned()).collect();
    let format = Emf::no_validations(NAMESPACE.to_owned(), vec![names]);
    format.output_to(output).next(&Document { time, dimensions, metrics, subject })
}

// The metrics of a whole invocation: each with its name, its meaning and its value in the report. The alarms use
// these, since a template cannot know the ARN that is a dimension of a cluster's metrics.

/// The metrics of an invocation.
pub const OF_INVOCATION: [Metric<Report>; 17] = [
    Metric::counted(
        "GoodFullSync",
        "1 if every full sync of the run was complete, 0 if one was not; this, `OutOfStep` and `GuardHeldAgain` leave \
         out clusters with `page: false`",
        is_good,
    )
    .reported_if(|report| is_sync(report) && paging(report).next().is_some()),
    Metric::counted(
        "GoodCleanup",
        "1 if [a cleanup](docs/operations.md#cleanup-with-fan-out) read all clusters but those with `page: false` and made every change, \
         0 if not; a cleanup writes this, `ClustersUnreadable`, `Changes`, `PlannedChanges`, `Orphans`, `Calls` and \
         `Throttles`",
        is_good,
    )
    .reported_if(|report| report.cleanup),
    Metric::counted("ClustersUnreadable", "clusters that could not be read", |report| {
        report.counts.unreadable
    }),
    Metric::counted(
        "Unread",
        "`unread` of the cluster with the most [unread services](docs/runbook.md#unread-services); written only above 0",
        unread,
    )
    .reported_if(|report| unread(report) > 0),
    Metric::counted("Changes", "drift repaired: all changes that were made", |report| {
        changes(report, &Outcome::Applied)
    }),
    Metric::counted(
        "PlannedChanges",
        "drift found and kept: all changes that a dry run would make",
        |report| changes(report, &Outcome::Planned),
    ),
    Metric::counted("OutOfStep", "`Missing` and `Leftover` of all clusters", |report| {
        sum_of_paging(report, |it| it.missing() + it.left_undone(Verb::Deregister))
    })
    .reported_if(is_sync),
    Metric::seconds(
        "OldestMissing",
        "age in seconds of the oldest endpoint of `Missing`, since the first run of this process of the function \
         that counted it",
        |report: &Report| report.oldest.missing,
    )
    .reported_if(is_sync),
    Metric::seconds("OldestLeftover", "the same for `Leftover`", |report: &Report| report.oldest.leftover)
    .reported_if(is_sync),
    Metric::counted("HeldBack", "`HeldBack` of all clusters", |report| {
        sum(report, ClusterReport::kept_out)
    })
    .reported_if(is_sync),
    Metric::counted("Conflicts", "`Conflicts` of all clusters", |report| {
        sum(report, |cluster| cluster.held_back_as("DomainConflict"))
    })
    .reported_if(is_sync),
    Metric::counted(
        "GuardHeldAgain",
        "clusters whose full sync holds a loss that an earlier full sync already found",
        |report| sum_of_paging(report, |cluster| usize::from(cluster.is_guarded_again())),
    )
    .reported_if(is_sync),
    Metric::counted("DroppedMessages", "messages without a valid scope", |report: &Report| {
        report.dropped.len()
    })
    .reported_if(is_sync),
    Metric::counted(
        "Orphans",
        "instances of [clusters that are gone or no longer configured](docs/operations.md#dead-clusters)",
        orphans,
    )
    .reported_if(|report| report.whole),
    Metric::counted(
        "StaleClusters",
        "members of the clustersets that [were not heard of for long](docs/multi-cluster.md#lost-clusters)",
        stale_clusters,
    )
    .reported_if(is_about_a_member),
    Metric::counted("Calls", "calls to Cloud Map, including retries", |report| {
        report.traffic.calls
    }),
    Metric::counted(
        "Throttles",
        "the part of `Calls` that Cloud Map throttled; each is retried automatically",
        |report| report.traffic.throttles,
    ),
];

/// The clusters of a full sync that page. A run over all clusters also has those that it did not read.
fn paging(report: &Report) -> impl Iterator<Item = &ClusterReport> {
    report.clusters.iter().filter(|cluster| !cluster.quiet && (cluster.whole || report.whole))
}

fn is_sync(report: &Report) -> bool {
    !report.cleanup
}

fn is_about_a_member(report: &Report) -> bool {
    report.clusters.iter().any(|cluster| cluster.whole && cluster.multi_cluster.is_some())
}

/// Clusters of one Cloud Map count the same services, and a run of a part of one does not know them all.
fn unread(report: &Report) -> usize {
    let whole = report.clusters.iter().filter(|cluster| cluster.whole);
    whole.map(|cluster| cluster.unread).max().unwrap_or_default()
}

/// Each once: all members of a clusterset see the same.
fn stale_clusters(report: &Report) -> usize {
    let members = report.clusters.iter().filter_map(|cluster| cluster.multi_cluster.as_ref());
    let stale = members.flat_map(|member| {
        member.stale.iter().map(|stale| (&member.clusterset, &stale.cluster_id, &stale.cluster))
    });
    stale.collect::<BTreeSet<_>>().len()
}

/// A run over all clusters also covers orphans and empty services. `FAN_OUT` has no such run: each cluster has its own,
/// and the alarm uses the minimum.
fn is_good(report: &Report) -> usize {
    let orphans = report.orphans.iter().all(|orphans| orphans.done.is_complete());
    let beside = orphans && report.empty_services.is_complete();
    usize::from(paging(report).all(ClusterReport::is_complete) && (beside || !report.whole))
}

fn orphans(report: &Report) -> usize {
    report.orphans.iter().map(|orphans| orphans.instances).sum()
}

fn changes(report: &Report, result: &Outcome) -> usize {
    let services = report.clusters.iter().flat_map(|cluster| &cluster.services);
    let lines = services.flat_map(|service| &service.changes);
    lines.filter(|line| line.result == *result).count()
}

fn sum_of_paging(report: &Report, count: fn(&ClusterReport) -> usize) -> usize {
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

    /// The part that the run covered completely.
    #[derive(Clone, Copy, PartialEq)]
    enum Whole {
        Nothing,
        OneCluster,
        Everything,
    }

    fn lines(mode: Mode, whole: Whole, unreadable: usize) -> Vec<Value> {
        let counts = Counts { registered: 2, foreign: 3, ..Counts::default() };
        let error = (unreadable > 0).then(|| "no answer".to_owned());
        let whole_cluster = whole != Whole::Nothing;
        let (cluster, whole) = ("blue".to_owned(), whole == Whole::Everything);
        let cluster =
            ClusterReport { cluster, counts, error, whole: whole_cluster, ..Default::default() };
        let mut report = Report::new(mode, vec![cluster]);
        report.whole = whole;
        written(&report)
    }

    fn written(report: &Report) -> Vec<Value> {
        written_as(WrittenMetrics::All, report)
    }

    fn written_as(written: WrittenMetrics, report: &Report) -> Vec<Value> {
        let mut output = Vec::new();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_252_502);
        write(report, written, "sync", time, &mut output).expect("memory");
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
        // Those of a clusterset are for its members alone, and one is for FAN_OUT.
        let count = directive["Metrics"].as_array().expect("a list").len();
        assert_eq!(count, OF_CLUSTER.len() - 7);
        assert_eq!(directive["Metrics"][0]["Unit"], "Count");
        assert_eq!(
            (&cluster["function_name"], &cluster["cluster"]),
            (&"sync".into(), &"blue".into())
        );
        let counts = ["GoodFullSync", "Registered", "Foreign", "Failed"].map(|name| &cluster[name]);
        assert_eq!(counts, [1, 2, 3, 0]);
        let directive = &invocation["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(directive["Dimensions"], serde_json::json!([[FUNCTION]]));
        let metrics = directive["Metrics"].as_array().expect("a list");
        let oldest = metrics.iter().find(|metric| metric["Name"] == "OldestMissing");
        assert_eq!(oldest.expect("the age")["Unit"], "Seconds");
        // One is for cleanups, one for clustersets, and one for a Cloud Map that was not read whole.
        assert_eq!(metrics.len(), OF_INVOCATION.len() - 3);
    }

    #[test]
    fn of_a_cluster_only_metrics_of_alarms_remain_and_the_function_has_all() {
        let names = |line: &Value| -> Vec<String> {
            let metrics =
                line["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().expect("a list");
            metrics.iter().filter_map(|it| it["Name"].as_str()).map(str::to_owned).collect()
        };
        let cluster = |whole| ClusterReport { whole, awaited: whole, ..ClusterReport::default() };
        let report = Report::new(Mode::Sync, vec![cluster(true), cluster(false)]);
        let [of_cluster, of_function] = written_as(WrittenMetrics::OfFunction, &report)
            .try_into()
            .expect("none of a partial sync");
        assert_eq!(names(&of_cluster), ["GoodFullSync", ENDED]);
        assert_eq!(names(&of_function), names(&written(&report)[2]));
    }

    #[test]
    fn a_cleanup_is_no_full_sync_of_a_cluster() {
        for (error, page, expected) in
            [(None, true, 1), (Some("no answer"), true, 0), (Some("no answer"), false, 1)]
        {
            let error = error.map(str::to_owned);
            let cluster = ClusterReport { error, quiet: !page, ..ClusterReport::default() };
            let other = ClusterReport::default();
            let report = Report::new(Mode::Sync, vec![cluster, other]);
            let report = Report { whole: true, cleanup: true, ..report };
            let [line] = written(&report).try_into().expect("one line");
            let names = line["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().expect("a list");
            let names: Vec<&str> = names.iter().filter_map(|it| it["Name"].as_str()).collect();
            assert_eq!(
                names,
                [
                    "GoodCleanup",
                    "ClustersUnreadable",
                    "Changes",
                    "PlannedChanges",
                    "Orphans",
                    "Calls",
                    "Throttles"
                ]
            );
            assert_eq!(line["GoodCleanup"], expected, "{line}");
        }
    }

    #[test]
    fn a_partial_run_reports_no_full_sync_and_a_plan_no_metric() {
        use Whole::{Everything, Nothing, OneCluster};

        let reported = |mode, whole, unreadable| {
            let of_line = |line: Value| [line["GoodFullSync"].as_u64(), line["Orphans"].as_u64()];
            let lines = lines(mode, whole, unreadable).into_iter();
            lines.map(of_line).collect::<Vec<_>>()
        };
        let none = [None, None];
        for (mode, whole, unreadable, expected) in [
            (Mode::Sync, Everything, 0, vec![[Some(1), None], [Some(1), Some(0)]]),
            (Mode::DryRun, Everything, 0, vec![[Some(1), None], [Some(1), Some(0)]]),
            (Mode::Sync, Everything, 1, vec![[Some(0), None], [Some(0), Some(0)]]),
            (Mode::Sync, OneCluster, 0, vec![[Some(1), None], [Some(1), None]]),
            (Mode::Sync, OneCluster, 1, vec![[Some(0), None], [Some(0), None]]),
            (Mode::Sync, Nothing, 0, vec![none, none]),
            (Mode::Sync, Nothing, 1, vec![none, none]),
            (Mode::Plan, Everything, 0, vec![]),
        ] {
            assert_eq!(reported(mode, whole, unreadable), expected, "{mode} {unreadable}");
        }
    }
}
