//! What a run left open in one cluster that a retry could help: by this the queue learns which messages to deliver
//! again.

use std::collections::BTreeSet;

use super::{ChangeResult, ClusterReport};
use crate::model::{Held, Selection, ServiceRef};

/// What is open of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Something could not be read, so that nobody knows whose it would be.
    unread: bool,
    /// The Services something of which failed.
    failed: BTreeSet<ServiceRef>,
    /// Those for which there was no time.
    undone: BTreeSet<ServiceRef>,
    /// Those whose instances the guard kept.
    held: BTreeSet<ServiceRef>,
}

impl Unfinished {
    /// What a report tells of.
    pub fn of(report: &ClusterReport) -> Self {
        let guard = report.guard.iter().filter(|guard| guard.holds());
        let held = guard.flat_map(|guard| &guard.services).map(|it| it.service.clone());
        let held = held.collect();
        let mut open = Self { unread: report.error.is_some(), held, ..Self::default() };
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

    /// Whether there was too little time.
    pub fn is_cut_short(&self) -> bool {
        !self.undone.is_empty()
    }

    /// What the guard kept, which no rest of the run may take out.
    pub fn held(&self) -> Held {
        Held::Services(self.held.clone())
    }

    /// Somebody else does what there was no time for, for the selected Services.
    pub fn requeue(&mut self, selection: &Selection) {
        self.undone.retain(|service| !selection.contains(service));
    }

    /// Whether all that was to be done for the selected Services is done, as far as a retry could help.
    pub fn is_complete_for(&self, selection: &Selection) -> bool {
        let mut open = self.failed.union(&self.undone);
        !self.unread && !open.any(|service| selection.contains(service))
    }
}
