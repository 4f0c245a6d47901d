//! The optional fields that the importing cluster's API server refuses, for example a value that only newer servers
//! know, or does not keep, since a webhook changes them. An import serves its clients without them, so they are left
//! out of all objects of the kind, and `Ready` names them. An annotation of each object lists them with their values
//! and the version of the server. A field is written again when its value or that version changes.
//!
//! | the server | the next plan |
//! |---|---|
//! | refuses the value (422), or drops the field | leaves the field out, and removes the present value |
//! | stores another value, which a webhook sets | keeps the present value |

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::change::{self, Kind};
use super::input::PlanInput;
use super::ownership::OwnerLabel;
use super::present_objects::{self, Present};
use crate::model::{
    ClustersetService, ImportType, OptionalField, Properties, RefusedField, fingerprint,
};

/// The annotation that lists the fields left out of an object.
pub(super) const REFUSED: &str = "cloud-map-sync/refused-fields";

/// The content of the annotation.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Noted {
    /// The version of the API server.
    server: String,
    /// The refused values of each field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    refused: BTreeMap<String, BTreeSet<String>>,
    /// The values of each field that the API server stores differently.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    changed: BTreeMap<String, BTreeSet<String>>,
}

/// Returns the fields that the annotations of our objects list. Annotations from another version of the API server are
/// ignored.
pub fn noted_fields(
    owner: &OwnerLabel,
    present: &Present,
    server: Option<&str>,
) -> BTreeSet<RefusedField> {
    let mut all = BTreeSet::new();
    for (kind, metadata) in present.objects().filter(|(_, metadata)| owner.owns(metadata)) {
        let Some(text) = metadata.annotations.get(REFUSED) else { continue };
        let noted: Noted = serde_json::from_str(text).unwrap_or_default();
        if server.is_some_and(|server| server != noted.server) {
            continue;
        }
        let kind = kind.as_str();
        for (fields, is_changed) in [(noted.refused, false), (noted.changed, true)] {
            for (field, values) in fields {
                let Some(field) = OptionalField::parse(&field) else { continue };
                let values = values.into_iter();
                all.extend(values.map(|value| RefusedField { kind, field, value, is_changed }));
            }
        }
    }
    all
}

/// Returns the version of the API server in the first annotation of our objects; `None` if no object has the
/// annotation.
pub fn noted_server(owner: &OwnerLabel, present: &Present) -> Option<String> {
    let mut objects = present.objects().filter(|(_, metadata)| owner.owns(metadata));
    let text = objects.find_map(|(_, metadata)| metadata.annotations.get(REFUSED))?;
    let noted: Noted = serde_json::from_str(text).unwrap_or_default();
    Some(noted.server)
}

/// Returns the refused fields that a service uses.
pub(super) fn of_service(
    input: &PlanInput<'_>,
    service: &ClustersetService,
) -> BTreeSet<RefusedField> {
    if input.refused.is_empty() {
        return BTreeSet::new();
    }
    let kinds = [Kind::ServiceImport, Kind::Service, Kind::EndpointSlice].into_iter();
    let fields = kinds.flat_map(|kind| refused_in(kind, &body(service), input.refused));
    fields.map(|(_, field)| field).collect()
}

/// Returns the annotation of the objects of a kind, or `None` if no field is left out of them.
pub(super) fn annotation(input: &PlanInput<'_>, kind: Kind) -> Option<String> {
    let server = input.server.unwrap_or_default().to_owned();
    let mut noted = Noted { server, ..Noted::default() };
    for field in input.refused.iter().filter(|field| field.kind == kind.as_str()) {
        let fields = if field.is_changed { &mut noted.changed } else { &mut noted.refused };
        fields.entry(field.field.as_str().to_owned()).or_default().insert(field.value.clone());
    }
    let is_empty = noted.refused.is_empty() && noted.changed.is_empty();
    (!is_empty).then(|| json!(noted).to_string())
}

