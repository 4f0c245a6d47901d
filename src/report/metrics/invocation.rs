//! The metrics of a whole invocation: each with its name, its meaning and its value in the report. The alarms use
//! these, since a template cannot know the ARN that is a dimension of a cluster's metrics.

use std::collections::BTreeSet;

use super::Metric;
use crate::model::{Outcome, Verb};
use crate::report::{ClusterReport, Report};

/// The metrics of an invocation.
pub const OF_INVOCATION: [Metric<Report>; 17] = [
    Metric::counted(
        "GoodFullSync",
        "1 if every full sync of the run was complete, 0 if one was not; this, `OutOfStep` and `GuardHeldAgain` leave \
         out clusters with `page: false`",
        is_good,
    )
    .reported_if(is_about_a_cluster_that_pages),
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

fn is_about_a_cluster_that_pages(report: &Report) -> bool {
    is_sync(report) && paging(report).next().is_some()
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
