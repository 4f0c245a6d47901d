//! The exports and imports of a run in the report of their cluster.

use std::collections::BTreeMap;

use crate::clusterset::id::{self, EXPORT_RECORD};
use crate::clusterset::record;
use crate::import::Imported;
use crate::import::apply::Outcome;
use crate::model::ServiceRef;
use crate::publish::exports::Exported;
use crate::report::{ChangeResult, ClustersetLine, ImportLine, MultiClusterReport, Obstacle};

impl MultiClusterReport {
    /// Adds the exports that begin, change or end in a run: their records do.
    pub fn add_exports(&mut self, exported: &Exported) {
        // The first records are written in the turn of no Service, so the id names it.
        let exports = exported.desired.exports.keys();
        let exports: BTreeMap<String, &ServiceRef> =
            exports.map(|service| (id::export_record(service), service)).collect();
        let services = exported.report.services.iter();
        let services = services.filter(|it| record::is_namespace(&it.namespace));
        for line in services.flat_map(|service| &service.changes) {
            let Some(id) = line.instance.as_ref().filter(|id| id.starts_with(EXPORT_RECORD)) else {
                continue;
            };
            let service = exports.get(id).copied().unwrap_or(&line.service);
            let change = format!("{} export     {service}", line.change.sign());
            self.export_changes.push(ImportLine { change, result: line.result.clone() });
        }
    }

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
                ImportLine { change: made.change.line(), result }
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
