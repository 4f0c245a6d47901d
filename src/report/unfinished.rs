//! The unfinished work of a run in one cluster that a retry can complete. It is derived from the cluster's report, and
//! decides which messages return to the queue.

use std::collections::BTreeSet;

use super::{ChangeResult, ClusterReport};
use crate::model::{Held, Selection, ServiceRef};

/// The unfinished work of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// A read failed, so the Services concerned are unknown.
    unread: bool,
    /// The Services with a failed change.
    failed: BTreeSet<ServiceRef>,
    /// The Services with changes left at the deadline.
    undone: BTreeSet<ServiceRef>,
    /// The Services with instances that the guard kept.
    held: BTreeSet<ServiceRef>,
    /// Whether a read of the clusterset failed.
    unread_clusterset: bool,
    /// The names with a failed change of the clusterset.
    of_clusterset: BTreeSet<ServiceRef>,
}

impl Unfinished {
    /// The unfinished work in a report.
    pub fn of(report: &ClusterReport) -> Self {
        let of_imports = report.multi_cluster.iter().filter_map(|it| it.guard.as_ref());
        let guard = report.guard.iter().chain(of_imports).filter(|guard| guard.holds());
        let held = guard.flat_map(|guard| &guard.services).map(|it| it.service.clone());
        let held = held.collect();
        let mut open = Self { unread: report.error.is_some(), held, ..Self::default() };
        if let Some(part) = &report.multi_cluster {
            open.unread_clusterset |= part.has_failed();
            open.of_clusterset.extend(part.unfinished.iter().cloned());
        }
        for service in &report.services {
            open.unread |= service.unreadable.is_some();
            let held_back = service.held_back.iter().filter(|line| line.failed);
            open.failed.extend(held_back.map(|line| line.service.clone()));
            for line in &service.changes {
                match line.result {
                    ChangeResult::Failed { .. } => open.failed.insert(line.service.clone()),
                    ChangeResult::Undone { .. } => open.undone.insert(line.service.clone()),
                    ChangeResult::Planned | ChangeResult::Applied => continue,
                };
            }
        }
        open
    }

    /// Whether the run ended at its deadline.
    pub fn is_cut_short(&self) -> bool {
        !self.undone.is_empty()
    }

    /// The Services that the guard held. A continuation of the run may not deregister their instances.
    pub fn held(&self) -> Held {
        Held::Services(self.held.clone())
    }

    /// Marks the undone work of the selected Services as requeued.
    pub fn requeue(&mut self, selection: &Selection) {
        self.undone.retain(|service| !selection.contains(service));
    }

    /// Whether no failed change of the clusterset is left that a retry can make for the selected Services. A cluster that
    /// could not be read follows by its own full sync, unless a message names it.
    pub fn is_followed(&self, selection: &Selection) -> bool {
        !self.of_clusterset.iter().any(|service| selection.contains(service))
    }

    /// The same for a cluster that a message names.
    pub fn is_imported(&self, selection: &Selection) -> bool {
        !self.unread_clusterset && self.is_followed(selection)
    }

    /// Whether no work that a retry can complete is left for the selected Services.
    pub fn is_complete_for(&self, selection: &Selection) -> bool {
        let mut open = self.failed.union(&self.undone);
        !self.unread
            && !open.any(|service| selection.contains(service))
            && self.is_imported(selection)
    }
}
