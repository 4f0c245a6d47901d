//! The paths without a resource: version, health and the discovery documents that kubectl reads first.

use serde_json::{Value, json};

use super::openapi;
use super::resource::{RESOURCES, Resource};
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
        other if other.starts_with("/openapi/v3") => openapi::document(other, world),
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
    let known = RESOURCES.iter().filter(|it| {
        it.group == group && it.versions.contains(&version) && world.serves(it, version)
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
