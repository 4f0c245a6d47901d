//! The imports of a run in the report of their cluster.

use crate::import::Imported;
use crate::import::apply::Outcome;
use crate::report::{ChangeResult, ClustersetLine, ImportLine, MultiClusterReport, Obstacle};

impl MultiClusterReport {
    /// Adds the imports of a run.
    pub fn add_imports(&mut self, imported: Imported) {
        self.imports = imported.imports;
        self.changes = imported
            .made
            .into_iter()
            .map(|made| {
                let result = match made.outcome {
                    Outcome::Planned => ChangeResult::Planned,
                    Outcome::Applied => ChangeResult::Applied,
                    Outcome::Failed(error) => ChangeResult::Failed { error },
                    Outcome::Undone(why) => ChangeResult::Undone { why: why.to_owned() },
                };
                ImportLine { change: made.change.to_string(), result }
            })
            .collect();
        let held_back = imported.held_back.into_iter().map(|line| ClustersetLine {
            reason: line.reason.code().into(),
            detail: line.reason.to_string(),
            service: line.service,
        });
        let unreadable = imported.unreadable.into_iter().map(|(service, detail)| ClustersetLine {
            service,
            reason: "Unreadable".into(),
            detail,
        });
        self.held_back.extend(held_back.chain(unreadable));
        if imported.is_unfamiliar {
            self.obstacles.push(Obstacle {
                reason: "UnfamiliarRegistry".into(),
                detail: UNFAMILIAR.to_owned(),
                failed: false,
            });
        }
    }
}

const UNFAMILIAR: &str = "the cluster has imports, and this Cloud Map has no record of the cluster: it may be of another \
                          account or Region, or CLOUD_MAP_NAMESPACES leaves it out; nothing leaves an import by it";