/// Returns the fields that the causes of a refusal (422) name by their paths. Empty if a cause names another field,
/// since the request would be refused without the optional ones as well. `present` contains the fields that the object
/// has: a downgraded API server refuses every patch of an object because of a field that the object has and the patch
/// does not send.
pub fn refused_fields(
    kind: Kind,
    (body, present): (&Value, &Value),
    causes: &[String],
) -> Vec<RefusedField> {
    let mut sent = optional(kind, body);
    sent.extend(optional(kind, present));
    sent.retain(|(.., value)| !value.is_null());
    let named = causes.iter().map(|cause| {
        let cause = format!("/{}", cause.replace(['.', '['], "/").replace(']', ""));
        let is_at = |pointer: &String| {
            let rest = cause.strip_prefix(pointer.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        sent.iter().find(|(pointer, ..)| is_at(pointer))
    });
    let named: Option<Vec<_>> = named.collect();
    let named = named.unwrap_or_default().into_iter();
    named.map(|(_, field, value)| refused(kind, *field, value)).collect()
}

/// Returns the fields that the API server stored differently. It silently drops fields that its version does not have,
/// and a webhook may change others.
pub fn changed_fields(kind: Kind, body: &Value, stored: &Value) -> Vec<RefusedField> {
    let sent = optional(kind, body).into_iter();
    let changed = sent.filter(|(pointer, _, value)| differs(stored.pointer(pointer), value));
    let changed = changed.map(|(pointer, field, value)| {
        let is_changed = stored.pointer(&pointer).is_some_and(|stored| !stored.is_null());
        RefusedField { is_changed, ..refused(kind, field, value) }
    });
    changed.collect()
}

fn differs(stored: Option<&Value>, sent: &Value) -> bool {
    match (stored.filter(|stored| !stored.is_null()), sent) {
        (stored, Value::Null) => stored.is_some(),
        (Some(stored), Value::Object(sent)) => {
            // Null removes a key of a map.
            let mut set = sent.iter().filter(|(_, value)| !value.is_null());
            set.any(|(key, value)| differs(stored.get(key), value))
        }
        (stored, sent) => stored != Some(sent),
    }
}

/// Returns the optional fields of a request, each with its JSON pointer.
fn optional(kind: Kind, body: &Value) -> Vec<(String, OptionalField, &Value)> {
    use OptionalField::{
        Annotations, AppProtocol, Hints, InternalTrafficPolicy, Labels, SessionAffinity,
        SessionAffinityConfig, TrafficDistribution,
    };
    let spec = [SessionAffinityConfig, SessionAffinity, InternalTrafficPolicy, TrafficDistribution];
    let spec = spec.into_iter().map(|field| (format!("/spec/{}", field.as_str()), field));
    // The labels of the other kinds are all ours.
    let metadata = [Labels, Annotations].into_iter().filter(|_| kind == Kind::ServiceImport);
    let metadata = metadata.map(|field| (format!("/metadata/{}", field.as_str()), field));
    let lists = [("/spec/ports", AppProtocol), ("/ports", AppProtocol), ("/endpoints", Hints)];
    let items = lists.into_iter().flat_map(|(list, field)| {
        let count = body.pointer(list).and_then(Value::as_array).map_or(0, Vec::len);
        (0..count).map(move |index| (format!("{list}/{index}/{}", field.as_str()), field))
    });
    let all = spec.chain(metadata).chain(items);
    let sent = all.filter_map(|(pointer, field)| {
        let value = body.pointer(&pointer)?;
        Some((pointer, field, value))
    });
    sent.collect()
}

fn refused(kind: Kind, field: OptionalField, value: &Value) -> RefusedField {
    let value = match (field, value) {
        // Hints depend on the endpoints of a slice, so their value is not recorded.
        (OptionalField::Hints, _) => String::new(),
        (OptionalField::Labels | OptionalField::Annotations, value) => {
            fingerprint::<5>(&[&value.to_string()])
        }
        (_, Value::String(text)) => text.clone(),
        (_, value) => value.to_string(),
    };
    RefusedField { kind: kind.as_str(), field, value, is_changed: false }
}

/// Replaces the values of labels and annotations with those of the exports. A request has only the labels and
/// annotations that it changes, and ours.
pub fn with_exported_values(
    fields: Vec<RefusedField>,
    service: &ClustersetService,
) -> Vec<RefusedField> {
    let body = body(service);
    let value = |field: RefusedField| match field.field {
        OptionalField::Labels | OptionalField::Annotations => {
            let pointer = format!("/metadata/{}", field.field.as_str());
            let exported = body.pointer(&pointer).unwrap_or(&Value::Null);
            RefusedField { value: fingerprint::<5>(&[&exported.to_string()]), ..field }
        }
        _ => field,
    };
    fields.into_iter().map(value).collect()
}

/// Returns the fields of an object that are known to be refused, each with its JSON pointer.
fn refused_in(
    kind: Kind,
    body: &Value,
    refused_fields: &BTreeSet<RefusedField>,
) -> Vec<(String, RefusedField)> {
    let mut found = Vec::new();
    for (pointer, field, value) in optional(kind, body) {
        let refused = refused(kind, field, value);
        let changed = RefusedField { is_changed: true, ..refused.clone() };
        let mut either = [changed, refused].into_iter();
        let field = either.find(|field| refused_fields.contains(field));
        found.extend(field.map(|field| (pointer, field)));
    }
    found
}

/// Returns the service without the fields that objects of a kind cannot have.
pub(super) fn accepted<'a>(
    input: &PlanInput<'_>,
    kind: Kind,
    service: &'a ClustersetService,
) -> Cow<'a, ClustersetService> {
    if input.refused.is_empty() {
        return Cow::Borrowed(service);
    }
    let mut body = body(service);
    let present = input.present.spec(kind);
    for (pointer, field) in refused_in(kind, &body, input.refused) {
        let of_webhook = present.pointer(&pointer).filter(|_| field.is_changed);
        // A refused default changes nothing: an object without the field has the default.
        if of_webhook.is_none() && is_default(&field) {
            continue;
        }
        if let Some(value) = body.pointer_mut(&pointer) {
            *value = of_webhook.cloned().unwrap_or_default();
        }
    }
    let mut properties: Properties = present_objects::read_or_default(&body["spec"]);
    properties.labels = present_objects::read_or_default(&body["metadata"]["labels"]);
    properties.annotations = present_objects::read_or_default(&body["metadata"]["annotations"]);
    if kind == Kind::EndpointSlice && body["endpoints"][0]["hints"].is_null() {
        properties.traffic_distribution = None;
    }
    let ports = present_objects::read_or_default(&body["spec"]["ports"]);
    Cow::Owned(ClustersetService { ports, properties, ..service.clone() })
}

