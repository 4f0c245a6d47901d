//! The metrics of one cluster: each with its name, its meaning and its value in the cluster's report. The
//! counts are derived from its lines.

use super::{ENDED, Metric};
use crate::model::{GuardState, Verb};
use crate::report::{ClusterReport, GuardReport, HeldBackLine, MultiClusterReport};

/// The metrics of one cluster.
pub const OF_CLUSTER: [Metric<ClusterReport>; 22] = [
    Metric::counted(
        "GoodFullSync",
        "1 if the cluster was read and every change was made or planned, 0 if its full sync was \
         incomplete",
        |cluster: &ClusterReport| usize::from(cluster.is_complete()),
    )
    .reported_if(|cluster| cluster.whole),
    Metric::counted(
        ENDED,
        "with `FAN_OUT`, 1 if a full sync of the cluster ended and was good, 0 if it was not, and 0 if one was queued; \
         not for clusters with `page: false`",
        |cluster: &ClusterReport| usize::from(cluster.is_complete()),
    )
    .reported_if(|cluster| cluster.awaited),
    Metric::counted("Created", "Cloud Map services created", |cluster| cluster.counts.created),
    Metric::counted("Registered", "instances registered", |cluster| cluster.counts.registered),
    Metric::counted("Rewritten", "instances whose attributes were repaired", |cluster| {
        cluster.counts.rewritten
    }),
    Metric::counted("Deregistered", "instances deregistered", |cluster| {
        cluster.counts.deregistered
    }),
    Metric::counted("Unchanged", "our instances without drift", |cluster| cluster.counts.unchanged),
    Metric::counted("Foreign", "instances of other owners under the same names", |cluster| {
        cluster.counts.foreign
    }),
    Metric::counted(
        "HeldBack",
        "requests that stay out of Cloud Map until the Service's owner acts",
        ClusterReport::kept_out,
    ),
    Metric::counted(
        "Conflicts",
        "the part of `HeldBack` with a name that another Service of the cluster holds",
        |cluster| cluster.held_back_as("DomainConflict"),
    ),
    Metric::counted(
        "Failed",
        "changes that failed, and Cloud Map services that could not be read",
        |cluster| cluster.counts.failed,
    ),
    Metric::counted(
        "Undone",
        "changes that were not attempted, because the run reached its deadline or an earlier change failed",
        |cluster| cluster.counts.undone,
    ),
    Metric::counted(
        "Missing",
        "endpoints that are ready and not registered: the registrations among `Failed` and `Undone`, and those that \
         Cloud Map rejects as invalid (`InvalidInput`)",
        ClusterReport::missing,
    ),
    Metric::counted(
        "Leftover",
        "endpoints that are gone and still registered: the deregistrations among `Failed` and `Undone`",
        |cluster| cluster.left_undone(Verb::Deregister),
    ),
    Metric::counted(
        "GuardHeld",
        "instances that [the guard](docs/operations.md#the-guard) of a full sync keeps",
        |cluster| loss_held(cluster.guard.as_ref()),
    ),
    Metric::counted("Emptied", "names that lost their last instance", |cluster| {
        cluster.services.iter().filter(|service| service.emptied).count()
    }),
    of_member(
        "Exports",
        "[exports](docs/multi-cluster.md) of the cluster; this and the next five only in a clusterset",
        |cluster| cluster.in_clusterset(|it| it.exports),
    ),
    of_member("Imports", "imports that the cluster has or should have", |cluster| {
        cluster.in_clusterset(|it| it.imports)
    }),
    of_member(
        "ImportedEndpoints",
        "ready endpoints in its imports, its own among them",
        |cluster| cluster.in_clusterset(|it| it.imported_endpoints),
    ),
    of_member(
        "ImportGuardHeld",
        "endpoints of other clusters that the guard of a full sync keeps in its imports",
        |cluster| cluster.in_clusterset(|it| loss_held(it.guard.as_ref())),
    ),
    of_member(
        "ExportConflicts",
        "exports of the cluster that disagree with those of other clusters",
        |cluster| cluster.in_clusterset(|it| it.conflicts.len()),
    ),
    of_member(
        "ClustersetUnfinished",
        "changes of exports' conditions and imports that failed or were not attempted, reads of the clusterset that failed, and a member whose exports or imports an obstacle keeps as they are",
        |cluster| cluster.in_clusterset(MultiClusterReport::open),
    ),
];

/// A metric of a cluster in a clusterset.
const fn of_member(
    name: &'static str,
    meaning: &'static str,
    count: fn(&ClusterReport) -> usize,
) -> Metric<ClusterReport> {
    Metric::counted(name, meaning, count).reported_if(|cluster| cluster.multi_cluster.is_some())
}

impl ClusterReport {
    fn in_clusterset(&self, count: impl Fn(&MultiClusterReport) -> usize) -> usize {
        self.multi_cluster.as_ref().map_or(0, count)
    }

    fn held_back_lines(&self) -> impl Iterator<Item = &HeldBackLine> {
        self.held_back.iter().chain(self.services.iter().flat_map(|service| &service.held_back))
    }

    pub(super) fn held_back_as(&self, reason: &str) -> usize {
        self.held_back_lines().filter(|line| line.reason == reason).count()
    }

    pub(super) fn kept_out(&self) -> usize {
        let frozen = self.multi_cluster.as_ref().is_some_and(|part| part.frozen);
        self.held_back_lines().filter(|line| line.keeps_out).count() + usize::from(frozen)
    }

    /// The number of changes of a kind that failed or were not attempted.
    pub(super) fn left_undone(&self, change: Verb) -> usize {
        let changes = self.services.iter().flat_map(|service| &service.changes);
        changes.filter(|line| line.change == change && line.is_left_undone()).count()
    }

    /// The number of endpoints that are ready and not registered.
    pub(super) fn missing(&self) -> usize {
        let refused = self.services.iter().map(|service| service.refused.len());
        self.left_undone(Verb::Register) + refused.sum::<usize>()
    }

    /// Whether the guard holds a loss of instances or of imported endpoints that an earlier full sync found.
    pub(super) fn is_guarded_again(&self) -> bool {
        let of_imports = self.multi_cluster.as_ref().and_then(|it| it.guard.as_ref());
        let guards = [self.guard.as_ref(), of_imports].into_iter();
        guards.filter_map(held).any(|guard| guard.later_look)
    }
}

/// The verdict of a full sync that holds a loss.
fn held(guard: Option<&GuardReport>) -> Option<&GuardReport> {
    guard.filter(|guard| guard.state == GuardState::Held)
}

fn loss_held(guard: Option<&GuardReport>) -> usize {
    held(guard).map_or(0, |guard| guard.loss)
}
