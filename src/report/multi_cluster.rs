//! The part of a cluster's report about its clusterset: who it is, and the changes of its imports. The exports are among
//! the Cloud Map services.

use serde::{Deserialize, Serialize};

use super::{ChangeResult, Word};
use crate::model::ServiceRef;

/// A cluster in its clusterset.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MultiClusterReport {
    /// Its id in the clusterset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clusterset: Option<String>,
    /// The reasons why the cluster does not export or import.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<Obstacle>,
    /// The number of its exports.
    pub exports: usize,
    /// The number of its imports.
    pub imports: usize,
    /// The changes of its imports.
    pub changes: Vec<ImportLine>,
    /// The exports and imports that are held back.
    pub held_back: Vec<ClustersetLine>,
    /// The exports in conflict with those of other clusters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<ClustersetLine>,
}

/// A reason that is about the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obstacle {
    /// The reason's stable code.
    pub reason: Word,
    pub detail: String,
    /// Whether the next run may find it gone by itself.
    pub failed: bool,
}

/// A change of an object of an import.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ImportLine {
    /// `+`, `~` or `-`, the object, and the difference.
    pub change: String,
    #[serde(flatten)]
    pub result: ChangeResult,
}

/// A line about one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClustersetLine {
    pub service: ServiceRef,
    /// The reason's stable code; of conflicts, all codes.
    pub reason: Word,
    pub detail: String,
}

impl MultiClusterReport {
    /// The number of changes and obstacles that a retry may help.
    pub(super) fn open(&self) -> usize {
        let is_open = |line: &&ImportLine| {
            matches!(line.result, ChangeResult::Failed { .. } | ChangeResult::Undone { .. })
        };
        let obstacles = self.obstacles.iter().filter(|obstacle| obstacle.failed).count();
        self.changes.iter().filter(is_open).count() + obstacles
    }
}
