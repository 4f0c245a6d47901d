//! The state of one cluster's report as a whole: unreadable, complete, or with changes left undone.
//! The run reads these to decide whether it was complete.

use std::error::Error;

use super::{ChangeLine, ChangeResult, ClusterReport, Counts};
use crate::error::chain;

impl ClusterReport {
    /// The report of a cluster that could not be read.
    pub fn unreadable(cluster: &str, error: &dyn Error) -> Self {
        let counts = Counts { unreadable: 1, ..Counts::default() };
        Self { cluster: cluster.to_owned(), error: Some(chain(error)), counts, ..Self::default() }
    }

    /// Whether the cluster was read and every change was made. A held-back change does not count, since a retry does
    /// not help.
    pub fn is_complete(&self) -> bool {
        self.error.is_none() && self.counts.failed == 0 && self.counts.undone == 0
    }
}

impl ChangeLine {
    /// Whether the change failed or was not attempted.
    pub fn is_left_undone(&self) -> bool {
        matches!(self.result, ChangeResult::Failed { .. } | ChangeResult::Undone { .. })
    }
}
