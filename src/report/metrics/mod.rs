//! A report as CloudWatch metrics: lines in the embedded metric format, one for each cluster and one
//! for the invocation, of which CloudWatch Logs makes metrics without a call. What is counted, and how,
//! is in `cluster` and `invocation`; the README's table is made from those lists, and the alarms and the
//! dashboard in template.yaml use their names. Few dimensions, since CloudWatch bills each combination.

mod cluster;
#[cfg(test)]
mod counting;
mod invocation;

use std::io;
use std::time::SystemTime;

use metrique_writer::unit::{Count, WithUnit};
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
    count: fn(&T) -> usize,
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
    // A targeted sync says nothing of the whole: `GoodFullSync`, the first of both lists.
    let skipped = usize::from(!report.whole);
    for of in &report.clusters {
        let dimensions = [(FUNCTION, function), (CLUSTER, of.cluster.as_str())];
        document(time, &dimensions, &OF_CLUSTER[skipped..], of, output)?;
    }
    document(time, &[(FUNCTION, function)], &OF_INVOCATION[skipped..], report, output)
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
        for metric in self.metrics {
            let count = u64::try_from((metric.count)(self.of)).unwrap_or(u64::MAX);
            writer.value(metric.name, &WithUnit::<u64, Count>::from(count));
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

    fn lines(mode: Mode, whole: bool) -> Vec<Value> {
        let counts = Counts { registered: 2, foreign: 3, ..Counts::default() };
        let cluster = ClusterReport { cluster: "blue".into(), counts, ..ClusterReport::default() };
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
        let [cluster, invocation] = lines(Mode::Sync, true).try_into().expect("two lines");
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
        assert_eq!(invocation["GoodFullSync"], 1);
        let directive = &invocation["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(directive["Dimensions"], serde_json::json!([[FUNCTION]]));
    }

    #[test]
    fn a_targeted_sync_says_nothing_of_the_whole_and_a_plan_nothing_at_all() {
        let targeted = lines(Mode::Sync, false);
        assert_eq!(targeted.len(), 2);
        assert!(targeted.iter().all(|line| line.get("GoodFullSync").is_none()));
        assert_eq!((&targeted[0]["Registered"], &targeted[1]["Changes"]), (&2.into(), &0.into()));
        assert!(lines(Mode::Plan, true).is_empty());
        assert_eq!(lines(Mode::DryRun, true)[1]["GoodFullSync"], 1);
    }
}
