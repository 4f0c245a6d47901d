//! A report as CloudWatch metrics: lines in the embedded metric format, one for each cluster and one
//! for the invocation, of which CloudWatch Logs makes metrics without a call. What is counted, and how,
//! is in `cluster` and `invocation`; the table in docs/reference/metrics.md is made from those lists, and the
//! alarms and the dashboard in template.yaml use their names. Few dimensions, since CloudWatch bills each combination.

mod cluster;
#[cfg(test)]
mod counting;
mod invocation;

use std::io;
use std::time::SystemTime;

use metrique_writer::unit::{Count, Second, WithUnit};
use metrique_writer::{Entry, EntryIoStream, EntryWriter, FormatExt, IoStreamError};
use metrique_writer_format_emf::Emf;

use super::{Mode, Report};
pub use cluster::OF_CLUSTER;
pub use invocation::OF_INVOCATION;

/// The metrics' namespace in CloudWatch.
pub const NAMESPACE: &str = "cloud-map-sync";
/// The dimension of every metric: the function's name.
pub const FUNCTION: &str = "function_name";
/// The further dimension of a cluster's metrics: its ARN.
pub const CLUSTER: &str = "cluster";

/// A metric: its name, what it counts, and where in a report that stands.
pub struct Metric<T> {
    /// Its name in CloudWatch.
    pub name: &'static str,
    /// What it counts.
    pub meaning: &'static str,
    unit: Unit,
    is_told: fn(&T) -> bool,
    count: fn(&T) -> usize,
}

#[derive(Clone, Copy)]
enum Unit {
    Count,
    Second,
}

impl<T> Metric<T> {
    const fn counted(name: &'static str, meaning: &'static str, count: fn(&T) -> usize) -> Self {
        Self { name, meaning, unit: Unit::Count, is_told: |_| true, count }
    }

    const fn seconds(name: &'static str, meaning: &'static str, count: fn(&T) -> usize) -> Self {
        Self { unit: Unit::Second, ..Self::counted(name, meaning, count) }
    }

    /// The same metric, of which some reports say nothing.
    const fn told_where(self, is_told: fn(&T) -> bool) -> Self {
        Self { is_told, ..self }
    }
}

/// Writes the metrics of an invocation of `function`. A plan that a person asks for is none of a
/// dashboard's business, and gives none.
///
/// # Errors
/// When `output` cannot be written to.
pub fn write(
    report: &Report,
    function: &str,
    time: SystemTime,
    output: &mut impl io::Write,
) -> Result<(), IoStreamError> {
    if report.mode == Mode::Plan {
        return Ok(());
    }
    for of in &report.clusters {
        let dimensions = [(FUNCTION, function), (CLUSTER, of.cluster.as_str())];
        document(time, &dimensions, &OF_CLUSTER, of, output)?;
    }
    document(time, &[(FUNCTION, function)], &OF_INVOCATION, report, output)
}

struct Document<'a, T> {
    time: SystemTime,
    dimensions: &'a [(&'static str, &'a str)],
    metrics: &'a [Metric<T>],
    of: &'a T,
}

impl<T> Entry for Document<'_, T> {
    fn write<'w>(&'w self, writer: &mut impl EntryWriter<'w>) {
        writer.timestamp(self.time);
        for (dimension, value) in self.dimensions {
            writer.value(*dimension, *value);
        }
        for metric in self.metrics.iter().filter(|metric| (metric.is_told)(self.of)) {
            let count = u64::try_from((metric.count)(self.of)).unwrap_or(u64::MAX);
            match metric.unit {
                Unit::Count => writer.value(metric.name, &WithUnit::<u64, Count>::from(count)),
                Unit::Second => writer.value(metric.name, &WithUnit::<u64, Second>::from(count)),
            }
        }
    }
}

fn document<T>(
    time: SystemTime,
    dimensions: &[(&'static str, &str)],
    metrics: &[Metric<T>],
    of: &T,
    output: &mut impl io::Write,
) -> Result<(), IoStreamError> {
    let names = dimensions.iter().map(|(name, _)| (*name).to_owned()).collect();
    let format = Emf::no_validations(NAMESPACE.to_owned(), vec![names]);
    format.output_to(output).next(&Document { time, dimensions, metrics, of })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::report::{ClusterReport, Counts};

    /// What the run was wholly about.
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
        let mut output = Vec::new();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_252_502);
        write(&report, "sync", time, &mut output).expect("memory");
        let text = String::from_utf8(output).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    #[test]
    fn a_sync_gives_a_line_for_each_cluster_and_one_for_the_invocation() {
        let [cluster, invocation] =
            lines(Mode::Sync, Whole::Everything, 0).try_into().expect("two lines");
        let directive = &cluster["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(cluster["_aws"]["Timestamp"], 1_795_252_502_000_u64);
        assert_eq!(directive["Namespace"], NAMESPACE);
        assert_eq!(directive["Dimensions"], serde_json::json!([[FUNCTION, CLUSTER]]));
        assert_eq!(directive["Metrics"].as_array().expect("a list").len(), OF_CLUSTER.len());
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
        assert_eq!(metrics.len(), OF_INVOCATION.len());
    }

    #[test]
    fn only_what_a_run_was_wholly_about_is_called_a_full_sync_and_a_plan_tells_nothing() {
        use Whole::{Everything, Nothing, OneCluster};

        let told = |mode, whole, unreadable| {
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
            assert_eq!(told(mode, whole, unreadable), expected, "{mode} {unreadable}");
        }
    }
}
