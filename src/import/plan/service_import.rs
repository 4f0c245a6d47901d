//! The ServiceImport: its metadata, spec and status.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::change::{self, Change, Content, Kind, ObjectRef, Stage, Write};
use super::derived_service::Derived;
use super::held_back::Reason;
use super::import_guard::{ImportNote, NoteChange};
use super::input::PlanInput;
use super::ownership::OwnerLabel;
use super::present_objects::{ImportStatus, Metadata, Present, Texts};
use super::refused::{self, REFUSED};
use crate::clusterset::record::{is_annotation, is_label};
use crate::model::{
    ClusterId, ClustersetService, Condition, FALSE, ImportType, InternalTrafficPolicy, Properties,
    TRUE, Time, join,
};

/// The annotation that names the derived Service of ours whose IPs the ServiceImport has.
const DERIVED_SERVICE: &str = "multicluster.kubernetes.io/derived-service";
/// The annotations that list the keys of the labels and annotations that came from an export, separated by commas. Of
/// other labels and annotations the plan removes only our own.
const EXPORTED_LABELS: &str = "cloud-map-sync/exported-labels";
const EXPORTED_ANNOTATIONS: &str = "cloud-map-sync/exported-annotations";

/// The annotation with the guard's note about a loss of the import.
pub const GUARD: &str = "cloud-map-sync/guard";

/// All annotations of ours.
const OWN_ANNOTATIONS: [&str; 5] =
    [DERIVED_SERVICE, EXPORTED_LABELS, EXPORTED_ANNOTATIONS, GUARD, REFUSED];

pub(super) fn object(input: &PlanInput<'_>) -> ObjectRef {
    input.object(Kind::ServiceImport, &input.service.name)
}

/// Returns the creation or the patch of the ServiceImport. Its IPs are those of the derived Service, which is created
/// after it, so a new ServiceImport gets its IPs by a later patch.
pub(super) fn changes(
    input: &PlanInput<'_>,
    service: &ClustersetService,
    derived: Option<&Derived>,
) -> Vec<Change> {
    let metadata = wanted_metadata(input, service, derived);
    // If this cluster has none of the exported families, the ServiceImport lists the exported ones: a later plan that
    // cannot read any export has no other source of them.
    let with_ips = derived.filter(|derived| !derived.families.is_empty());
    let families = with_ips.map_or(&service.families, |derived| &derived.families).clone();
    let spec = ClustersetService { families, ..service.clone() };
    let families_to_write = |present: &[IpAddr]| {
        let is_wrong =
            |derived: &&Derived| derived.known_ips(input).is_none_or(|ips| ips != present);
        with_ips.filter(is_wrong).map(|derived| derived.families.clone())
    };
    let update = |content| Change::patch(Stage::UpdateImport, object(input), content);
    let Some(import) = input.import() else {
        let detail = format!("{}, {}", spec.kind.as_str(), change::describe_ports(&spec.ports));
        let body = json_of(&metadata, &spec, &[]);
        let create = change::creation(Stage::CreateImport, object(input), body, detail);
        let ips = Content { ips: families_to_write(&[]), ..Content::default() };
        return std::iter::once(create).chain(update(ips)).collect();
    };
    let present = present_metadata(&import.metadata, &metadata);
    // The same patch gets the IPs when it is sent (`Content::ips`), so they are not compared here.
    let kept = if with_ips.is_some() { import.ips.as_slice() } else { &[] };
    let mut present = json_of(&present, &import.spec, &import.ips);
    let is_filled_in = |field: &str| field == "ips" && with_ips.is_some();
    for field in import.unreadable_fields.iter().filter(|field| !is_filled_in(field)) {
        // A present value that cannot be read is compared as null, so that the patch replaces or removes it.
        present["spec"][*field] = Value::Null;
    }
    let body = change::difference(&present, &json_of(&metadata, &spec, kept)).unwrap_or_default();
    let ips = families_to_write(&import.ips);
    update(Content { body, ips, owners: None }).into_iter().collect()
}

