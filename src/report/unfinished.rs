//! The unfinished work of a run in one cluster that a retry can complete. It is derived from the cluster's report, and
//! decides which messages return to the queue.

use std::collections::BTreeSet;

use super::{ChangeResult, ClusterReport};
use crate::model::{Selection, ServiceRef};

/// The unfinished work of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// A read failed, so the Services concerned are unknown.
    unread: bool,
    /// Services in Cloud Map were not read yet, which may have instances of a Service that is gone.
    is_partly_read: bool,
    /// The Services with a change that failed, or for which there was no time.
    failed: BTreeSet<ServiceRef>,
    /// Whether a read of the clusterset failed.
    unread_clusterset: bool,
    /// The names with a failed change of the clusterset.
    of_clusterset: BTreeSet<ServiceRef>,
}

impl Unfinished {
    /// The unfinished work in a report.
    pub fn of(report: &ClusterReport) -> Self {
        let (unread, is_partly_read) = (report.error.is_some(), report.unread > 0);
        let mut open = Self { unread, is_partly_read, ..Self::default() };
        if let Some(part) = &report.multi_cluster {
            open.unread_clusterset |= part.has_failed();
            open.of_clusterset.extend(part.unfinished.iter().cloned());
        }
        for service in &report.services {
            open.unread |= service.unreadable.is_some();
            let held_back = service.held_back.iter().filter(|line| line.failed);
            open.failed.extend(held_back.map(|line| line.service.clone()));
            let is_open = |it: &ChangeResult| {
                matches!(it, ChangeResult::Failed { .. } | ChangeResult::Undone { .. })
            };
            let changes = service.changes.iter().filter(|line| is_open(&line.result));
            open.failed.extend(changes.map(|line| line.service.clone()));
        }
        open
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

    /// Whether no work that a retry can complete is left for the selected Services. A full sync is followed by the next one.
    pub fn is_complete_for(&self, selection: &Selection) -> bool {
        let is_read = !self.is_partly_read || *selection == Selection::Everything;
        !self.unread
            && is_read
            && !self.failed.iter().any(|service| selection.contains(service))
            && self.is_imported(selection)
    }
}
