//! The conditions of the exports of a cluster, from their outcomes and the conflicts of their names, and an Event for
//! each that turned bad.

use futures_util::{StreamExt, stream};
use serde_json::json;

use super::{Invocation, Joined};
use crate::clusterset::conditions::{
    ExportOutcome, ObservedExport, Worse, conditions_to_apply, invalid, turned_bad,
};
use crate::error::chain;
use crate::import::Imported;
use crate::import::sources::Members;
use crate::kubernetes::objects::{Named, Resource};
use crate::model::{About, Condition, Notice, ServiceExport, ServiceRef, Tone};
use crate::publish::exports::Exported;
use crate::report::{ChangeResult, ClustersetLine, ImportLine, Mode, MultiClusterReport};

/// The number of statuses that are written at once.
const SIDE_BY_SIDE: usize = 16;

impl Invocation<'_> {
    /// Writes the conditions of the exports of a cluster, which the imports of this run may have merged, and adds the exports in
    /// conflict, those held back and the conditions that were not written to its report.
    pub async fn write_conditions(
        &self,
        joined: &Joined,
        exported: &Exported,
        (members, imported): (&Members<'_>, Option<&Imported>),
        report: &mut MultiClusterReport,
    ) {
        let (mut statuses, mut notices) = (Vec::new(), Vec::new());
        for (service, outcome) in &exported.outcomes {
            let Some(export) = exported.exports().get(service) else { continue };
            let merged = imported.and_then(|imported| imported.merged.get(service).cloned());
            let merged = merged.or_else(|| members.merged(service));
            let merged = merged.as_deref();
            if let Some(merged) = merged.filter(|merged| !merged.conflicts.is_empty()) {
                let reasons = merged.conflicts.iter().map(|it| it.reason.as_str());
                let messages = merged.conflicts.iter().map(|it| it.message.as_str());
                report.conflicts.push(ClustersetLine {
                    service: service.clone(),
                    reason: reasons.collect::<Vec<_>>().join(",").into(),
                    detail: messages.collect::<Vec<_>>().join(" "),
                });
            }
            report.held_back.extend(held_line(service, outcome));
            let observed =
                ObservedExport { generation: export.generation, conditions: &export.conditions };
            let wanted = conditions_to_apply(observed, outcome, merged, self.now);
            let Some(wanted) = wanted else { continue };
            let worse = turned_bad(observed, &wanted).into_iter();
            notices.extend(worse.map(|worse| notice(service, export, worse)));
            statuses.push((service.clone(), wanted));
        }
        if self.mode == Mode::Sync {
            self.apply_statuses(joined, &statuses, report).await;
            self.create_events(&joined.connection.kubernetes, &notices).await;
        }
    }

    /// Applies statuses, and reports those that could not be written. The status of an export that is gone is none.
    async fn apply_statuses(
        &self,
        joined: &Joined,
        statuses: &[(ServiceRef, Vec<Condition>)],
        report: &mut MultiClusterReport,
    ) {
        let kubernetes = &joined.connection.kubernetes;
        let writes = statuses.iter().map(|(service, conditions)| async move {
            let (namespace, name) = (service.namespace.as_str(), service.name.as_str());
            let object = Named { resource: Resource::ServiceExports, namespace, name };
            if !self.deadline.is_open() {
                let why = "the time of the run was over".to_owned();
                return Some((service, true, ChangeResult::Undone { why }));
            }
            let written = kubernetes.apply_status(object, &status(service, conditions)).await;
            let error = written.err().filter(|error| !error.is_not_found())?;
            let result = ChangeResult::Failed {
                error: format!("conditions not written: {}", chain(&error)),
            };
            Some((service, !error.is_permanent(), result))
        });
        let written: Vec<_> = stream::iter(writes).buffered(SIDE_BY_SIDE).collect().await;
        for (service, is_unfinished, result) in written.into_iter().flatten() {
            report.unfinished.extend(is_unfinished.then(|| service.clone()));
            let change = format!("~ status     {service}");
            report.changes.push(ImportLine { change, result });
        }
    }
}

fn notice(service: &ServiceRef, export: &ServiceExport, worse: Worse) -> Notice {
    Notice {
        about: About::ServiceExport,
        tone: Tone::Warning,
        service: service.clone(),
        uid: export.uid.clone(),
        reason: worse.reason,
        note: worse.note,
    }
}

fn held_line(service: &ServiceRef, outcome: &ExportOutcome) -> Option<ClustersetLine> {
    let (reason, detail) = match outcome.of_run() {
        ExportOutcome::AsBefore(_) => return None,
        ExportOutcome::Exported(message) if message.is_empty() => return None,
        ExportOutcome::Exported(message) => ("Exported", message.clone()),
        ExportOutcome::Invalid(obstacle) => {
            let (reason, message) = invalid(*obstacle);
            (reason, message.to_owned())
        }
        ExportOutcome::HeldBack(line) => ("HeldBack", line.clone()),
        ExportOutcome::Failed(line) => ("Failed", line.clone()),
        ExportOutcome::Waiting(line) => ("Pending", line.clone()),
        ExportOutcome::TimeRanOut => ("Pending", "the time of the run was over".to_owned()),
    };
    Some(ClustersetLine { service: service.clone(), reason: reason.into(), detail })
}

/// The body of an apply of conditions.
fn status(service: &ServiceRef, conditions: &[Condition]) -> serde_json::Value {
    json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": "ServiceExport",
        "metadata": {"namespace": service.namespace, "name": service.name},
        "status": {"conditions": conditions},
    })
}
