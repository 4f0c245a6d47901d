//! What is counted of one cluster: every metric with its name, its meaning, and where in the cluster's
//! report that stands.

use super::Metric;
use crate::report::{ChangeResult, ClusterReport, GuardReport, HeldBackLine};

/// The metrics of one cluster.
pub const OF_CLUSTER: [Metric<ClusterReport>; 15] = [
    Metric {
        name: "GoodFullSync",
        meaning: "1 where the cluster was read and every change was made or planned, 0 where a full sync was incomplete",
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
        meaning: "what was asked for and stays out of Cloud Map until the Service's owner acts",
        count: ClusterReport::kept_out,
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
        name: "Missing",
        meaning: "of those two, endpoints that are ready and not registered",
        count: |cluster| cluster.left_undone("register"),
    },
    Metric {
        name: "Leftover",
        meaning: "and endpoints that are gone and still registered",
        count: |cluster| cluster.left_undone("deregister"),
    },
    Metric {
        name: "GuardHeld",
        meaning: "instances that [the guard](#the-guard) of a full sync keeps",
        count: ClusterReport::guarded,
    },
    Metric {
        name: "Emptied",
        meaning: "names that have no instance of anybody any more",
        count: |cluster| cluster.services.iter().filter(|service| service.emptied).count(),
    },
];

impl ClusterReport {
    fn held_back_lines(&self) -> impl Iterator<Item = &HeldBackLine> {
        self.held_back.iter().chain(self.services.iter().flat_map(|service| &service.held_back))
    }

    pub(super) fn held_back_as(&self, reason: &str) -> usize {
        self.held_back_lines().filter(|line| line.reason == reason).count()
    }

    pub(super) fn kept_out(&self) -> usize {
        self.held_back_lines().filter(|line| line.keeps_out).count()
    }

    /// Changes of a kind that failed or were not tried.
    pub(super) fn left_undone(&self, change: &str) -> usize {
        let changes = self.services.iter().flat_map(|service| &service.changes);
        let open = changes.filter(|line| line.change == change).filter(|line| {
            matches!(line.result, ChangeResult::Failed { .. } | ChangeResult::Undone { .. })
        });
        open.count()
    }

    fn guard_holds(&self) -> Option<&GuardReport> {
        self.guard.as_ref().filter(|guard| guard.state == "held")
    }

    fn guarded(&self) -> usize {
        self.guard_holds().map_or(0, |guard| guard.loss)
    }

    pub(super) fn is_guarded_again(&self) -> bool {
        self.guard_holds().is_some_and(|guard| guard.later_look)
    }
}
