//! What is counted of a whole invocation. Alarms look here: what a cluster's metrics are called, with
//! its ARN as a dimension, a template cannot know.

use super::Metric;
use crate::model::Verb;
use crate::report::{ChangeResult, ClusterReport, Report};

/// The metrics of an invocation.
pub const OF_INVOCATION: [Metric<Report>; 14] = [
    Metric::counted(
        "GoodFullSync",
        "1 if every full sync of the run was complete, 0 if one was not",
        is_good,
    )
    .told_where(is_about_a_whole_cluster),
    Metric::counted("ClustersUnreadable", "clusters that could not be read", |report| {
        report.counts.unreadable
    }),
    Metric::counted("Changes", "drift repaired: all changes that were made", |report| {
        changes(report, &ChangeResult::Applied)
    }),
    Metric::counted(
        "PlannedChanges",
        "drift found and left: all changes that a dry run would make",
        |report| changes(report, &ChangeResult::Planned),
    ),
    Metric::counted("OutOfStep", "`Missing` and `Leftover` of all clusters", |report| {
        sum(report, |it| it.missing() + it.left_undone(Verb::Deregister))
    }),
    Metric::seconds(
        "OldestMissing",
        "seconds since a run first left the oldest endpoint of `Missing` so, as far as \
         this process of the function knows",
        |report| report.oldest.missing,
    ),
    Metric::seconds("OldestLeftover", "the same of `Leftover`", |report| report.oldest.leftover),
    Metric::counted("HeldBack", "`HeldBack` of all clusters", |report| {
        sum(report, ClusterReport::kept_out)
    }),
    Metric::counted("Conflicts", "`Conflicts` of all clusters", |report| {
        sum(report, |cluster| cluster.held_back_as("DomainConflict"))
    }),
    Metric::counted(
        "GuardHeldAgain",
        "clusters whose full sync holds a loss that an earlier one has seen already",
        |report| sum(report, |cluster| usize::from(cluster.is_guarded_again())),
    ),
    Metric::counted("DroppedMessages", "messages that name nothing to look at", |report| {
        report.dropped.len()
    }),
    Metric::counted(
        "Orphans",
        "instances of [clusters that are gone or not configured any more](docs/operations/dead-clusters.md)",
        orphans,
    )
    .told_where(|report| report.whole),
    Metric::counted("Calls", "calls to Cloud Map, repeated ones too", |report| {
        report.traffic.calls
    }),
    Metric::counted(
        "Throttles",
        "of those, calls that Cloud Map throttled; each is repeated by itself",
        |report| report.traffic.throttles,
    ),
];

fn is_about_a_whole_cluster(report: &Report) -> bool {
    report.clusters.iter().any(|cluster| cluster.whole)
}

/// A run over all clusters is also about what belongs to none. With `FAN_OUT` there is none such: each cluster
/// has a run of its own, and the alarm looks at the least of them.
fn is_good(report: &Report) -> usize {
    let mut clusters = report.clusters.iter().filter(|cluster| cluster.whole);
    usize::from(clusters.all(ClusterReport::is_complete) && (report.ok || !report.whole))
}

fn orphans(report: &Report) -> usize {
    report.orphans.iter().map(|orphans| orphans.instances).sum()
}

fn changes(report: &Report, result: &ChangeResult) -> usize {
    let services = report.clusters.iter().flat_map(|cluster| &cluster.services);
    let lines = services.flat_map(|service| &service.changes);
    lines.filter(|line| line.result == *result).count()
}

fn sum(report: &Report, count: fn(&ClusterReport) -> usize) -> usize {
    report.clusters.iter().map(count).sum()
}
