//! The rules that hold in every case, by what stands in Cloud Map and in the clusters.

use std::collections::{BTreeMap, BTreeSet};

use cloud_map_sync::function::{Answer, Function};
use cloud_map_sync::time::Deadline;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::play::{REST, Stage};
use super::situation::{NOT_ALLOWED, Situation};
use super::trouble::Case;
use crate::multi_cluster::writes;
use testbed::cloud_map::ServiceView;
use testbed::function::TIMEOUT;

/// The objects of a cluster that the function may write.
const OBJECTS: [&str; 4] = ["services", "serviceexports", "serviceimports", "endpointslices"];

/// All that stands in Cloud Map and in the clusters, without what a server makes up.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    names: BTreeMap<(String, String), Name>,
    objects: BTreeMap<String, Value>,
}

/// A Cloud Map service with its instances and their health.
#[derive(Clone, Debug, PartialEq)]
struct Name {
    service: ServiceView,
    instances: Instances,
    health: Healths,
}

type Instances = BTreeMap<String, BTreeMap<String, String>>;
type Healths = BTreeMap<String, &'static str>;

impl State {
    pub fn of(stage: &Stage) -> Self {
        let cloud_map = &stage.fleet.cloud_map;
        let mut names = BTreeMap::new();
        for (id, namespace) in cloud_map.namespaces() {
            for service in cloud_map.services(&id) {
                let (mut instances, health) =
                    (cloud_map.instances(&service.id), cloud_map.health(&service.id));
                let service = ServiceView { id: String::new(), ..service };
                // The guard's note says which run first met the loss.
                for attributes in instances.values_mut() {
                    attributes.remove("cloud-map-sync/guard");
                }
                let (instances, health) = by_address(instances, health);
                let place = (namespace.clone(), service.name.clone());
                names.insert(place, Name { service, instances, health });
            }
        }
        let objects = stage.clusters().into_iter().flat_map(|(cluster, server)| {
            OBJECTS.into_iter().flat_map(move |plural| {
                server.objects(plural, "shop").into_iter().map(move |object| {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    (format!("{cluster} {plural}/{name}"), lasting(object.clone()))
                })
            })
        });
        Self { names, objects: objects.collect() }
    }

    fn addresses(&self, place: &(String, String)) -> BTreeSet<String> {
        let instances = self.names.get(place).map(|name| name.instances.values());
        let instances = instances.into_iter().flatten();
        instances.filter_map(|it| it.get("AWS_INSTANCE_IPV4").cloned()).collect()
    }

    /// A name as lines: the service, then each instance with its health.
    fn lines(&self, place: &(String, String)) -> BTreeSet<String> {
        let Some(Name { service, instances, health }) = self.names.get(place) else {
            return ["absent".to_owned()].into();
        };
        let instances = instances.iter().map(|(id, attributes)| {
            format!("{id} {}: {attributes:?}", health.get(id).unwrap_or(&"without health"))
        });
        instances.chain([format!("{service:?}")]).collect()
    }

    /// The parts that differ from another state, each as it is here and there.
    fn difference(&self, wanted: &Self) -> String {
        let places: BTreeSet<_> = self.names.keys().chain(wanted.names.keys()).collect();
        let names = places.into_iter().flat_map(|(namespace, name)| {
            let place = (namespace.clone(), name.clone());
            let lines = [self, wanted].map(|state| state.lines(&place));
            let [only, lacking] = [(0, 1), (1, 0)].map(|(one, other)| &lines[one] - &lines[other]);
            let only = only.into_iter().map(|line| format!("is     {line}"));
            let lacking = lacking.into_iter().map(|line| format!("wanted {line}"));
            let of_name = move |line| format!("{namespace}/{name} {line}");
            only.chain(lacking).map(of_name).collect::<Vec<_>>()
        });
        let keys: BTreeSet<_> = self.objects.keys().chain(wanted.objects.keys()).collect();
        let objects = keys.into_iter().filter_map(|key| {
            let text = |it: Option<&Value>| it.map_or("absent".to_owned(), Value::to_string);
            let (is, wanted) = (self.objects.get(key), wanted.objects.get(key));
            (is != wanted).then(|| format!("{key} is {}\n  wanted is {}", text(is), text(wanted)))
        });
        names.chain(objects).collect::<Vec<_>>().join("\n")
    }
}

/// Ours by their address in place of the id: a new endpoint may have taken over the id of another one. One that has its
/// address twice keeps its id.
fn by_address(instances: Instances, mut health: Healths) -> (Instances, Healths) {
    let mut named = BTreeMap::new();
    for (id, attributes) in instances {
        let is_ours = ["cloud-map-sync/owner", "cloud-map-sync/exporter"]
            .iter()
            .any(|mark| attributes.contains_key(*mark));
        let address = attributes.get("AWS_INSTANCE_IPV4").filter(|_| is_ours);
        let name = address.filter(|it| !named.contains_key(*it)).unwrap_or(&id).clone();
        if let Some(status) = health.remove(&id) {
            health.insert(name.clone(), status);
        }
        named.insert(name, attributes);
    }
    (named, health)
}

