//! What became of Cloud Map services that nobody needs any more.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::{ChangeResult, Counts, Report};
use crate::model::Verb;

/// Cloud Map services of ours that hold nothing and that no Service claims.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EmptyServices {
    /// Those that were deleted, or would be.
    pub deletions: Vec<Deletion>,
    /// Why some that seem to be such were kept.
    pub kept: Vec<String>,
}

/// One deletion.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Deletion {
    /// The Cloud Map namespace's name.
    pub namespace: String,
    /// The service's name.
    pub name: String,
    /// What became of it.
    #[serde(flatten)]
    pub result: ChangeResult,
}

impl EmptyServices {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.deletions.is_empty() && self.kept.is_empty()
    }

    /// The same in the order of names.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.deletions.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        self.kept.sort();
        self.kept.dedup();
        self
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for deletion in &self.deletions {
            *counts.of_change(Verb::Delete, &deletion.result) += 1;
        }
        counts
    }
}

impl Report {
    /// The report with what became of empty services, of one more registry.
    #[must_use]
    pub fn with_empty_services(mut self, more: EmptyServices) -> Self {
        let counts = more.counts();
        self.counts = self.counts + counts;
        self.ok = self.ok && counts.failed == 0 && counts.undone == 0;
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
        writeln!(f, "Cloud Map services of ours that hold nothing and that no Service claims")?;
        for Deletion { namespace, name, result } in &self.deletions {
            writeln!(f, "  - delete     {namespace}/{name}{result}")?;
        }
        for why in &self.kept {
            writeln!(f, "  ! kept       {why}")?;
        }
        Ok(())
    }
}
