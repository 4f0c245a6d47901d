//! The rules that hold in every case, by what stands in Cloud Map and in the clusters.

use std::collections::{BTreeMap, BTreeSet};
use testbed::function::Answer;

use cloud_map_sync::model::EMPTIED;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::super::clusterset::EXPORTED;
use super::super::play::Scene;
use super::super::world::{CLUSTERS, SHOP};
use super::play::REST;
use super::trouble::Case;
use crate::fleet::Attributes;

/// The objects of a cluster that the function may write.
const OBJECTS: [&str; 4] = ["services", "serviceexports", "serviceimports", "endpointslices"];

/// All that stands in Cloud Map and in the clusters, without what a server makes up: a line for each service, instance
/// and object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    lines: BTreeSet<String>,
    /// The addresses in each Cloud Map service.
    addresses: BTreeMap<(String, String), BTreeSet<String>>,
    /// The `ServiceImports` of each cluster, by its number.
    imports: BTreeSet<(usize, String)>,
}

impl State {
    pub fn of(scene: &Scene) -> Self {
        let cloud_map = &scene.fleet.cloud_map;
        let mut state = Self::default();
        for (namespace, mut service) in scene.fleet.all_services() {
            let instances = by_address(cloud_map.instances(&service.id));
            service.id.clear();
            let place = (namespace, service.name.clone());
            state.lines.insert(format!("{place:?} {service:?}"));
            let addresses = state.addresses.entry(place.clone()).or_default();
            for (name, (_, mut attributes)) in instances {
                // The guard's note says which run first met the loss.
                attributes.remove("cloud-map-sync/guard");
                addresses.extend(attributes.get("AWS_INSTANCE_IPV4").cloned());
                state.lines.insert(format!("{place:?} {name} {attributes:?}"));
            }
        }
        for (number, cluster) in CLUSTERS.into_iter().enumerate() {
            for plural in OBJECTS {
                for object in scene.cluster(number).objects(plural, SHOP) {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                    let object = lasting(object);
                    state.lines.insert(format!("{cluster} {plural}/{name} {object}"));
                    state.imports.extend((plural == "serviceimports").then_some((number, name)));
                }
            }
        }
        state
    }

    /// The lines in which it differs from another state, each as it is here and there.
    pub fn difference(&self, wanted: &Self) -> String {
        let is = self.lines.difference(&wanted.lines).map(|it| format!("is     {it}"));
        let lacking = wanted.lines.difference(&self.lines).map(|it| format!("wanted {it}"));
        is.chain(lacking).collect::<Vec<_>>().join("\n")
    }
}

/// Ours by their address in place of the id: a new endpoint may have taken over the id of another one. One that has its
/// address twice keeps its id.
fn by_address(instances: BTreeMap<String, Attributes>) -> BTreeMap<String, (String, Attributes)> {
    let mut named = BTreeMap::new();
    for (id, attributes) in instances {
        let is_ours = ["cloud-map-sync/owner", "cloud-map-sync/exporter"]
            .iter()
            .any(|mark| attributes.contains_key(*mark));
        let address = attributes.get("AWS_INSTANCE_IPV4").filter(|_| is_ours);
        let name = address.filter(|it| !named.contains_key(*it)).unwrap_or(&id).clone();
        named.insert(name, (id, attributes));
    }
    named
}

/// An object without what the server makes up anew each time.
fn lasting(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for key in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            metadata.remove(key);
        }
        // What an import was ahead of Cloud Map in depends on which run changed it.
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        let _ = annotations.map(|it| it.remove("cloud-map-sync/ahead-of-cloud-map"));
        let owners = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten() {
            owner["uid"] = Value::Null;
        }
    }
    for key in ["clusterIP", "clusterIPs", "ips"] {
        if let Some(addresses) = object["spec"].get_mut(key) {
            *addresses = Value::Null;
        }
    }
    object
}

/// Has the stand-ins look at every call that no endpoint is lost that is there before and is wanted.
pub fn keep(scene: &mut Scene, before: &State, wanted: &State, may_lose_imports: bool) {
    for (place, was) in &before.addresses {
        let stays = wanted.addresses.get(place).map(|will| was & will).unwrap_or_default();
        let is_empty = was.is_empty() || wanted.addresses.get(place).is_none_or(BTreeSet::is_empty);
        if !is_empty {
            scene.fleet.cloud_map.keep(&place.0, &place.1, stays);
        }
    }
    if may_lose_imports {
        return (0..EXPORTED.len()).for_each(|name| scene.imports.unsettle(name));
    }
    for (cluster, name) in before.imports.intersection(&wanted.imports) {
        scene.cluster(*cluster).keep_ready(SHOP, name);
    }
}

/// A run that reports no problem has reached the wanted state, and none has put anything elsewhere.
pub async fn of_run(
    scene: &Scene,
    case: &Case,
    answer: &Answer,
    wanted: &State,
) -> Result<(), String> {
    let Some(report) = &answer.report else { return Ok(()) };
    let in_full = serde_json::to_value(report).expect("JSON");
    let is_answered = answer.response.as_ref().is_ok_and(|response| !has_trouble(response));
    let is_well = report.ok && is_answered && !has_trouble(&in_full);
    sleep(REST).await;
    let is = State::of(scene);
    if is_well && !case.deceives() && is != *wanted {
        return Err(format!("the run reports no problem, and {}", is.difference(wanted)));
    }
    Ok(())
}

/// Neither the log nor the answer has anything by which a request is authorized.
pub fn without_secrets(scene: &Scene, answer: &Answer, log: &[String]) -> Result<(), String> {
    let response = format!("{:?}", answer.response);
    for (what, secret) in scene.fleet.sandbox.aws().identities.secrets() {
        if let Some(line) = log.iter().chain([&response]).find(|line| line.contains(&secret)) {
            return Err(format!("{what} is in {line}"));
        }
    }
    Ok(())
}

/// A single fault does not multiply the calls. One that stays may be met by each of them, and again by its retries.
pub fn within(case: &Case, calls: usize, budget: usize) -> Result<(), String> {
    if case.times > 1 || calls <= budget {
        return Ok(());
    }
    Err(format!("{calls} calls to Cloud Map, more than {budget}"))
}

/// Whether a report or an answer names anything that is not done.
fn has_trouble(value: &Value) -> bool {
    let is_trouble = |key: &str| {
        ["heldBack", "held_back", "error", "kept", "problem", "batchItemFailures"].contains(&key)
    };
    let is_troubled_line = |line: &Value| {
        let is_fine = line["outcome"] == "planned" || line["outcome"] == "applied";
        !line["sign"].is_null() && !is_fine && line["code"] != EMPTIED
    };
    let is_empty = |value: &Value| {
        value.is_null() || value == &json!([]) || value == &json!("") || value == &json!(0)
    };
    match value {
        line if line.is_object() && is_troubled_line(line) => true,
        Value::Object(members) => members
            .iter()
            .any(|(key, value)| is_trouble(key) && !is_empty(value) || has_trouble(value)),
        Value::Array(items) => items.iter().any(has_trouble),
        _ => false,
    }
}

/// Nothing foreign was touched, and nothing lost.
pub fn untouched(scene: &mut Scene) -> Result<(), String> {
    scene.look()?;
    for (number, cluster) in CLUSTERS.into_iter().enumerate() {
        if let Some(gap) = scene.cluster(number).gaps().first() {
            return Err(format!("{cluster}: {gap}"));
        }
    }
    Ok(())
}
