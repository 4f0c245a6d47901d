//! A report as CloudWatch metrics: lines in the embedded metric format, one for each cluster and one
//! for the invocation, of which CloudWatch Logs makes metrics without a call. The README's table is
//! made from the same lists. Few dimensions, since CloudWatch bills each combination.

use std::io;
use std::time::SystemTime;

use metrique_writer::unit::{Count, WithUnit};
use metrique_writer::{Entry, EntryIoStream, EntryWriter, FormatExt, IoStreamError};
use metrique_writer_format_emf::Emf;

use super::{ChangeResult, ClusterReport, Mode, Report};

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

/// The metrics of one cluster.
pub const OF_CLUSTER: [Metric<ClusterReport>; 12] = [
    Metric {
        name: "InStep",
        meaning: "1 where the cluster was read and every change was made or planned, else 0",
        count: |cluster| usize::from(cluster.is_complete()),
    },
    Metric {
        name: "Created",
        meaning: "Cloud Map services created",
        count: |cluster| cluster.counts.created,
    },
    Metric {
        name: "Registered",
        meaning: "instances registered",
        count: |cluster| cluster.counts.registered,
    },
    Metric {
        name: "Rewritten",
        meaning: "instances whose attributes were repaired",
        count: |cluster| cluster.counts.rewritten,
    },
    Metric {
        name: "Deregistered",
        meaning: "instances taken out",
        count: |cluster| cluster.counts.deregistered,
    },
    Metric {
        name: "Unchanged",
        meaning: "instances of ours that were as they should be",
        count: |cluster| cluster.counts.unchanged,
    },
    Metric {
        name: "Foreign",
        meaning: "instances of others beside them",
        count: |cluster| cluster.counts.foreign,
    },
    Metric {
        name: "HeldBack",
        meaning: "what was asked for and not done, and a retry would not help",
        count: |cluster| cluster.counts.held_back,
    },
    Metric {
        name: "Conflicts",
        meaning: "of those, names that another Service of the cluster holds",
        count: |cluster| cluster.held_back_as("DomainConflict"),
    },
    Metric {
        name: "Failed",
        meaning: "changes that failed, and Cloud Map services that could not be read",
        count: |cluster| cluster.counts.failed,
    },
    Metric {
        name: "Undone",
        meaning: "changes that were not tried, for want of time or of what came before them",
        count: |cluster| cluster.counts.undone,
    },
    Metric {
        name: "Emptied",
        meaning: "names that have no instance of anybody any more",
        count: |cluster| cluster.services.iter().filter(|service| service.emptied).count(),
    },
];

/// The metrics of an invocation.
pub const OF_INVOCATION: [Metric<Report>; 5] = [
    Metric {
        name: "GoodFullSync",
        meaning: "1 where every Service of every configured cluster is in step, 0 where a full sync was incomplete",
        count: |report| usize::from(report.whole && report.ok),
    },
    Metric {
        name: "ClustersUnreadable",
        meaning: "clusters that could not be read",
        count: |report| report.counts.unreadable,
    },
    Metric {
        name: "Changes",
        meaning: "drift repaired: all changes that were made",
        count: |report| changes(report, &ChangeResult::Applied),
    },
    Metric {
        name: "PlannedChanges",
        meaning: "drift found and left: all changes that a dry run would make",
        count: |report| changes(report, &ChangeResult::Planned),
    },
    Metric {
        name: "DroppedMessages",
        meaning: "messages that name nothing to look at",
        count: |report| report.dropped.len(),
    },
];

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
    // A targeted sync says nothing of the whole.
    let skipped = usize::from(!report.whole);
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

fn changes(report: &Report, result: &ChangeResult) -> usize {
    let services = report.clusters.iter().flat_map(|cluster| &cluster.services);
    let lines = services.flat_map(|service| &service.changes);
    lines.filter(|line| line.result == *result).count()
}

impl ClusterReport {
    fn held_back_as(&self, reason: &str) -> usize {
        let of_services = self.services.iter().flat_map(|service| &service.held_back);
        let all = self.held_back.iter().chain(of_services);
        all.filter(|line| line.reason == reason).count()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::report::Counts;

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
        let counts = ["InStep", "Registered", "Foreign", "Failed"].map(|name| &cluster[name]);
        assert_eq!(counts, [1, 2, 3, 0]);
        assert_eq!(invocation["GoodFullSync"], 1);
        let directive = &invocation["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(directive["Dimensions"], serde_json::json!([[FUNCTION]]));
    }

    #[test]
    fn a_targeted_sync_says_nothing_of_the_whole_and_a_plan_nothing_at_all() {
        let targeted = lines(Mode::Sync, false);
        assert_eq!(targeted.len(), 2);
        assert!(targeted[1].get("GoodFullSync").is_none() && targeted[1]["Changes"] == 0);
        assert!(lines(Mode::Plan, true).is_empty());
        assert_eq!(lines(Mode::DryRun, true)[1]["GoodFullSync"], 1);
    }
}
