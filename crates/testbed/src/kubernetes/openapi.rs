//! The OpenAPI v3 documents of the custom resources. Of the fields they have only the one that the function looks for.

use serde_json::{Map, Value, json};

use super::resource::{RESOURCES, Resource, SERVICE_IMPORTS};
use super::world::World;

/// The document at a path below `/openapi/v3`, or the list of documents.
pub fn document(path: &str, world: &World) -> Option<Value> {
    let groups = served(world).map(|(resource, version)| (resource.group, version));
    if path == "/openapi/v3" {
        let entries = groups.map(|(group, version)| {
            let url = format!("/openapi/v3/apis/{group}/{version}?hash=0");
            (format!("apis/{group}/{version}"), json!({"serverRelativeURL": url}))
        });
        return Some(json!({"paths": entries.collect::<Map<_, _>>()}));
    }
    let (group, version) = path.strip_prefix("/openapi/v3/apis/")?.split_once('/')?;
    let kinds = served(world).filter(|(it, served)| it.group == group && *served == version);
    let schemas: Map<_, _> = kinds
        .map(|(resource, version)| {
            (schema_name(resource, version), component(resource, version, world))
        })
        .collect();
    (!schemas.is_empty()).then(|| {
        json!({
            "openapi": "3.0.0", "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
            "paths": {}, "components": {"schemas": schemas},
        })
    })
}

fn served(world: &World) -> impl Iterator<Item = (&'static Resource, &'static str)> + '_ {
    let custom = RESOURCES.into_iter().filter(|resource| resource.custom);
    let versions = custom.flat_map(|it| it.versions.iter().map(move |version| (it, *version)));
    versions.filter(|(resource, version)| world.serves(resource, version))
}

/// `io.x-k8s.multicluster.v1beta1.ServiceImport`: the group from its end.
fn schema_name(resource: &Resource, version: &str) -> String {
    let parts: Vec<&str> = resource.group.split('.').rev().collect();
    format!("{}.{version}.{}", parts.join("."), resource.kind)
}

fn component(resource: &Resource, version: &str, world: &World) -> Value {
    let mut status = json!({});
    if *resource == SERVICE_IMPORTS && world.multi_cluster.declares_slice_objects {
        status["endpointSliceObjects"] = json!({"type": "string"});
    }
    json!({
        "type": "object",
        "properties": {"status": {"type": "object", "properties": status}},
        "x-kubernetes-group-version-kind": [
            {"group": resource.group, "version": version, "kind": resource.kind},
        ],
    })
}
