//! The status of a ServiceImport: the exporting clusters, and the condition `Ready`. Conditions of other controllers
//! stay.

use serde_json::{Value, json};

use super::basis::Basis;
use super::change::{Change, Content, Kind, Stage, Write};
use super::held_back::Reason;
use super::present::ImportStatus;
use super::{patch, refused, service_import};
use crate::model::clusterset::{ClusterId, ClustersetService, ImportType, InternalTrafficPolicy};
use crate::model::{Condition, ConditionStatus};

const READY: &str = "Ready";

/// Whether the import can be used at the end of this run. `obstacle`: the reason why it has no IP.
pub(super) fn ready(
    basis: &Basis<'_>,
    service: &ClustersetService,
    obstacle: Option<&Reason>,
) -> Condition {
    let (status, reason, message) = match (obstacle, basis.failure) {
        (Some(obstacle), _) => {
            let message = "this cluster has none of the IP families of the exports".to_owned();
            (ConditionStatus::False, obstacle.code(), message)
        }
        (None, Some(failure)) => (ConditionStatus::False, "Pending", failure.message.clone()),
        (None, None) => (ConditionStatus::True, READY, completeness(basis, service)),
    };
    Condition {
        kind: READY.to_owned(),
        status,
        reason: reason.to_owned(),
        message,
        observed_generation: None,
        last_transition_time: basis.now,
    }
}

/// What the import does, for people.
fn completeness(basis: &Basis<'_>, service: &ClustersetService) -> String {
    let mut text = "the import is complete".to_owned();
    let left_out = refused::describe(basis, service);
    if !left_out.is_empty() {
        text += ", without what this cluster's API server refuses: ";
        text += &left_out.join(", ");
    }
    let has_ip = service.kind == ImportType::ClusterSetIp;
    let routing = refused::accepted(basis, Kind::Service, service);
    if has_ip && routing.properties.internal_traffic_policy == InternalTrafficPolicy::Local {
        text += "; with internalTrafficPolicy Local its IP leads to pods of the client's own node alone";
    }
    text
}

/// The patch of the status, if it differs.
pub(super) fn change(
    basis: &Basis<'_>,
    clusters: &[ClusterId],
    ready: Condition,
) -> Option<Change> {
    let missing = ImportStatus::default();
    let present = basis.import().map_or(&missing, |import| &import.status);
    let declared = basis.importer.declares_slice_objects;
    let clusters: Vec<String> = clusters.iter().map(ToString::to_string).collect();
    let status = format!("{READY} {}/{}", ready.status.as_str(), ready.reason);
    let detail = format!("{status}, from {}", clusters.join(", "));
    let wanted = ImportStatus {
        clusters,
        conditions: conditions(&present.conditions, ready),
        endpoint_slice_objects: declared.then(|| "Present".to_owned()),
    };
    let body = patch::difference(&json_of(present, declared), &json_of(&wanted, declared))?;
    let (object, content) = (service_import::object(basis), Content::new(body));
    Some(Change { stage: Stage::Status, object, write: Write::PatchStatus, content, detail })
}

/// The present conditions, with ours among them. Its time moves only if its status changes.
fn conditions(present: &[Condition], mut ready: Condition) -> Vec<Condition> {
    let mut conditions = present.to_vec();
    let Some(ours) = conditions.iter_mut().find(|it| it.kind == READY) else {
        conditions.push(ready);
        return conditions;
    };
    if ours.status == ready.status {
        ready.observed_generation = ours.observed_generation;
        ready.last_transition_time = ours.last_transition_time;
    }
    *ours = ready;
    conditions
}

fn json_of(status: &ImportStatus, declares_slice_objects: bool) -> Value {
    let clusters: Vec<Value> = status.clusters.iter().map(|it| json!({"cluster": it})).collect();
    let objects = status.endpoint_slice_objects.as_ref().filter(|_| declares_slice_objects);
    json!({"status": patch::without_empty(json!({
        "clusters": clusters,
        "conditions": status.conditions,
        "endpointSliceObjects": objects,
    }))})
}