/// The patch that removes the guard's note.
pub(super) fn note_removal(input: &PlanInput<'_>) -> Option<Change> {
    let annotations = &input.import()?.metadata.annotations;
    if *input.note != NoteChange::Remove || !annotations.contains_key(GUARD) {
        return None;
    }
    let content = Content::new(json!({"metadata": {"annotations": {GUARD: null}}}));
    Change::patch(Stage::RemoveNote, object(input), content)
}

/// The guard's note about a loss of an import of ours, if it can be read.
pub fn note(owner: &OwnerLabel, present: &Present) -> Option<ImportNote> {
    let import = present.import.as_ref().filter(|import| owner.owns(&import.metadata))?;
    ImportNote::parse(import.metadata.annotations.get(GUARD)?)
}

/// The deletion of a ServiceImport of ours.
pub(super) fn deletion(input: &PlanInput<'_>) -> Option<Change> {
    let detail = match input.import()?.status.clusters.as_slice() {
        [] => "no cluster exports it".to_owned(),
        clusters => format!("no cluster exports it; the last were {}", clusters.join(", ")),
    };
    Some(Change::deletion(object(input), &detail))
}

/// The labels and annotations that came from an export.
pub(super) fn exported_metadata(metadata: &Metadata) -> (Texts, Texts) {
    let labels = change::only(&metadata.labels, keys(metadata, EXPORTED_LABELS));
    (labels, change::only(&metadata.annotations, keys(metadata, EXPORTED_ANNOTATIONS)))
}

fn keys<'a>(metadata: &'a Metadata, annotation: &str) -> impl Iterator<Item = &'a str> {
    metadata.annotations.get(annotation).into_iter().flat_map(|keys| keys.split(','))
}

/// Whether a key belongs to this API or to us. Exporters leave these keys out.
fn is_reserved(key: &str) -> bool {
    ["cloud-map-sync/", "multicluster."].iter().any(|prefix| key.starts_with(prefix))
}

fn wanted_metadata(
    input: &PlanInput<'_>,
    service: &ClustersetService,
    derived: Option<&Derived>,
) -> Metadata {
    let Properties { mut labels, mut annotations, .. } = service.properties.clone();
    labels.retain(|key, value| !is_reserved(key) && is_label(key, value));
    annotations.retain(|key, _| !is_reserved(key) && is_annotation(key));
    let exported = [(EXPORTED_LABELS, &labels), (EXPORTED_ANNOTATIONS, &annotations)];
    let exported = exported.map(|(key, texts)| (key.to_owned(), join(texts.keys(), ",")));
    labels.extend(input.owner.label());
    annotations.extend(exported.into_iter().filter(|(_, keys)| !keys.is_empty()));
    annotations.extend(derived.map(|derived| (DERIVED_SERVICE.to_owned(), derived.name.clone())));
    let noted = input.import().and_then(|import| import.metadata.annotations.get(GUARD));
    let note = match input.note {
        NoteChange::Write(note) => Some(note.to_string()),
        NoteChange::Keep | NoteChange::Remove => noted.cloned(),
    };
    annotations.extend(note.map(|note| (GUARD.to_owned(), note)));
    let refused = refused::annotation(input, Kind::ServiceImport);
    annotations.extend(refused.map(|refused| (REFUSED.to_owned(), refused)));
    Metadata { labels, annotations, ..Metadata::default() }
}

/// The part of the present metadata that is compared.
fn present_metadata(present: &Metadata, wanted: &Metadata) -> Metadata {
    let labels = keys(present, EXPORTED_LABELS).chain(wanted.labels.keys().map(String::as_str));
    let annotations = keys(present, EXPORTED_ANNOTATIONS)
        .chain(wanted.annotations.keys().map(String::as_str))
        .chain(OWN_ANNOTATIONS);
    let labels = change::only(&present.labels, labels);
    let annotations = change::only(&present.annotations, annotations);
    Metadata { labels, annotations, ..Metadata::default() }
}

