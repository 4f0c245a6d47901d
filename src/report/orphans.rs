//! The orphans of one cluster in one Cloud Map: their number, the reason, and the result of a purge. `cleanup` fills
//! it; the report counts and prints it.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::{ClusterReport, Counts, Word};

/// The orphans of one cluster in one Cloud Map.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrphanReport {
    /// The number of orphans.
    pub instances: usize,
    /// `ClusterGone`, `ClusterMoved`, `ClusterUnknown` or `ClusterNotConfigured`.
    pub reason: Word,
    /// The time at which the cluster was first found to be gone, if it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The time from which they are purged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purged_from: Option<String>,
    /// A sentence with all of the above.
    pub detail: String,
    /// The changes to them, under the cluster's ARN.
    #[serde(flatten)]
    pub done: ClusterReport,
}

impl OrphanReport {
    /// The counts of their changes.
    pub fn counts(&self) -> Counts {
        self.done.counts
    }
}

impl Display for OrphanReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "orphans of cluster {}", self.done.heading())?;
        writeln!(f, "  ! orphans    {}", self.detail)?;
        self.done.services.iter().try_for_each(|service| write!(f, "{service}"))
    }
}
