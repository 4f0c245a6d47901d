//! What a cleanup finds beside the clusters: our empty Cloud Map services, with the result of each deletion and the reasons
//! to keep some, and the orphans of clusters that are gone. `cleanup` fills a value for each registry; the report adds them up.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::{ClusterReport, Counts, Report, Word};
use crate::model::{Outcome, Verb};

/// Our Cloud Map services that are empty, and unclaimed or of records that do not fit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EmptyServices {
    /// The services that were deleted, or would be deleted.
    pub deletions: Vec<Deletion>,
    /// The reasons to keep candidates.
    pub kept: Vec<String>,
}

/// One deletion.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Deletion {
    /// The Cloud Map namespace's name.
    pub namespace: String,
    /// The service's name.
    pub name: String,
    /// The outcome.
    #[serde(flatten)]
    pub result: Outcome,
}

impl Deletion {
    /// The service with its namespace.
    pub fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl EmptyServices {
    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.deletions.is_empty() && self.kept.is_empty()
    }

    /// Sorts deletions and reasons by name.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.deletions.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        self.kept.sort();
        self.kept.dedup();
        self
    }

    /// Whether every deletion was made.
    pub fn is_complete(&self) -> bool {
        let counts = self.counts();
        counts.failed == 0 && counts.undone == 0
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for deletion in &self.deletions {
            *counts.counter_for(Verb::Delete, &deletion.result) += 1;
        }
        counts
    }
}

impl Report {
    /// Adds the empty services of one more registry.
    #[must_use]
    pub fn with_empty_services(mut self, more: EmptyServices) -> Self {
        let counts = more.counts();
        self.counts = self.counts + counts;
        self.ok = self.ok && more.is_complete();
        self.empty_services.deletions.extend(more.deletions);
        self.empty_services.kept.extend(more.kept);
        self.empty_services = self.empty_services.in_order();
        self
    }
}

impl Display for EmptyServices {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        writeln!(f, "our Cloud Map services without instances and without a claim")?;
        for Deletion { namespace, name, result } in &self.deletions {
            writeln!(f, "  - delete     {namespace}/{name}{result}")?;
        }
        for why in &self.kept {
            writeln!(f, "  ! kept       {why}")?;
        }
        Ok(())
    }
}

/// The orphans of one cluster in one Cloud Map.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrphanReport {
    /// The number of orphans.
    pub instances: usize,
    /// `ClusterGone`, `ClusterMoved`, `ClusterUnknown` or `ClusterNotConfigured`.
    pub reason: Word,
    /// The time at which the cluster was first found to be gone, if it is recorded.
    pub since: Option<String>,
    /// The time from which they are purged.
    pub purged_from: Option<String>,
    /// A sentence with all of the above.
    pub detail: String,
    /// The changes to them, under the cluster's ARN.
    #[serde(flatten)]
    pub done: ClusterReport,
}

impl Display for OrphanReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "orphans of cluster {}", self.done.heading())?;
        writeln!(f, "  ! orphans    {}", self.detail)?;
        self.done.services.iter().try_for_each(|service| write!(f, "{service}"))
    }
}
