//! What the function does in a world: a sync from nothing, the next by the same process, one by a new process,
//! and messages about single pods that change.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::function::{Binary, Function};
use crate::table::{Events, Row, Table};
use crate::world::{Tenant, World, address, pods};
use testbed::Sandbox;
use testbed::cloud_map::{CloudMap, ServiceKind};
use testbed::kubernetes::KubernetesServer;

/// Measures all runs in a world.
pub async fn run(world: &World, binary: &Binary) -> Table {
    let (sandbox, cluster, cloud_map) = world.seed(Tenant::Function).await;
    let settings = [("QUOTA_SHARE", world.share)];
    let mut rows = Vec::new();
    if world.is_registered {
        load(world, binary, &sandbox, &cloud_map).await;
    }
    let mut function = binary.start(&sandbox, &settings).await;
    if world.is_registered {
        rows.push(full_sync(true, "in step, cold", &mut function, &cloud_map).await);
        let start = Instant::now();
        let mut runs = 1;
        while unread(&function.invoke(json!({ "action": "sync" })).await.expect("an answer")) > 0 {
            runs += 1;
        }
        eprintln!("knows all after {runs} further runs, {:.0} s", start.elapsed().as_secs_f64());
        rows.push(full_sync(true, "in step, warm", &mut function, &cloud_map).await);
    } else {
        for name in ["first sync", "in step, warm"] {
            rows.push(full_sync(world.quotas, name, &mut function, &cloud_map).await);
        }
        let mut cold = binary.start(&sandbox, &settings).await;
        rows.push(full_sync(world.quotas, "in step, cold", &mut cold, &cloud_map).await);
    }
    let events = Some(events(world, &mut function, &cluster, &cloud_map).await);
    Table { name: world.name.to_owned(), rows, events, ..Table::default() }
}

/// Loads Cloud Map with all that is wanted: the function registers the first Service, and all others are as that one.
async fn load(world: &World, binary: &Binary, sandbox: &Sandbox, cloud_map: &CloudMap) {
    let mut function = binary.start(sandbox, &[]).await;
    one_event(&mut function, message("blue", "shop", "web-0")).await;
    let first = cloud_map.find_service(&world.namespace_of(0), "web-0").expect("it is registered");
    let instances = cloud_map.instances(&first).into_values();
    let is_first = |it: &BTreeMap<String, String>| it["AWS_INSTANCE_IPV4"] == address(0, 0);
    let model = instances.into_iter().find(is_first).expect("its first pod");
    for service in 1..world.services {
        let namespace = world.namespace_of(service);
        let namespace = cloud_map.find_namespace(&namespace).expect("a namespace");
        let name = format!("web-{service}");
        let id = cloud_map.service(&namespace, &name, ServiceKind::Http);
        cloud_map.tag(&id, "cloud-map-sync/owner", "cloud-map-sync");
        for pod in 0..world.pods {
            let pod_name = format!("{name}-{pod}");
            let address = address(service, pod);
            let attributes = model.iter().map(|(key, value)| match value.as_str() {
                "web-0" => (key.as_str(), name.as_str()),
                "web-0-0" => (key.as_str(), pod_name.as_str()),
                _ if key == "AWS_INSTANCE_IPV4" => (key.as_str(), address.as_str()),
                value => (key.as_str(), value),
            });
            let instance = format!("ip-{}", address.replace('.', "-"));
            cloud_map.instance(&id, &instance, &attributes.collect::<Vec<_>>());
        }
    }
}

/// The Cloud Map services that the first cluster's sync knows by no read.
fn unread(report: &Value) -> u64 {
    assert_eq!(report["ok"], true, "{}", report["counts"]);
    report["clusters"][0]["unread"].as_u64().unwrap_or_default()
}

/// One full sync that fails nothing; `quotas` is whether the rates force a time.
pub async fn full_sync(
    quotas: bool,
    name: &'static str,
    function: &mut Function,
    cloud_map: &CloudMap,
) -> Row {
    measure(quotas, name, function, (cloud_map, json!({ "action": "sync" }))).await
}

/// One invocation that fails nothing.
async fn measure(
    quotas: bool,
    name: &'static str,
    function: &mut Function,
    (cloud_map, payload): (&CloudMap, Value),
) -> Row {
    cloud_map.forget_calls();
    let before = function.used();
    let start = Instant::now();
    let outcome = function.invoke(payload).await;
    let took = start.elapsed();
    let answer = outcome.expect("an answer");
    assert!(answer["ok"] == true || answer["batchItemFailures"] == json!([]), "{answer}");
    // A message that cannot be read is dropped, which is no failure.
    assert_ne!(cloud_map.counts().values().sum::<usize>(), 0, "nothing was read: {answer}");
    Row {
        name,
        took,
        calls: cloud_map.counts(),
        throttled: cloud_map.throttled(),
        forced: quotas.then(|| cloud_map.forced_time()),
        used: function.used_since(before),
    }
}

/// From the change of a pod to the end of the invocation that got a message about it or found it, for one Service after
/// the other.
async fn events(
    world: &World,
    function: &mut Function,
    cluster: &KubernetesServer,
    cloud_map: &CloudMap,
) -> Events {
    let mut events = Events { what: "One pod changed", ..Events::default() };
    let before = function.used();
    for event in 0..world.events {
        let service = event % world.services;
        let new = event / world.services + 1;
        let name = format!("web-{service}");
        let namespace = world.namespace_of(service);
        let pods = pods(service, world.pods, new);
        cluster.pods("shop", &name, &pods);
        let newest = address(service, world.pods + new - 1);
        let payload = if world.has_messages {
            message("blue", "shop", &name)
        } else {
            json!({ "action": "sync" })
        };
        one_change(&mut events, function, payload, (cloud_map, &namespace, &name, &newest)).await;
    }
    events.used = function.used_since(before);
    events
}

/// Measures the invocation that finds that a Service in Cloud Map has a new pod, from the change to the registration and to its end.
pub async fn one_change(
    events: &mut Events,
    function: &mut Function,
    payload: Value,
    (cloud_map, namespace, name, newest): (&CloudMap, &str, &str, &str),
) {
    cloud_map.forget_calls();
    let service = cloud_map.find_service(namespace, name).expect("it is registered");
    let registered = registered(cloud_map, &service, newest);
    let (took, registered) = tokio::join!(one_event(function, payload), registered);
    events.registered.push(registered);
    events.registered.sort();
    events.add(took, cloud_map);
}

/// The time until an address is registered.
async fn registered(cloud_map: &CloudMap, service: &str, address: &str) -> Duration {
    let start = Instant::now();
    let has = |attributes: &BTreeMap<String, String>| {
        attributes.get("AWS_INSTANCE_IPV4").is_some_and(|it| it == address)
    };
    while !cloud_map.instances(service).values().any(has) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    start.elapsed()
}

pub async fn one_event(function: &mut Function, payload: Value) -> Duration {
    let start = Instant::now();
    let answer = function.invoke(payload).await.expect("an answer");
    let took = start.elapsed();
    assert!(answer["ok"] == true || answer["batchItemFailures"] == json!([]), "{answer}");
    took
}

/// A batch of one message about a Service.
pub fn message(cluster: &str, namespace: &str, service: &str) -> Value {
    let body = json!({ "cluster": cluster, "namespace": namespace, "service": service });
    let record: Value =
        json!({ "messageId": service, "eventSource": "aws:sqs", "body": body.to_string() });
    json!({ "Records": [record] })
}
