//! The paths without a resource: version, health and the discovery documents that kubectl reads first.
//!
//! The OpenAPI v3 documents of the custom resources. Of the fields they have only the one that the function looks for.

use serde_json::{Map, Value, json};

use super::resource::{RESOURCES, Resource, SERVICE_IMPORTS};
use super::world::World;

/// The document at a path that names no resource.
pub fn document(path: &str, world: &World) -> Option<Value> {
    match path.trim_end_matches('/') {
        "/version" => Some(version(world.minor)),
        "/api" => Some(json!({"kind": "APIVersions", "versions": ["v1"]})),
        "/apis" => Some(json!({
            "kind": "APIGroupList", "apiVersion": "v1",
            "groups": groups(world).into_iter().map(|name| group(name, world)).collect::<Vec<_>>(),
        })),
        "/api/v1" => resources("", "v1", world),
        other if other.starts_with("/openapi/v3") => openapi(other, world),
        other => {
            let name = other.strip_prefix("/apis/")?;
            match name.split_once('/') {
                Some((name, version)) => resources(name, version, world),
                None if groups(world).contains(&name) => Some(group(name, world)),
                None => None,
            }
        }
    }
}

fn version(minor: u32) -> Value {
    json!({
        "major": "1", "minor": minor.to_string(), "gitVersion": format!("v1.{minor}.4-eks-0000000"),
        "gitCommit": "0000000000000000000000000000000000000000", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "go1.24", "compiler": "gc",
        "platform": "linux/amd64",
    })
}

fn groups(world: &World) -> Vec<&'static str> {
    let groups = RESOURCES.iter().map(|resource| resource.group);
    let mut groups: Vec<_> = groups.filter(|name| !name.is_empty()).collect();
    groups.dedup();
    groups.retain(|name| !versions(name, world).is_empty());
    groups
}

/// The versions of a group that are served, the stored one first.
fn versions(group: &str, world: &World) -> Vec<&'static str> {
    let mut all: Vec<&str> = Vec::new();
    for resource in RESOURCES.iter().filter(|resource| resource.group == group) {
        let served = resource.versions.iter().filter(|version| world.serves(resource, version));
        for version in served {
            if !all.contains(version) {
                all.push(version);
            }
        }
    }
    all
}

fn group(name: &str, world: &World) -> Value {
    let version =
        |version: &str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let versions: Vec<Value> = versions(name, world).into_iter().map(version).collect();
    json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": name, "preferredVersion": versions[0],
        "versions": versions,
    })
}

fn resources(group: &str, version: &str, world: &World) -> Option<Value> {
    let known = RESOURCES.iter().filter(|resource| {
        resource.group == group
            && resource.versions.contains(&version)
            && world.serves(resource, version)
    });
    let resources: Vec<Value> = known.flat_map(|resource| entries(resource)).collect();
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    (!resources.is_empty()).then(|| {
        json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
            "resources": resources,
        })
    })
}

/// The resource, and its status where that is written by itself.
fn entries(resource: &Resource) -> Vec<Value> {
    let short = match resource.plural {
        "services" => vec!["svc"],
        "endpoints" => vec!["ep"],
        "namespaces" => vec!["ns"],
        "pods" => vec!["po"],
        "serviceexports" => vec!["svcex", "svcexport"],
        "serviceimports" => vec!["svcim", "svcimport"],
        _ => vec![],
    };
    let object = json!({
        "name": resource.plural, "singularName": resource.kind.to_lowercase(),
        "namespaced": resource.namespaced, "kind": resource.kind, "shortNames": short,
        "verbs": ["create", "delete", "get", "list", "patch", "update"],
    });
    let status = resource.has_status().then(|| {
        json!({
            "name": format!("{}/status", resource.plural), "singularName": "",
            "namespaced": resource.namespaced, "kind": resource.kind,
            "verbs": ["get", "patch", "update"],
        })
    });
    [object].into_iter().chain(status).collect()
}

/// The document at a path below `/openapi/v3`, or the list of documents.
fn openapi(path: &str, world: &World) -> Option<Value> {
    let groups = served(world).map(|(resource, version)| (resource.group, version));
    if path == "/openapi/v3" {
        let entries = groups.map(|(group, version)| {
            let url = format!("/openapi/v3/apis/{group}/{version}?hash=0");
            (format!("apis/{group}/{version}"), json!({"serverRelativeURL": url}))
        });
        return Some(json!({"paths": entries.collect::<Map<_, _>>()}));
    }
    let (group, version) = path.strip_prefix("/openapi/v3/apis/")?.split_once('/')?;
    let kinds =
        served(world).filter(|(resource, served)| resource.group == group && *served == version);
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
    let versions = custom
        .flat_map(|resource| resource.versions.iter().map(move |version| (resource, *version)));
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
