//! The part of a cluster's report about its clusterset: who it is, and the changes of its imports. The exports are among
//! the Cloud Map services.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::{GuardReport, Word};
use crate::model::{Outcome, ServiceRef, display};

/// A cluster in its clusterset.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MultiClusterReport {
    /// Its id in the clusterset.
    pub cluster_id: Option<String>,
    pub clusterset: Option<String>,
    /// The reasons why the cluster does not export or import.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<Obstacle>,
    /// The number of its exports.
    pub exports: usize,
    /// The number of its imports.
    pub imports: usize,
    /// The exports that begin, change or end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub export_changes: Vec<ImportLine>,
    /// The number of ready endpoints in them.
    pub imported_endpoints: usize,
    /// The guard's verdict on a loss of imported endpoints, if it exceeds the limits.
    pub guard: Option<GuardReport>,
    /// The members of its clusterset that were not heard of for long.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<StaleCluster>,
    /// The changes of its imports.
    pub changes: Vec<ImportLine>,
    /// The exports and imports that are held back.
    pub held_back: Vec<ClustersetLine>,
    /// The exports in conflict with those of other clusters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<ClustersetLine>,
    /// Whether exports or imports of the cluster stand, and an obstacle keeps them as they are until a person acts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
    /// The names with a failed change of an export, of its conditions or of an import that a retry can make.
    #[serde(skip)]
    pub unfinished: BTreeSet<ServiceRef>,
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

/// A member of the clusterset whose last full sync is longer ago than `STALE_CLUSTERS_AFTER`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StaleCluster {
    /// Its id in the clusterset.
    pub cluster_id: String,
    /// Its ARN.
    pub cluster: String,
    /// The time of that sync, in UTC.
    pub heartbeat: String,
    /// Whether its endpoints leave the imports in which other clusters have ready ones.
    pub expired: bool,
}

/// A change of an export, or of an object of an import.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ImportLine {
    /// `+`, `~` or `-`, the kind of the object, its name, and the difference.
    pub change: String,
    #[serde(flatten)]
    pub result: Outcome,
}

/// A line about one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClustersetLine {
    pub service: ServiceRef,
    /// The reason's stable code; of conflicts, all codes.
    pub reason: Word,
    pub detail: String,
}

impl Obstacle {
    /// A read that failed, which the next run may make.
    pub fn unreadable(detail: String) -> Self {
        Self { reason: "Unreadable".into(), detail, failed: true }
    }
}

impl MultiClusterReport {
    /// Whether nothing was changed, held back or in the way.
    pub fn is_quiet(&self) -> bool {
        let is_unchanged = self.changes.is_empty() && self.held_back.is_empty();
        self.obstacles.is_empty() && is_unchanged && self.guard.is_none()
    }

    /// Whether an obstacle may be gone in the next run by itself.
    pub fn has_failed(&self) -> bool {
        self.obstacles.iter().any(|obstacle| obstacle.failed)
    }

    /// The number of changes of objects that were made, or would be made.
    pub fn made(&self) -> usize {
        let is_made = |line: &&ImportLine| line.result.is_made();
        self.changes.iter().filter(is_made).count()
    }

    /// Whether nothing is left for a retry.
    pub fn is_complete(&self) -> bool {
        self.open() == 0
    }

    /// The number of changes that are left to be made, and of obstacles in their way.
    pub(super) fn open(&self) -> usize {
        let is_open = |line: &&ImportLine| !line.result.is_made();
        let obstacles = self.obstacles.iter().filter(|obstacle| obstacle.failed).count();
        self.changes.iter().filter(is_open).count() + obstacles + usize::from(self.frozen)
    }
}

impl Display for MultiClusterReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let (Some(cluster), Some(clusterset)) = (&self.cluster_id, &self.clusterset) {
            let exports = count(self.exports, "export");
            let imports = count(self.imports, "import");
            writeln!(f, "  clusterset {clusterset}, member {cluster}: {exports}, {imports}")?;
        }
        self.stale.iter().try_for_each(|stale| writeln!(f, "    ! stale      {stale}"))?;
        for Obstacle { reason, detail, .. } in &self.obstacles {
            let word = if self.frozen { "held back" } else { "obstacle" };
            writeln!(f, "    ! {word:<10} ({reason}): {detail}")?;
        }
        let mut changes = self.export_changes.iter().chain(&self.changes);
        changes.try_for_each(|line| writeln!(f, "    {line}"))?;
        self.held_back.iter().try_for_each(|line| writeln!(f, "    ! held back  {line}"))?;
        self.conflicts.iter().try_for_each(|line| writeln!(f, "    ! Conflict   {line}"))?;
        self.guard.iter().try_for_each(|guard| writeln!(f, "    {guard}"))
    }
}

/// `1 import`, `2 imports`
pub fn count(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

display!(StaleCluster { cluster_id, cluster, heartbeat, expired } =>
    "member {cluster_id} ({cluster}) was last synced at {heartbeat}; its endpoints {}",
    if *expired { "leave the imports in which other clusters have ready ones" } else { "stay in the imports" });

display!(ImportLine { change, result } => "{change}{result}");

display!(ClustersetLine { service, reason, detail } => "{service} ({reason}): {detail}");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_names_the_member_and_every_line() {
        let line = |reason: &'static str, detail: &str| ClustersetLine {
            service: ServiceRef::new("shop", "web"),
            reason: reason.into(),
            detail: detail.to_owned(),
        };
        let change = |change: &str, result| ImportLine { change: change.to_owned(), result };
        let failed = Outcome::Failed { error: "403 Forbidden".to_owned() };
        let report = MultiClusterReport {
            cluster_id: Some("blue".to_owned()),
            clusterset: Some("shop-set".to_owned()),
            obstacles: vec![Obstacle {
                reason: "UnfamiliarRegistry".into(),
                detail: "no record".to_owned(),
                failed: false,
            }],
            exports: 2,
            imports: 1,
            export_changes: vec![change("+ export     shop/api", Outcome::Applied)],
            imported_endpoints: 3,
            guard: None,
            stale: vec![StaleCluster {
                cluster_id: "green".to_owned(),
                cluster: "arn:aws:eks:eu-central-1:111122223333:cluster/green".to_owned(),
                heartbeat: "2026-11-21T10:51:00Z".to_owned(),
                expired: false,
            }],
            changes: vec![
                change("+ import     shop/web  ClusterSetIP", Outcome::Applied),
                change("~ service    shop/derived-x  port 81", failed),
            ],
            held_back: vec![line("ForeignObject", "it is not ours")],
            conflicts: vec![line("PortConflict", "the ports differ")],
            ..MultiClusterReport::default()
        };
        insta::assert_snapshot!(report.to_string(), @"
          clusterset shop-set, member blue: 2 exports, 1 import
            ! stale      member green (arn:aws:eks:eu-central-1:111122223333:cluster/green) was last synced at 2026-11-21T10:51:00Z; its endpoints stay in the imports
            ! obstacle   (UnfamiliarRegistry): no record
            + export     shop/api
            + import     shop/web  ClusterSetIP
            ~ service    shop/derived-x  port 81  ! failed: 403 Forbidden
            ! held back  shop/web (ForeignObject): it is not ours
            ! Conflict   shop/web (PortConflict): the ports differ
        ");
        assert_eq!((report.open(), report.made()), (1, 1));
    }
}