fn is_default(field: &RefusedField) -> bool {
    match field.field {
        OptionalField::SessionAffinity => field.value == "None",
        OptionalField::InternalTrafficPolicy => field.value == "Cluster",
        _ => false,
    }
}

/// All optional fields of a service, as the objects of all kinds have them.
fn body(service: &ClustersetService) -> Value {
    let Properties { labels, annotations, traffic_distribution, .. } = &service.properties;
    // Hints follow from the traffic distribution.
    let hints = change::without_empty(json!({"hints": traffic_distribution}));
    json!({
        "metadata": change::without_empty(json!({"labels": labels, "annotations": annotations})),
        "spec": service,
        "endpoints": [hints],
    })
}

/// Describes the fields left out of the import's objects, for people.
pub(super) fn describe(input: &PlanInput<'_>, service: &ClustersetService) -> Vec<String> {
    if input.refused.is_empty() {
        return Vec::new();
    }
    let kinds = [Kind::ServiceImport, Kind::Service, Kind::EndpointSlice].into_iter();
    let kinds =
        kinds.filter(|kind| *kind != Kind::Service || service.kind == ImportType::ClusterSetIp);
    let body = body(service);
    let all = kinds.flat_map(|kind| refused_in(kind, &body, input.refused));
    let all = all.filter(|(_, field)| !is_default(field));
    let texts = all.map(|(_, RefusedField { kind, field, value, .. })| {
        let value = match field {
            OptionalField::Hints | OptionalField::Labels | OptionalField::Annotations => {
                String::new()
            }
            _ => format!(" {value}"),
        };
        format!("{}{value} of the {kind}", field.as_str())
    });
    texts.collect()
}
