//! The schemas of the custom resources, as in the CustomResourceDefinitions of mcs-api v0.5.2 and of about.k8s.io. The
//! OpenAPI document shows them, and every write is pruned and checked by them.

use serde_json::{Value, json};

use super::resource::{Resource, SERVICE_EXPORTS, SERVICE_IMPORTS};

/// The schema of a resource whose objects have one. `status.endpointSliceObjects` is declared since v0.5.1.
pub fn of(resource: &Resource, declares_slice_objects: bool) -> Option<Value> {
    if !resource.custom {
        return None;
    }
    let properties = if *resource == SERVICE_IMPORTS {
        json!({"spec": import_spec(), "status": import_status(declares_slice_objects)})
    } else if *resource == SERVICE_EXPORTS {
        let status = json!({"type": "object", "properties": {"conditions": conditions()}});
        json!({"spec": export_spec(), "status": status})
    } else {
        let spec = json!({"value": {"type": "string", "minLength": 1, "maxLength": 128_000}});
        json!({"spec": {"type": "object", "required": ["value"], "properties": spec}})
    };
    let mut schema = json!({"type": "object", "properties": properties});
    for key in ["apiVersion", "kind"] {
        schema["properties"][key] = text();
    }
    schema["properties"]["metadata"] = json!({"type": "object"});
    Some(schema)
}

fn text() -> Value {
    json!({"type": "string"})
}

fn texts() -> Value {
    json!({"type": "object", "additionalProperties": text()})
}

fn export_spec() -> Value {
    let properties = json!({"exportedLabels": texts(), "exportedAnnotations": texts()});
    json!({"type": "object", "properties": properties})
}

fn import_spec() -> Value {
    let timeout = json!({"timeoutSeconds": {"type": "integer"}});
    let affinity = json!({"clientIP": {"type": "object", "properties": timeout}});
    json!({
        "type": "object", "required": ["ports", "type"],
        "properties": {
            "internalTrafficPolicy": text(),
            "ipFamilies": {"type": "array", "maxItems": 2, "items": text()},
            "ips": {"type": "array", "maxItems": 2, "items": text()},
            "ports": {"type": "array", "items": port()},
            "sessionAffinity": text(),
            "sessionAffinityConfig": {"type": "object", "properties": affinity},
            "trafficDistribution": text(),
            "type": {"type": "string", "enum": ["ClusterSetIP", "Headless"]},
        },
    })
}

fn port() -> Value {
    json!({
        "type": "object", "required": ["port"],
        "properties": {
            "appProtocol": text(), "name": text(), "port": {"type": "integer"}, "protocol": text(),
        },
    })
}

fn import_status(declares_slice_objects: bool) -> Value {
    let cluster = json!({
        "type": "object", "required": ["cluster"], "properties": {"cluster": text()},
    });
    let clusters = json!({
        "type": "array", "items": cluster, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["cluster"],
    });
    let mut properties = json!({"clusters": clusters, "conditions": conditions()});
    if declares_slice_objects {
        properties["endpointSliceObjects"] =
            json!({"type": "string", "enum": ["Present", "Absent"]});
    }
    json!({"type": "object", "properties": properties})
}

/// metav1.Condition, one for each type.
fn conditions() -> Value {
    let condition = json!({
        "type": "object",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "message": {"type": "string", "maxLength": 32768},
            "observedGeneration": {"type": "integer", "minimum": 0},
            "reason": {"type": "string", "minLength": 1, "maxLength": 1024, "pattern": REASON},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "type": {"type": "string", "minLength": 1, "maxLength": 316},
        },
    });
    json!({
        "type": "array", "items": condition, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

/// The only pattern that the checks know.
pub const REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
