//! The status of a ServiceImport: the exporting clusters, and the condition `Ready`. Conditions of other controllers
//! stay.

use serde_json::{Value, json};

use super::basis::Basis;
use super::change::{Change, Kind, Stage, Write};
use super::derived_service::Derived;
use super::present::{Condition, ImportStatus};
use super::{patch, refused, service_import};
use crate::model::Timestamp;
use crate::model::clusterset::{ClusterId, ClustersetService, ImportType, InternalTrafficPolicy};

const READY: &str = "Ready";

/// Whether the import can be used at the end of this run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// With all that people have to know of it.
    Ready(String),
    /// A change failed, with the message of the API server.
    Failed(String),
    /// The cluster has none of the families of the exports.
    FamilyNotSupported,
}

impl Readiness {
    pub(super) fn of(
        basis: &Basis<'_>,
        service: &ClustersetService,
        derived: Option<&Derived<'_>>,
    ) -> Self {
        let has_ips = derived.is_some_and(|it| !it.families.is_empty());
        match basis.failure {
            _ if service.kind == ImportType::ClusterSetIp && !has_ips => Self::FamilyNotSupported,
            Some(failure) => Self::Failed(failure.message.clone()),
            None => Self::Ready(completeness(basis, service)),
        }
    }

    /// Status, reason and message of the condition.
    fn content(&self) -> (&'static str, &'static str, &str) {
        match self {
            Self::Ready(message) => ("True", "Ready", message),
            Self::Failed(message) => ("False", "Pending", message),
            Self::FamilyNotSupported => (
                "False",
                "IPFamilyNotSupported",
                "this cluster has none of the IP families of the exports",
            ),
        }
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
    readiness: &Readiness,
) -> Option<Change> {
    let missing = ImportStatus::default();
    let present = basis.import().map_or(&missing, |import| &import.status);
    let declared = basis.importer.declares_slice_objects;
    let wanted = ImportStatus {
        clusters: clusters.iter().map(ToString::to_string).collect(),
        conditions: conditions(&present.conditions, readiness, basis.now),
        endpoint_slice_objects: declared.then(|| "Present".to_owned()),
    };
    let body = patch::difference(&json_of(present, declared), &json_of(&wanted, declared))?;
    let (status, reason, _) = readiness.content();
    let detail = format!("{READY} {status}/{reason}, from {}", wanted.clusters.join(", "));
    let object = service_import::object(basis);
    Some(Change { stage: Stage::Status, object, write: Write::PatchStatus(body), detail })
}

/// The present conditions, with ours among them. Its time moves only if its status changes.
fn conditions(present: &[Condition], readiness: &Readiness, now: Timestamp) -> Vec<Condition> {
    let (status, reason, message) = readiness.content();
    let ours = present.iter().find(|it| it.kind == READY);
    let unchanged = ours.filter(|it| it.status == status);
    let ready = Condition {
        kind: READY.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: unchanged.and_then(|it| it.observed_generation),
        last_transition_time: unchanged.map_or(now, |it| it.last_transition_time),
    };
    let mut conditions = present.to_vec();
    match conditions.iter_mut().find(|it| it.kind == READY) {
        Some(ours) => *ours = ready,
        None => conditions.push(ready),
    }
    conditions
}

fn json_of(status: &ImportStatus, declares_slice_objects: bool) -> Value {
    let mut value = json!({
        "clusters": status.clusters.iter().map(|it| json!({"cluster": it})).collect::<Vec<_>>(),
        "conditions": status.conditions.iter().map(condition).collect::<Vec<_>>(),
    });
    if let Some(objects) = status.endpoint_slice_objects.as_ref().filter(|_| declares_slice_objects)
    {
        value["endpointSliceObjects"] = json!(objects);
    }
    json!({"status": value})
}

fn condition(condition: &Condition) -> Value {
    let time = condition.last_transition_time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut value = json!({
        "type": condition.kind,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": time,
    });
    if let Some(generation) = condition.observed_generation {
        value["observedGeneration"] = json!(generation);
    }
    value
}
