//! The state of one cluster's report as a whole: unreadable, complete, with changes left undone, or with a loss that the
//! guard holds. The run reads these to decide whether it was complete.

use std::collections::BTreeMap;
use std::error::Error;

use serde::{Deserialize, Serialize};

use super::{ChangeLine, ChangeResult, ClusterReport, Counts, MultiClusterReport, ServiceReport};
use crate::error::chain;
use crate::model::{GuardState, ServiceRef};

impl ClusterReport {
    /// The report of a cluster that could not be read.
    pub fn unreadable(cluster: &str, error: &dyn Error) -> Self {
        let counts = Counts { unreadable: 1, ..Counts::default() };
        Self { cluster: cluster.to_owned(), error: Some(chain(error)), counts, ..Self::default() }
    }

    /// The report of an entry of the settings that is not served, as another one serves the cluster.
    pub fn held_back(entry: &str, error: &dyn Error) -> Self {
        let counts = Counts { held_back: 1, ..Counts::default() };
        Self { cluster: entry.to_owned(), warnings: vec![chain(error)], counts, ..Self::default() }
    }

    /// Whether the cluster was read and every change was made. A held-back change does not count, since a retry does
    /// not help.
    pub fn is_complete(&self) -> bool {
        let open = self.multi_cluster.as_ref().map_or(0, MultiClusterReport::open);
        self.error.is_none() && self.counts.failed == 0 && self.counts.undone == 0 && open == 0
    }

    /// The reasons for which something is held back, each with its number; `None` if nothing is.
    pub fn reasons(&self) -> Option<String> {
        let lines = self.services.iter().flat_map(|service| &service.held_back);
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for line in lines.chain(&self.held_back) {
            *reasons.entry(&line.reason).or_default() += 1;
        }
        let reasons = reasons.iter().map(|(reason, count)| format!("{count} {reason}"));
        Some(reasons.collect::<Vec<_>>().join(", ")).filter(|reasons| !reasons.is_empty())
    }

    /// The report with the lines of another run for the same cluster. Instances of other owners are counted once.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        for service in other.services {
            let same = |it: &&mut ServiceReport| {
                (&it.namespace, &it.name) == (&service.namespace, &service.name)
            };
            match self.services.iter_mut().find(same) {
                Some(known) => known.add(service),
                None => self.services.push(service),
            }
        }
        self.held_back.extend(other.held_back);
        self.warnings.extend(other.warnings);
        self.unread = self.unread.max(other.unread);
        self.oldest_read = self.oldest_read.max(other.oldest_read);
        self.guard = self.guard.or(other.guard);
        self.error = self.error.or(other.error);
        self.counts = Counts::of(&self);
        self
    }
}

impl ServiceReport {
    /// The Cloud Map service with its namespace.
    pub fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    fn add(&mut self, other: Self) {
        self.unchanged += other.unchanged;
        self.emptied &= other.emptied;
        self.unreadable = self.unreadable.take().or(other.unreadable);
        self.changes.extend(other.changes);
        self.held_back.extend(other.held_back);
        self.notes.extend(other.notes);
        self.refused.extend(other.refused);
    }
}

impl ChangeLine {
    /// Whether the change failed or was not attempted.
    pub fn is_left_undone(&self) -> bool {
        matches!(self.result, ChangeResult::Failed { .. } | ChangeResult::Undone { .. })
    }
}

/// A loss that exceeds the guard's limits: numbers for alarms and scripts, and one sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuardReport {
    /// The guard's decision.
    pub state: GuardState,
    /// The number of instances to deregister.
    pub loss: usize,
    /// The number of instances before the loss.
    pub instances: usize,
    /// `GUARD_SHARE`, in per cent.
    pub share: u8,
    /// `GUARD_MINIMUM`.
    pub minimum: usize,
    /// The time of the first full sync with this loss, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_seen: Option<String>,
    /// Whether an earlier full sync saw the same loss.
    pub later_look: bool,
    /// The time from which a full sync with the same loss carries it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifts_from: Option<String>,
    /// The Services that lose instances.
    pub services: Vec<LosingService>,
    /// All of this as one sentence.
    pub detail: String,
}

/// A Service that loses instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LosingService {
    pub service: ServiceRef,
    pub instances: usize,
}

impl GuardReport {
    /// Whether the losing Services keep their instances.
    pub fn holds(&self) -> bool {
        use GuardState::{Held, HeldByFullSync, LeftToFullSync};
        matches!(self.state, Held | LeftToFullSync | HeldByFullSync)
    }
}
