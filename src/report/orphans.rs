//! What is said of instances that were left behind by a cluster which is not kept in step any more.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::{ClusterReport, Counts, Word};

/// The orphans of one cluster in one Cloud Map.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrphanReport {
    /// How many there are.
    pub instances: usize,
    /// `ClusterGone` or `ClusterNotConfigured`.
    pub reason: Word,
    /// When the cluster was first seen to be gone, where that is noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// From when on they are purged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purged_from: Option<String>,
    /// All of it in a sentence.
    pub detail: String,
    /// What was done with them, under the cluster's ARN.
    #[serde(flatten)]
    pub done: ClusterReport,
}

impl OrphanReport {
    /// The counts of all that was done.
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
