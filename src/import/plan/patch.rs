//! JSON merge patches (RFC 7386) of the fields that differ. Both sides contain only the fields that the plan decides, so
//! a patch leaves all others alone.

use serde_json::{Map, Value, json};

use super::change::{Content, Kind, ObjectRef};
use super::present::{Metadata, OwnerReference, Routing, ServiceImport, Texts};
use crate::model::Family;
use crate::model::clusterset::{ClustersetService, ExportedPort, SessionAffinity};

/// A new object with these fields.
pub(super) fn new_object(object: &ObjectRef, mut metadata: Value, fields: Value) -> Value {
    metadata["name"] = json!(object.name);
    metadata["namespace"] = json!(object.namespace);
    let mut body = json!({
        "apiVersion": object.kind.api_version(),
        "kind": object.kind.as_str(),
        "metadata": metadata,
    });
    if let (Value::Object(body), Value::Object(fields)) = (&mut body, fields) {
        body.extend(fields);
    }
    body
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

/// The content of a patch with the paths of its fields; `None` if there is nothing to write.
pub(super) fn content(
    body: Option<Value>,
    owners: Option<Vec<OwnerReference>>,
    ips: Option<Vec<Family>>,
) -> Option<(Content, Vec<String>)> {
    let mut fields = Vec::new();
    if let Some(body) = &body {
        add_paths(body, "", &mut fields);
    }
    fields.extend(ips.as_ref().map(|_| "ips".to_owned()));
    fields.extend(owners.as_ref().map(|_| "ownerReferences".to_owned()));
    let content = Content { body: body.unwrap_or_else(|| json!({})), owners, ips };
    (!fields.is_empty()).then_some((content, fields))
}

/// The paths of the fields in a patch, without `spec` and `metadata` at their start.
fn add_paths(patch: &Value, path: &str, paths: &mut Vec<String>) {
    let Value::Object(fields) = patch else {
        paths.push(path.to_owned());
        return;
    };
    for (key, value) in fields {
        let is_part = path.is_empty() && ["metadata", "spec"].contains(&key.as_str());
        let path = match path {
            _ if is_part => String::new(),
            "" => key.clone(),
            path => format!("{path}.{key}"),
        };
        add_paths(value, &path, paths);
    }
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
        metadata.owner_references.iter().partition(|owner| is_import(owner));
    let uid = import.map(|import| &import.metadata.identity.uid);
    let is_right = matches!(imports.as_slice(), [owner] if Some(&owner.uid) == uid);
    (!is_right).then(|| others.into_iter().cloned().collect())
}

fn is_import(owner: &OwnerReference) -> bool {
    let group = Kind::ServiceImport.api_version().split('/').next();
    owner.kind == Kind::ServiceImport.as_str() && owner.api_version.split('/').next() == group
}

// The fields that a ServiceImport and a Service have in common, as JSON. Empty ones are left out, as the API server
// returns them.

/// `spec` with the ports, families and properties.
pub(super) fn spec(ports: &[ExportedPort], families: &[Family], routing: &Routing) -> Value {
    let affinity = routing.session_affinity;
    let mut spec = Map::from_iter([
        ("ports".to_owned(), ports.iter().map(port).collect()),
        ("sessionAffinity".to_owned(), json!(affinity.as_str())),
        ("internalTrafficPolicy".to_owned(), json!(routing.internal_traffic_policy.as_str())),
    ]);
    if !families.is_empty() {
        let families: Vec<&str> = families.iter().map(|family| family.as_str()).collect();
        spec.insert("ipFamilies".to_owned(), json!(families));
    }
    if let SessionAffinity::ClientIp(Some(seconds)) = affinity {
        let config = json!({"clientIP": {"timeoutSeconds": seconds}});
        spec.insert("sessionAffinityConfig".to_owned(), config);
    }
    if let Some(distribution) = &routing.traffic_distribution {
        spec.insert("trafficDistribution".to_owned(), json!(distribution));
    }
    Value::Object(spec)
}

fn port(port: &ExportedPort) -> Value {
    let mut value = json!({"protocol": port.protocol.as_str(), "port": port.number});
    if !port.name.is_empty() {
        value["name"] = json!(port.name);
    }
    if let Some(protocol) = &port.app_protocol {
        value["appProtocol"] = json!(protocol);
    }
    value
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

/// The properties of a service that both objects have.
pub(super) fn routing(service: &ClustersetService) -> Routing {
    let properties = &service.properties;
    Routing {
        session_affinity: properties.session_affinity,
        internal_traffic_policy: properties.internal_traffic_policy,
        traffic_distribution: properties.traffic_distribution.clone(),
    }
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
        let paths = content(Some(body), Some(Vec::new()), None).map(|(_, paths)| paths.join(", "));
        assert_eq!(paths.as_deref(), Some("labels.a, ports, x.y, ownerReferences"));
        assert_eq!(content(None, None, None), None);
    }
}
