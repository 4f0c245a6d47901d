//! The paths without a resource: version, health and the discovery documents that kubectl reads first.

use serde_json::{Value, json};

use super::resource::{ENDPOINT_SLICES, RESOURCES, Resource};

/// The document at a path that names no resource, of a server that serves slices or does not.
pub fn document(path: &str, minor: u32, serves_slices: bool) -> Option<Value> {
    let groups = groups(serves_slices);
    match path.trim_end_matches('/') {
        "/version" => Some(version(minor)),
        "/api" => Some(json!({"kind": "APIVersions", "versions": ["v1"]})),
        "/apis" => Some(json!({
            "kind": "APIGroupList", "apiVersion": "v1",
            "groups": groups.into_iter().map(group).collect::<Vec<_>>(),
        })),
        "/api/v1" => Some(resources("")),
        other => {
            let name = other.strip_prefix("/apis/")?;
            match name.strip_suffix("/v1") {
                Some(name) if groups.contains(&name) => Some(resources(name)),
                None if groups.contains(&name) => Some(group(name)),
                _ => None,
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

fn groups(serves_slices: bool) -> Vec<&'static str> {
    let mut groups: Vec<_> = RESOURCES.iter().map(|resource| resource.group).collect();
    groups.retain(|group| !group.is_empty() && (serves_slices || *group != ENDPOINT_SLICES.group));
    groups
}

fn group(name: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
    json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": [version],
        "preferredVersion": version,
    })
}

fn resources(group: &str) -> Value {
    let known = RESOURCES.iter().filter(|resource| resource.group == group);
    let group_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
        "resources": known.map(|resource| entry(resource)).collect::<Vec<_>>(),
    })
}

fn entry(resource: &Resource) -> Value {
    let short = match resource.plural {
        "services" => vec!["svc"],
        "endpoints" => vec!["ep"],
        "namespaces" => vec!["ns"],
        "pods" => vec!["po"],
        _ => vec![],
    };
    json!({
        "name": resource.plural, "singularName": resource.kind.to_lowercase(),
        "namespaced": resource.namespaced, "kind": resource.kind, "shortNames": short,
        "verbs": ["create", "delete", "get", "list", "patch", "update"],
    })
}