fn json_of(metadata: &Metadata, spec: &ClustersetService, ips: &[IpAddr]) -> Value {
    let mut fields = json!(spec);
    fields["ips"] = json!(ips);
    let metadata = json!({"labels": metadata.labels, "annotations": metadata.annotations});
    json!({"metadata": metadata, "spec": change::without_empty(fields)})
}

// The status: the exporting clusters, and the condition `Ready`. Conditions of other controllers stay.

const READY: &str = "Ready";

/// Returns the condition `Ready` for the end of this run. `obstacle` is the reason why the import has no IP.
pub(super) fn ready(
    input: &PlanInput<'_>,
    service: &ClustersetService,
    obstacle: Option<&Reason>,
) -> Condition {
    let (status, reason, message) = match (obstacle, input.failures.first()) {
        (Some(obstacle), _) => {
            let message = "this cluster has none of the IP families of the exports".to_owned();
            (FALSE, obstacle.code(), message)
        }
        (None, Some(failure)) => (FALSE, failure.code(), failure.message.clone()),
        (None, None) => (TRUE, READY, completeness(input, service)),
    };
    Condition {
        type_: READY.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: None,
        last_transition_time: Time(input.now),
    }
}

/// Describes how complete the import is, for people.
fn completeness(input: &PlanInput<'_>, service: &ClustersetService) -> String {
    let mut text = "the import is complete".to_owned();
    let left_out = refused::describe(input, service);
    if !left_out.is_empty() {
        text += ", except for what this cluster's API server refuses or changes: ";
        text += &left_out.join(", ");
    }
    let has_ip = service.kind == ImportType::ClusterSetIp;
    let routing = refused::accepted(input, Kind::Service, service);
    if has_ip && routing.properties.internal_traffic_policy == InternalTrafficPolicy::Local {
        text += "; with internalTrafficPolicy Local its IP leads to pods of the client's own node alone";
    }
    text
}

/// The patch of the status, if it differs.
pub(super) fn status_change(
    input: &PlanInput<'_>,
    clusters: &[ClusterId],
    ready: Condition,
) -> Option<Change> {
    let missing = ImportStatus::default();
    let present = input.import().map_or(&missing, |import| &import.status);
    let declared = input.crd_has_slice_objects;
    let clusters: Vec<String> = clusters.iter().map(ToString::to_string).collect();
    let status = format!("{READY} {}/{}", ready.status, ready.reason);
    let detail = format!("{status}, from {}", clusters.join(", "));
    let wanted = ImportStatus {
        clusters,
        conditions: conditions(&present.conditions, ready),
        endpoint_slice_objects: declared.then(|| "Present".to_owned()),
    };
    let body =
        change::difference(&status_json(present, declared), &status_json(&wanted, declared))?;
    let object = object(input);
    let content = Content::new(body);
    Some(Change { stage: Stage::Status, object, write: Write::PatchStatus, content, detail })
}

/// Returns the present conditions with ours among them. The time of our condition changes only with its status.
fn conditions(present: &[Condition], mut ready: Condition) -> Vec<Condition> {
    let mut conditions = present.to_vec();
    let Some(ours) = conditions.iter_mut().find(|condition| condition.type_ == READY) else {
        conditions.push(ready);
        return conditions;
    };
    if ours.status == ready.status {
        ready.observed_generation = ours.observed_generation;
        ready.last_transition_time = ours.last_transition_time.clone();
    }
    *ours = ready;
    conditions
}

fn status_json(status: &ImportStatus, crd_has_slice_objects: bool) -> Value {
    let clusters: Vec<Value> =
        status.clusters.iter().map(|cluster| json!({"cluster": cluster})).collect();
    let objects = status.endpoint_slice_objects.as_ref().filter(|_| crd_has_slice_objects);
    json!({"status": change::without_empty(json!({
        "clusters": clusters,
        "conditions": status.conditions,
        "endpointSliceObjects": objects,
    }))})
}
