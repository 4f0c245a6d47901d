//! What is counted of a whole invocation. Alarms look here: what a cluster's metrics are called, with
//! its ARN as a dimension, a template cannot know.

use super::Metric;
use crate::report::{ChangeResult, ClusterReport, Report};

/// The metrics of an invocation.
pub const OF_INVOCATION: [Metric<Report>; 9] = [
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
        name: "OutOfStep",
        meaning: "`Missing` and `Leftover` of all clusters",
        count: |report| sum(report, |it| it.left_undone("register") + it.left_undone("deregister")),
    },
    Metric {
        name: "HeldBack",
        meaning: "`HeldBack` of all clusters",
        count: |report| sum(report, ClusterReport::kept_out),
    },
    Metric {
        name: "Conflicts",
        meaning: "`Conflicts` of all clusters",
        count: |report| sum(report, |cluster| cluster.held_back_as("DomainConflict")),
    },
    Metric {
        name: "GuardHeldAgain",
        meaning: "clusters whose full sync holds a loss that an earlier one has seen already",
        count: |report| sum(report, |cluster| usize::from(cluster.is_guarded_again())),
    },
    Metric {
        name: "DroppedMessages",
        meaning: "messages that name nothing to look at",
        count: |report| report.dropped.len(),
    },
];

fn changes(report: &Report, result: &ChangeResult) -> usize {
    let services = report.clusters.iter().flat_map(|cluster| &cluster.services);
    let lines = services.flat_map(|service| &service.changes);
    lines.filter(|line| line.result == *result).count()
}

fn sum(report: &Report, count: fn(&ClusterReport) -> usize) -> usize {
    report.clusters.iter().map(count).sum()
}
