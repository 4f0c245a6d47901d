//! A report as CloudWatch metrics: lines in the embedded metric format, one for each cluster and one for the
//! invocation. CloudWatch Logs extracts the metrics without an API call. The metrics are defined in `cluster` and
//! `invocation`; the table in docs/reference/metrics.md is generated from those lists, and the alarms and the dashboard
//! in template.yaml use their names. The dimensions are few, since CloudWatch bills each combination.

mod cluster;
#[cfg(test)]
mod counting;
mod invocation;

use std::io;
use std::time::SystemTime;

use metrique_writer::unit::{Count, Second, WithUnit};
use metrique_writer::{Entry, EntryIoStream, EntryWriter, FormatExt, IoStreamError};
use metrique_writer_format_emf::Emf;

use super::{ClusterReport, Mode, Report};
use crate::model::words;
pub use cluster::OF_CLUSTER;
pub use invocation::OF_INVOCATION;

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
