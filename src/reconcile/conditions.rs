//! The conditions of the exports of a cluster, from their outcomes and the conflicts of their names, and an Event for
//! each that turned bad.

use futures_util::{StreamExt, stream};
use serde_json::json;

use super::{Invocation, Joined, Published};
use crate::clusterset::conditions::{
    ExportOutcome, ObservedExport, Worse, conditions_to_apply, invalid, turned_bad,
};
use crate::error::chain;
use crate::import::Imported;
use crate::import::sources::Members;
use crate::kubernetes::objects::{Named, Resource};
use crate::model::{About, Condition, Notice, ServiceExport, ServiceRef, Tone};
use crate::publish::events::LONGEST_NOTE;
use crate::report::{ClustersetLine, Mode};

/// The number of statuses that are written at once.
const SIDE_BY_SIDE: usize = 16;

impl Invocation<'_> {
    /// Writes the conditions of the exports of a cluster, which the imports of this run may have merged. Returns the exports in conflict and those held back.
    pub async fn write_conditions(
        &self,
        joined: &Joined,
        published: &Published,
        (members, imported): (&Members<'_>, Option<&Imported>),
    ) -> (Vec<ClustersetLine>, Vec<ClustersetLine>) {
        let (mut conflicts, mut held_back) = (Vec::new(), Vec::new());
        let (mut statuses, mut notices) = (Vec::new(), Vec::new());
        for (service, outcome) in &published.exported.outcomes {
            let Some(export) = published.exported.desired.exports.get(service) else { continue };
            let merged = imported.and_then(|imported| imported.merged.get(service).cloned());
            let merged = merged.or_else(|| members.merged(service));
            let merged = merged.as_deref();
            if let Some(merged) = merged.filter(|merged| !merged.conflicts.is_empty()) {
                let reasons = merged.conflicts.iter().map(|it| it.reason.as_str());
                let messages = merged.conflicts.iter().map(|it| it.message.as_str());
                conflicts.push(ClustersetLine {
                    service: service.clone(),
                    reason: reasons.collect::<Vec<_>>().join(",").into(),
                    detail: messages.collect::<Vec<_>>().join(" "),
                });
            }
            held_back.extend(held_line(service, outcome));
            let observed =
                ObservedExport { generation: export.generation, conditions: &export.conditions };
            let wanted = conditions_to_apply(observed, outcome, merged, self.now);
            let Some(wanted) = wanted else { continue };
            let worse = turned_bad(observed, &wanted).into_iter();
            notices.extend(worse.map(|worse| notice(service, export, worse)));
            statuses.push((service.clone(), wanted));
        }
        if self.mode == Mode::Sync {
            held_back.extend(self.apply_statuses(joined, &statuses).await);
            self.create_events(&joined.connection.kubernetes, &notices).await;
        }
        (conflicts, held_back)
    }

    /// Applies statuses, and returns the exports whose status could not be written. The next full sync finds the
    /// difference.
    async fn apply_statuses(
        &self,
        joined: &Joined,
        statuses: &[(ServiceRef, Vec<Condition>)],
    ) -> Vec<ClustersetLine> {
        let kubernetes = &joined.connection.kubernetes;
        let writes = statuses.iter().map(|(service, conditions)| async move {
            let (namespace, name) = (service.namespace.as_str(), service.name.as_str());
            let object = Named { resource: Resource::ServiceExports, namespace, name };
            let problem = if self.deadline.is_open() {
                let written = kubernetes.apply_status(object, &status(service, conditions)).await;
                chain(&written.err()?)
            } else {
                "the time of the run was over".to_owned()
            };
            let detail = format!("conditions not written: {problem}");
            Some(ClustersetLine { service: service.clone(), reason: "Failed".into(), detail })
        });
        let written: Vec<_> = stream::iter(writes).buffered(SIDE_BY_SIDE).collect().await;
        written.into_iter().flatten().collect()
    }
}

fn notice(service: &ServiceRef, export: &ServiceExport, worse: Worse) -> Notice {
    Notice {
        about: About::ServiceExport,
        tone: Tone::Warning,
        service: service.clone(),
        uid: export.uid.clone(),
        reason: worse.reason,
        note: worse.note.chars().take(LONGEST_NOTE).collect(),
    }
}

fn held_line(service: &ServiceRef, outcome: &ExportOutcome) -> Option<ClustersetLine> {
    let (reason, detail) = match outcome {
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
    let conditions: Vec<_> = conditions
        .iter()
        .map(|condition| {
            let time = condition.last_transition_time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            json!({
                "type": condition.kind,
                "status": condition.status.as_str(),
                "reason": condition.reason,
                "message": condition.message,
                "observedGeneration": condition.observed_generation,
                "lastTransitionTime": time,
            })
        })
        .collect();
    json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": "ServiceExport",
        "metadata": {"namespace": service.namespace, "name": service.name},
        "status": {"conditions": conditions},
    })
}
