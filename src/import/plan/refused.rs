//! The fields that the API server of the importing cluster refuses, such as a value that only newer ones know. An import
//! serves its clients without them, so they are left out of the kind of object that was refused, and `Ready` names them.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::basis::Basis;
use super::change::{self, Kind};
use super::present;
use crate::model::{
    ClustersetService, ImportType, OptionalField, Properties, RefusedField, ServiceRef,
};

/// The fields that the causes of a refusal (422) name by their paths. None if a cause names another field: without the
/// optional ones the request would be refused as well. An API server that was downgraded refuses every patch of an
/// object for a field that `stands` in it and that the patch does not send.
pub fn refused_fields(
    kind: Kind,
    service: &ServiceRef,
    (body, standing): (&Value, &Value),
    causes: &[String],
) -> Vec<RefusedField> {
    let mut sent = optional(kind, body);
    sent.extend(optional(kind, standing));
    let named = causes.iter().map(|cause| {
        let cause = format!("/{}", cause.replace(['.', '['], "/").replace(']', ""));
        let is_at = |place: &String| {
            let rest = cause.strip_prefix(place.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        sent.iter().find(|(place, ..)| is_at(place))
    });
    let named: Option<Vec<_>> = named.collect();
    let named = named.unwrap_or_default().into_iter();
    named.map(|(_, field, value)| refused(kind, service, *field, value)).collect()
}

/// The fields that the API server did not store: those that its version does not have, it drops without a word.
pub fn missing_fields(
    kind: Kind,
    service: &ServiceRef,
    body: &Value,
    stored: &Value,
) -> Vec<RefusedField> {
    let sent = optional(kind, body).into_iter();
    let missing = sent.filter(|(place, _, value)| lacks(stored.pointer(place), value));
    missing.map(|(_, field, value)| refused(kind, service, field, value)).collect()
}

fn lacks(stored: Option<&Value>, sent: &Value) -> bool {
    match (stored, sent) {
        (_, Value::Null) => false,
        (None | Some(Value::Null), _) => true,
        (Some(stored), Value::Object(sent)) => {
            sent.iter().any(|(key, value)| lacks(stored.get(key), value))
        }
        _ => false,
    }
}

/// The optional fields of a request, each with its place.
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
    let sent = all.filter_map(|(place, field)| {
        let value = body.pointer(&place).filter(|value| !value.is_null())?;
        Some((place, field, value))
    });
    sent.collect()
}

fn refused(kind: Kind, service: &ServiceRef, field: OptionalField, value: &Value) -> RefusedField {
    let value = match (field, value) {
        (OptionalField::Hints | OptionalField::Labels | OptionalField::Annotations, _) => {
            service.to_string()
        }
        (_, Value::String(text)) => text.clone(),
        (_, value) => value.to_string(),
    };
    RefusedField { kind: kind.as_str(), field, value }
}

/// The fields of an object that are known to be refused, each with its place.
fn known_in(
    kind: Kind,
    service: &ServiceRef,
    body: &Value,
    known: &BTreeSet<RefusedField>,
) -> Vec<(String, RefusedField)> {
    let fields = optional(kind, body).into_iter();
    let fields = fields.map(|(place, field, value)| (place, refused(kind, service, field, value)));
    fields.filter(|(_, field)| known.contains(field)).collect()
}

/// The service as the objects of a kind can have it.
pub(super) fn accepted<'a>(
    basis: &Basis<'_>,
    kind: Kind,
    service: &'a ClustersetService,
) -> Cow<'a, ClustersetService> {
    if basis.refused.is_empty() {
        return Cow::Borrowed(service);
    }
    let mut body = body(service);
    for (place, _) in left_out(basis, kind, &body) {
        let (object, field) = place.rsplit_once('/').unwrap_or_default();
        if let Some(Value::Object(fields)) = body.pointer_mut(object) {
            fields.remove(field);
        }
    }
    let mut properties: Properties = present::known(&body["spec"]);
    properties.labels = present::known(&body["metadata"]["labels"]);
    properties.annotations = present::known(&body["metadata"]["annotations"]);
    if body["endpoints"][0]["hints"].is_null() {
        properties.traffic_distribution = None;
    }
    let ports = present::known(&body["spec"]["ports"]);
    Cow::Owned(ClustersetService { ports, properties, ..service.clone() })
}

/// The refused fields that the objects of the import have.
pub(super) fn standing(basis: &Basis<'_>) -> BTreeSet<RefusedField> {
    let known = basis.refused;
    let kinds = [Kind::ServiceImport, Kind::Service].into_iter().filter(|_| !known.is_empty());
    let all =
        kinds.flat_map(|kind| known_in(kind, basis.service, &basis.present.spec(kind), known));
    all.map(|(_, field)| field).collect()
}

/// All optional fields of a service, as the objects of all kinds have them.
fn body(service: &ClustersetService) -> Value {
    let Properties { labels, annotations, traffic_distribution, .. } = &service.properties;
    json!({
        "metadata": change::without_empty(json!({"labels": labels, "annotations": annotations})),
        "spec": service,
        // Hints are made for the distribution.
        "endpoints": [{"hints": traffic_distribution}],
    })
}

/// The fields of a service that objects of a kind cannot have, each with its place in [`body`].
fn left_out(basis: &Basis<'_>, kind: Kind, body: &Value) -> Vec<(String, RefusedField)> {
    let fields = known_in(kind, basis.service, body, basis.refused).into_iter();
    // An object without the field has its default.
    let is_default = |field: &RefusedField| ["None", "Cluster"].contains(&field.value.as_str());
    fields.filter(|(_, field)| !is_default(field)).collect()
}

/// The fields that the objects of the import do without, as a person reads them.
pub(super) fn describe(basis: &Basis<'_>, service: &ClustersetService) -> Vec<String> {
    if basis.refused.is_empty() {
        return Vec::new();
    }
    let kinds = [Kind::ServiceImport, Kind::Service, Kind::EndpointSlice].into_iter();
    let kinds = kinds.filter(|it| *it != Kind::Service || service.kind == ImportType::ClusterSetIp);
    let body = body(service);
    let all = kinds.flat_map(|kind| left_out(basis, kind, &body));
    let own = basis.service.to_string();
    let texts = all.map(|(_, RefusedField { kind, field, value })| {
        let value = if value == own { String::new() } else { format!(" {value}") };
        format!("{}{value} of the {kind}", field.as_str())
    });
    texts.collect()
}
