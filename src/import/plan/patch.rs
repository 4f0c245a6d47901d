//! JSON merge patches (RFC 7386) of the fields that differ. Both sides contain only the fields that the plan decides, so
//! a patch leaves all others alone.

use serde_json::{Map, Value, json};

use super::change::{Change, Content, Kind, ObjectRef, Stage, Write};
use super::present::{Metadata, OwnerReference, ServiceImport, Texts};
use crate::model::Family;
use crate::model::clusterset::{ExportedPort, Properties, SessionAffinity};

/// The creation of an object with these fields.
pub(super) fn creation(stage: Stage, object: ObjectRef, mut body: Value, detail: String) -> Change {
    body["apiVersion"] = json!(object.kind.api_version());
    body["kind"] = json!(object.kind);
    body["metadata"]["name"] = json!(object.name);
    body["metadata"]["namespace"] = json!(object.namespace);
    // The other objects refer to the ServiceImport.
    let owners = (object.kind != Kind::ServiceImport).then(Vec::new);
    let content = Content { body, owners, ips: None };
    Change { stage, object, write: Write::Create, content, detail }
}

/// The patch that turns `present` into `wanted`; `None` if they are equal. A field that is only present becomes null,
/// which removes it.
pub(super) fn difference(present: &Value, wanted: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (present, wanted) else {
        return (present != wanted).then(|| wanted.clone());
    };
    let mut patch = Map::new();
    for (key, value) in after {
        let changed = match before.get(key) {
            Some(before) => difference(before, value),
            None => Some(value.clone()),
        };
        patch.extend(changed.map(|value| (key.clone(), value)));
    }
    let removed = before.keys().filter(|key| !after.contains_key(*key));
    patch.extend(removed.map(|key| (key.clone(), Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The labels or annotations with one of these keys: all others belong to other writers.
pub(super) fn only<'a>(texts: &Texts, keys: impl IntoIterator<Item = &'a str>) -> Texts {
    let keys = keys.into_iter().filter_map(|key| texts.get_key_value(key));
    keys.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The owner references to write, without the one to the ServiceImport; `None` if they are right. That ServiceImport is
/// the only one that may be among them: another one was deleted and made again under the same name, and garbage
/// collection removes an object without a living owner.
pub(super) fn owners(
    metadata: &Metadata,
    import: Option<&ServiceImport>,
) -> Option<Vec<OwnerReference>> {
    let (imports, others): (Vec<_>, Vec<_>) =
        metadata.owner_references.iter().partition(|owner| owner.is_import());
    let uid = import.map(|import| &import.metadata.uid);
    let is_right = matches!(imports.as_slice(), [owner] if Some(&owner.uid) == uid);
    (!is_right).then(|| others.into_iter().cloned().collect())
}

// The fields that a ServiceImport and a Service have in common, as JSON.

/// `spec` with the ports, families and properties.
pub(super) fn spec(ports: &[ExportedPort], families: &[Family], properties: &Properties) -> Value {
    let affinity = properties.session_affinity;
    let config = match affinity {
        SessionAffinity::ClientIp(Some(seconds)) => {
            json!({"clientIP": {"timeoutSeconds": seconds}})
        }
        SessionAffinity::ClientIp(None) | SessionAffinity::None => Value::Null,
    };
    json!({
        "ports": ports,
        "ipFamilies": families,
        "sessionAffinity": affinity.as_str(),
        "sessionAffinityConfig": config,
        "internalTrafficPolicy": properties.internal_traffic_policy,
        "trafficDistribution": properties.traffic_distribution,
    })
}

/// The same without empty fields, as the API server returns it. The ports of a ServiceImport are required.
pub(super) fn without_empty(mut object: Value) -> Value {
    let empty = [Value::Null, json!(""), json!([]), json!({})];
    if let Value::Object(fields) = &mut object {
        fields.retain(|key, value| key == "ports" || !empty.contains(value));
    }
    object
}

/// The ports as a person reads them: `http:80/TCP`.
pub(super) fn describe_ports(ports: &[ExportedPort]) -> String {
    let describe = |port: &ExportedPort| {
        let colon = if port.name.is_empty() { "" } else { ":" };
        format!("{}{colon}{}/{}", port.name, port.number, port.protocol.as_str())
    };
    let texts: Vec<String> = ports.iter().map(describe).collect();
    if texts.is_empty() { "no ports".to_owned() } else { texts.join(" ") }
}

pub(super) fn describe_families(families: &[Family]) -> String {
    let texts: Vec<&str> = families.iter().map(|family| family.as_str()).collect();
    texts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_has_only_the_fields_that_differ() {
        let cases = [
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({"a": 1}), json!({"a": 2}), Some(json!({"a": 2}))),
            (json!({"a": 1}), json!({}), Some(json!({"a": null}))),
            (json!({}), json!({"a": {"b": 1}}), Some(json!({"a": {"b": 1}}))),
            (
                json!({"a": {"b": 1, "c": [1, 2]}, "d": 1}),
                json!({"a": {"b": 1, "c": [1]}, "d": 1}),
                Some(json!({"a": {"c": [1]}})),
            ),
        ];
        for (present, wanted, expected) in cases {
            assert_eq!(difference(&present, &wanted), expected, "{present} -> {wanted}");
        }
    }

    #[test]
    fn owners_of_other_kinds_and_groups_stay() {
        let owner = |api_version: &str, kind: &str| OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            uid: format!("{kind} of {api_version}"),
            ..OwnerReference::default()
        };
        let own = [owner("multicluster.x-k8s.io/v1alpha1", "ServiceImport")];
        let others = [
            owner("other.example/v1", "ServiceImport"),
            owner("multicluster.x-k8s.io/v1beta1", "ServiceExport"),
        ];
        let owner_references = own.into_iter().chain(others.clone()).collect();
        let metadata = Metadata { owner_references, ..Metadata::default() };
        assert_eq!(owners(&metadata, None), Some(others.to_vec()));
    }

    #[test]
    fn description_names_the_fields() {
        let body =
            json!({"metadata": {"labels": {"a": "1"}}, "spec": {"ports": [], "x": {"y": 1}}});
        let content = Content { body, owners: Some(Vec::new()), ips: None };
        assert_eq!(content.fields().join(", "), "labels.a, ports, x.y, ownerReferences");
        assert!(Content::default().fields().is_empty());
    }
}
