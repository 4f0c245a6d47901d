//! The exports of a cluster: they are published, and then get their conditions, from their outcomes and the conflicts of
//! their names, and an Event for each that turned bad.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use serde_json::json;

use super::Joined;
use crate::clusterset::conditions::{ExportOutcome, conditions_to_apply, turned_bad};
use crate::clusterset::id::{self, EXPORT_RECORD};
use crate::clusterset::merge::Merged;
use crate::clusterset::record;
use crate::error::chain;
use crate::import::Imported;
use crate::import::sources::Members;
use crate::kubernetes::objects::{Named, Resource};
use crate::model::{About, Condition, Notice, Outcome, Overlay, Selection, ServiceRef, Tone};
use crate::publish::exports::{self, Exported, Exporting, Offer, Purpose};
use crate::publish::observe::SharedRegistry;
use crate::report::{ClustersetLine, ImportLine, Mode, MultiClusterReport, Obstacle, Word};

/// The number of statuses that are written at once.
const SIDE_BY_SIDE: usize = 16;

impl Joined<'_> {
    /// Publishes the exports of the cluster, or adopts them, and offers them to importers. `None` if it has none to
    /// publish.
    ///
    /// # Errors
    /// Returns the reason if nothing was published.
    pub async fn export(
        &self,
        registry: &SharedRegistry,
        selection: &Selection,
        offer: impl FnOnce(Offer) + Send + Sync,
    ) -> Result<Option<Exported>, Obstacle> {
        let purpose = match &self.objects {
            _ if self.exports() && self.invocation.adoption.is_some() => Purpose::Adoption,
            _ if self.exports() => Purpose::Sync,
            Some(objects) if *selection == Selection::Everything => {
                let standing = objects.standing(&self.owner).into_keys();
                Purpose::Introduction { sources: standing.map(|(_, cluster)| cluster).collect() }
            }
            _ => return Ok(None),
        };
        let exporting = Exporting {
            world: &self.exporting(registry),
            member: &self.member,
            imports: self.standing_imports(),
            selection,
            options: self.invocation.options_for(selection),
            offer: Some(Box::new(offer)),
        };
        Ok(Some(exporting.run(purpose).await?))
    }

    /// The exports of the cluster as they are now, without Cloud Map. `None` if they cannot be read.
    pub async fn exports_in_cluster(
        &self,
        registry: &SharedRegistry,
        selection: &Selection,
    ) -> Option<Overlay> {
        if !self.exports() {
            return None;
        }
        let deadline = self.invocation.deadline;
        exports::in_cluster(&self.exporting(registry), selection, deadline).await
    }

    /// Writes the conditions of the exports, which the imports of this run may have merged, and adds the exports in
    /// conflict, those held back and the conditions that were not written to the report of the cluster.
    pub async fn write_conditions(
        &self,
        exported: &Exported,
        (members, imported): (&Members<'_>, Option<&Imported>),
        report: &mut MultiClusterReport,
    ) {
        let (mut statuses, mut notices) = (Vec::new(), Vec::new());
        for (service, outcome) in &exported.outcomes {
            let Some(export) = exported.exports().get(service) else { continue };
            let merged = imported.and_then(|it| it.imports.get(service)?.merged.clone());
            let merged = merged.or_else(|| members.merged(service));
            let merged = merged.as_deref();
            if let Some((reasons, detail)) = merged.and_then(Merged::disagreement) {
                report.conflicts.push(line(service, reasons, detail));
            }
            let problem = outcome.problem();
            report.held_back.extend(problem.map(|(reason, detail)| line(service, reason, detail)));
            let wanted = conditions_to_apply(export, outcome, merged, self.invocation.now);
            let Some(wanted) = wanted else { continue };
            let worse = turned_bad(export, &wanted).into_iter();
            notices.extend(worse.map(|(reason, note)| Notice {
                about: About::ServiceExport,
                tone: Tone::Warning,
                service: service.clone(),
                uid: export.uid.clone(),
                reason,
                note,
            }));
            statuses.push((service, wanted));
        }
        if self.invocation.mode == Mode::Sync {
            let writes = statuses.iter().map(|(service, it)| self.write_status(service, it));
            let written: Vec<_> = stream::iter(writes).buffered(SIDE_BY_SIDE).collect().await;
            for (service, is_unfinished, result) in written.into_iter().flatten() {
                report.unfinished.extend(is_unfinished.then(|| service.clone()));
                report
                    .changes
                    .push(ImportLine { change: format!("~ status     {service}"), result });
            }
            self.invocation.create_events(&self.connection.kubernetes, &notices).await;
        }
    }

    /// Writes a status. Returns the problem if it was not written, and whether a retry can write it. The status of an
    /// export that is gone is none.
    async fn write_status<'s>(
        &self,
        service: &'s ServiceRef,
        conditions: &[Condition],
    ) -> Option<(&'s ServiceRef, bool, Outcome)> {
        if !self.invocation.deadline.is_open() {
            let why = "the time of the run was over".to_owned();
            return Some((service, true, Outcome::Undone { why }));
        }
        let ServiceRef { namespace, name } = service;
        let object = Named { resource: Resource::ServiceExports, namespace, name };
        let status = status(service, conditions);
        let written = self.connection.kubernetes.apply_status(object, &status).await;
        let error = written.err().filter(|error| !error.is_not_found())?;
        let text = format!("conditions not written: {}", chain(&error));
        Some((service, !error.is_permanent(), Outcome::Failed { error: text }))
    }
}

fn line(service: &ServiceRef, reason: impl Into<Word>, detail: String) -> ClustersetLine {
    ClustersetLine { service: service.clone(), reason: reason.into(), detail }
}

impl MultiClusterReport {
    /// Adds the exports that begin, change or end in a run: their records do.
    pub fn add_exports(&mut self, exported: &Exported) {
        self.exports = exported.exports().len();
        let outcomes = exported.outcomes.iter();
        let failed = outcomes.filter(|(_, it)| {
            matches!(it.of_run(), ExportOutcome::Failed(_) | ExportOutcome::TimeRanOut)
        });
        self.unfinished.extend(failed.map(|(service, _)| service.clone()));
        // The first records are written in the turn of no Service, so the id names it.
        let exports = exported.exports().keys();
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
}

fn status(service: &ServiceRef, conditions: &[Condition]) -> serde_json::Value {
    json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": "ServiceExport",
        "metadata": {"namespace": service.namespace, "name": service.name},
        "status": {"conditions": conditions},
    })
}