/// An object without what the server makes up anew each time.
fn lasting(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for key in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            metadata.remove(key);
        }
        for owner in
            metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten()
        {
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
pub fn keep(stage: &Stage, before: &State, wanted: &State) {
    keep_instances(stage, before, wanted);
    keep_imports(stage, before, wanted);
}

/// The same for Cloud Map alone.
pub fn keep_instances(stage: &Stage, before: &State, wanted: &State) {
    for place in before.names.keys() {
        let (was, will) = (before.addresses(place), wanted.addresses(place));
        if !was.is_empty() && !will.is_empty() {
            let stays = was.intersection(&will).cloned().collect();
            stage.fleet.cloud_map.keep(&place.0, &place.1, stays);
        }
    }
}

fn keep_imports(stage: &Stage, before: &State, wanted: &State) {
    for (cluster, server) in stage.clusters() {
        for key in before.objects.keys().filter(|key| wanted.objects.contains_key(*key)) {
            let name = key.strip_prefix(&format!("{cluster} serviceimports/"));
            if let Some(name) = name {
                server.keep_ready("shop", name);
            }
        }
    }
}

/// A run that reports no problem has reached the wanted state, and none has put anything elsewhere.
pub async fn of_run(
    stage: &Stage,
    case: &Case,
    answer: &Answer,
    wanted: &State,
) -> Result<(), String> {
    let Some(report) = &answer.report else { return Ok(()) };
    let in_full = serde_json::to_value(report).expect("JSON");
    let is_answered = answer.response.as_ref().is_ok_and(|response| !has_trouble(response));
    let is_well = report.ok && is_answered && !has_trouble(&in_full);
    sleep(REST).await;
    let is = State::of(stage);
    if is_well && !case.deceives() && is != *wanted {
        return Err(format!("the run reports no problem, and {}", is.difference(wanted)));
    }
    Ok(())
}

/// Neither the log nor the answer has anything by which a request is authorized.
pub fn without_secrets(stage: &Stage, answer: &Answer, log: &[String]) -> Result<(), String> {
    let response = format!("{:?}", answer.response);
    for (what, secret) in stage.fleet.sandbox.aws().identities.secrets() {
        if let Some(line) = log.iter().chain([&response]).find(|line| line.contains(&secret)) {
            return Err(format!("{what} is in {line}"));
        }
    }
    Ok(())
}

/// A single fault does not multiply the calls. One that stays may be met by each of them, and again by its retries.
pub fn within(case: &Case, calls: usize, budget: usize) -> Result<(), String> {
    if case.is_sticky || calls <= budget {
        return Ok(());
    }
    Err(format!("{calls} calls to Cloud Map, more than {budget}"))
}

/// Whether a report or an answer names anything that is not done.
fn has_trouble(value: &Value) -> bool {
    let is_trouble = |key: &str| {
        ["heldBack", "held_back", "error", "warnings", "kept", "problem", "batchItemFailures"]
            .contains(&key)
    };
    // The instances stay, since EKS did not return if their cluster exists.
    let is_unknown = |key: &str, value: &Value| key == "reason" && value == "ClusterUnknown";
    let is_empty = |value: &Value| {
        value.is_null() || value == &json!([]) || value == &json!("") || value == &json!(0)
    };
    match value {
        Value::Object(members) => members.iter().any(|(key, value)| {
            is_trouble(key) && !is_empty(value) || is_unknown(key, value) || has_trouble(value)
        }),
        Value::Array(items) => items.iter().any(has_trouble),
        _ => false,
    }
}

/// So many runs at most lead to the wanted state, and the one after writes nothing. Returns how many were needed.
pub async fn rest(
    stage: &Stage,
    situation: &Situation,
    process: &Function,
    wanted: &State,
    runs: usize,
) -> Result<usize, String> {
    let was_wanted = State::of(stage) == *wanted;
    let (mut reports, mut needed) = (String::new(), 0);
    loop {
        reports += &run(stage, situation, process).await?;
        sleep(REST).await;
        needed += 1;
        let is = State::of(stage);
        if is == *wanted {
            break;
        }
        if needed == runs {
            let difference = is.difference(wanted);
            return Err(format!("after {runs} runs without faults {difference}\n{reports}"));
        }
    }
    if was_wanted && needed == 1 {
        needed = 0;
    }
    stage.forget_calls();
    reports += &run(stage, situation, process).await?;
    let calls: Vec<_> = stage
        .fleet
        .cloud_map
        .calls()
        .into_iter()
        .filter(testbed::cloud_map::Call::is_write)
        .collect();
    let requests = stage.clusters().map(|(_, cluster)| writes(cluster)).concat();
    if calls.is_empty() && requests.is_empty() {
        return Ok(needed);
    }
    Err(format!("at rest it writes {calls:?} {requests:?}\n{reports}"))
}

async fn run(stage: &Stage, situation: &Situation, process: &Function) -> Result<String, String> {
    let payload = (situation.again)(stage);
    let answer = process.invoke(&payload, Deadline::after(TIMEOUT)).await;
    let report = answer.report.map(|report| report.to_string());
    report.ok_or_else(|| format!("no report without faults: {:?}", answer.response))
}

/// Nothing foreign was touched, nothing lost, and nothing put where it is neither before nor wanted.
pub fn untouched(stage: &Stage, before: &State, wanted: &State) -> Result<(), String> {
    let mut problems = stage.fleet.cloud_map.take_violations();
    for (cluster, server) in stage.clusters() {
        problems.extend(server.gaps().into_iter().map(|gap| format!("{cluster}: {gap}")));
    }
    let is = State::of(stage);
    for place in is.names.keys() {
        if is.addresses(place).contains(NOT_ALLOWED) {
            problems.push(format!("{place:?} has {NOT_ALLOWED}, which NAME_POLICY does not allow"));
        }
        let known = &before.addresses(place) | &wanted.addresses(place);
        let strays = &is.addresses(place) - &known;
        if !strays.is_empty() {
            problems.push(format!("{place:?} has {strays:?}, which nobody wants there"));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}
