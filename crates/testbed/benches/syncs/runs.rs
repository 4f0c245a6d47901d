//! What the function does in a world: a sync from nothing, the next by the same process, one by a new process,
//! and messages about single pods that change.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::function::{Binary, Function};
use crate::process::Used;
use crate::table::{Events, Row, Table};
use crate::world::{Tenant, World, address, pods};
use testbed::cloud_map::CloudMap;
use testbed::kubernetes::KubernetesServer;

/// Measures all runs in a world.
pub async fn run(world: &World, binary: &Binary) -> Table {
    let (sandbox, cluster, cloud_map) = world.seed(Tenant::Function).await;
    let settings = [("QUOTA_SHARE", world.share)];
    let mut function = binary.start(&sandbox, &settings).await;
    let mut rows = Vec::new();
    for name in ["first sync", "in step, warm"] {
        rows.push(full_sync(world.quotas, name, &mut function, &cloud_map).await);
    }
    let mut cold = binary.start(&sandbox, &settings).await;
    rows.push(full_sync(world.quotas, "in step, cold", &mut cold, &cloud_map).await);
    let events = events(world, &mut function, &cluster, &cloud_map).await;
    Table { name: world.name.to_owned(), rows, events: Some(events), imports: None }
}

/// One full sync that fails nothing; `quotas` is whether the rates force a time.
pub async fn full_sync(
    quotas: bool,
    name: &'static str,
    function: &mut Function,
    cloud_map: &CloudMap,
) -> Row {
    cloud_map.forget_calls();
    let before = function.used();
    let start = Instant::now();
    let outcome = function.invoke(json!({ "action": "sync" })).await;
    let took = start.elapsed();
    let report = outcome.expect("an answer");
    assert_eq!(report["ok"], true, "{}", report["counts"]);
    let Used { processor_time, peak_memory } = function.used();
    let processor_time = processor_time - before.processor_time;
    Row {
        name,
        took,
        calls: cloud_map.counts(),
        throttled: cloud_map.throttled(),
        forced: quotas.then(|| cloud_map.forced_time()),
        used: Used { processor_time, peak_memory },
    }
}

/// From the change of a pod to the end of the invocation that was told of it, or found it, for one Service after the
/// other.
async fn events(
    world: &World,
    function: &mut Function,
    cluster: &KubernetesServer,
    cloud_map: &CloudMap,
) -> Events {
    let mut events = Events { what: "One pod changed", ..Events::default() };
    for event in 0..world.events {
        cloud_map.forget_calls();
        let (service, new) = (event % world.services, event / world.services + 1);
        let name = format!("web-{service}");
        let (namespace, pods) = (world.namespace_of(service), pods(service, world.pods, new));
        cluster.pods("shop", &name, &pods);
        let registry = cloud_map.find_service(&namespace, &name).expect("it is registered");
        let newest = address(service, world.pods + new - 1);
        let start = Instant::now();
        let registered = async {
            let has = |attributes: &BTreeMap<String, String>| {
                attributes.get("AWS_INSTANCE_IPV4") == Some(&newest)
            };
            while !cloud_map.instances(&registry).values().any(has) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            start.elapsed()
        };
        let payload = if world.has_messages {
            message("blue", "shop", &name)
        } else {
            json!({ "action": "sync" })
        };
        let (took, registered) = tokio::join!(one_event(function, payload), registered);
        events.times.push(took);
        events.registered.push(registered);
        for (operation, count) in cloud_map.counts() {
            *events.calls.entry(operation).or_default() += count;
        }
        let reads = cloud_map.calls().iter().take_while(|call| !call.is_write()).count();
        events.reads_before_writes = events.reads_before_writes.max(reads);
    }
    events.times.sort();
    events.registered.sort();
    events
}

async fn one_event(function: &mut Function, payload: Value) -> Duration {
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
