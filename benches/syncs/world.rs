//! The worlds: so many Services with so many pods in so many namespaces, and under which rates. Each is synced from
//! nothing, then by the same process, then by a new one, and then told of single pods that change.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::function::{Binary, Function};
use crate::report::{Row, Table};
use crate::sandbox::Sandbox;
use crate::sandbox::cloud_map::{Behaviour, CloudMap, NamespaceKind, Quotas};
use crate::sandbox::kubernetes::{Headless, KubernetesServer, Pod};

/// How many pods change, one message after the other; where an operation takes two seconds, fewer.
const EVENTS: usize = 40;
const SLOW_EVENTS: usize = 5;

/// One world.
pub struct World {
    /// What it is called.
    pub name: &'static str,
    services: usize,
    pods: usize,
    /// Services without annotations, with ten pods each.
    others: usize,
    namespaces: usize,
    /// Whether an account's rates are kept, and the part of them that the function may use.
    quotas: bool,
    share: &'static str,
    /// Whether it only runs where it is asked for by name.
    is_long: bool,
}

/// All worlds.
pub const WORLDS: &[World] = &[
    World { name: "200 x 5, one namespace, no quotas", services: 200, pods: 5, ..NONE },
    World {
        name: "200 x 10, an account's quotas, the whole of them",
        services: 200,
        pods: 10,
        ..QUOTAS
    },
    World { name: "1,000 x 20, ten namespaces, no quotas", services: 1000, pods: 20, ..TEN },
    World {
        name: "1,000 x 10 among 10,000 Services with 100,000 endpoints, no quotas",
        services: 1000,
        pods: 10,
        others: 9000,
        ..TEN
    },
    World {
        name: "1,000 x 20, ten namespaces, an account's quotas, the whole of them",
        services: 1000,
        pods: 20,
        namespaces: 10,
        is_long: true,
        ..QUOTAS
    },
];

const NONE: World = World {
    name: "",
    services: 0,
    pods: 0,
    others: 0,
    namespaces: 1,
    quotas: false,
    share: "1000",
    is_long: false,
};
const TEN: World = World { namespaces: 10, ..NONE };
const QUOTAS: World = World { quotas: true, share: "1", ..NONE };

impl World {
    /// Whether a part of its name asks for it.
    pub fn is_asked_for(&self, filter: Option<&str>) -> bool {
        filter.map_or(!self.is_long, |filter| self.name.contains(filter))
    }

    /// Measures all runs in it.
    pub async fn run(&self, binary: &Binary) -> Table {
        let (sandbox, cluster, cloud_map) = self.seed().await;
        let settings = [("QUOTA_SHARE", self.share)];
        let sync = json!({ "action": "sync" });
        let mut function = binary.start(&sandbox, &settings).await;
        let mut rows = vec![self.measure("first sync", &mut function, &cloud_map, &sync).await];
        rows.push(self.measure("in step, warm", &mut function, &cloud_map, &sync).await);
        let mut cold = binary.start(&sandbox, &settings).await;
        rows.push(self.measure("in step, cold", &mut cold, &cloud_map, &sync).await);
        let discovers = [settings[0], ("REGISTRY_READ", "discover")];
        let mut cold = binary.start(&sandbox, &discovers).await;
        rows.push(self.measure("in step, cold, discovered", &mut cold, &cloud_map, &sync).await);
        let events = self.events(&mut function, &cluster, &cloud_map).await;
        Table { name: self.name, rows, events }
    }

    async fn seed(&self) -> (Sandbox, KubernetesServer, CloudMap) {
        let sandbox = Sandbox::start().await.cluster("blue").await;
        let (cluster, cloud_map) = (sandbox.kubernetes("blue"), sandbox.cloud_map());
        cloud_map.watch_over("cloud-map-sync", &[&sandbox.cluster_arn("blue")]);
        for namespace in 0..self.namespaces {
            cloud_map.namespace(&format!("prod-{namespace}"), NamespaceKind::Http);
        }
        for service in 0..self.services {
            let namespace = format!("prod-{}", service % self.namespaces);
            let name = format!("web-{service}");
            let annotated = Headless::new("shop", &name)
                .port("http", 8080)
                .annotate("cloudmap.controller/hostname", &name)
                .annotate("cloudmap.controller/namespace", &namespace);
            cluster.service(annotated);
            cluster.pods("shop", &name, &pods(service, self.pods, 0));
        }
        for other in 0..self.others {
            let name = format!("other-{other}");
            let namespace = format!("team-{}", other % 20);
            cluster.service(Headless::new(&namespace, &name).port("http", 8080));
            cluster.pods(&namespace, &name, &pods(self.services + other, 10, 0));
        }
        cloud_map.behave(Behaviour {
            latency: Duration::from_millis(20),
            operation_delay: Duration::from_millis(if self.quotas { 2000 } else { 20 }),
            quotas: self.quotas.then(Quotas::of_an_account),
            discovery_on_any_host: true,
            ..Behaviour::default()
        });
        (sandbox, cluster, cloud_map)
    }

    async fn measure(
        &self,
        name: &'static str,
        function: &mut Function,
        cloud_map: &CloudMap,
        payload: &Value,
    ) -> Row {
        cloud_map.forget_calls();
        let processor_time = function.processor_time();
        let start = Instant::now();
        let outcome = function.invoke(payload.clone()).await;
        let took = start.elapsed();
        let report = outcome.expect("an answer");
        assert_eq!(report["ok"], true, "{}", report["counts"]);
        Row {
            name,
            took,
            calls: cloud_map.counts(),
            throttled: cloud_map.calls().iter().filter(|call| call.status == 400).count(),
            forced: self.quotas.then(|| cloud_map.forced_time()),
            processor_time: function.processor_time() - processor_time,
            peak_memory: function.peak_memory(),
        }
    }

    /// From the change of a pod to the end of the invocation that was told of it, for one Service after the other.
    async fn events(
        &self,
        function: &mut Function,
        cluster: &KubernetesServer,
        cloud_map: &CloudMap,
    ) -> (Vec<Duration>, BTreeMap<String, usize>) {
        cloud_map.forget_calls();
        let mut times = Vec::new();
        let events = if self.quotas { SLOW_EVENTS } else { EVENTS };
        for service in 0..events {
            let name = format!("web-{service}");
            let start = Instant::now();
            cluster.pods("shop", &name, &pods(service, self.pods, 1));
            let body = json!({ "cluster": "blue", "namespace": "shop", "service": name });
            let record =
                json!({ "messageId": name, "eventSource": "aws:sqs", "body": body.to_string() });
            let outcome = function.invoke(json!({ "Records": [record] })).await;
            times.push(start.elapsed());
            let failures = outcome.expect("an answer")["batchItemFailures"].clone();
            assert_eq!(failures, json!([]));
        }
        times.sort();
        (times, cloud_map.counts())
    }
}

/// The pods of a Service, the last so many of them new.
fn pods(service: usize, count: usize, new: usize) -> Vec<Pod> {
    let pods = (new..count + new).map(|pod| {
        let number = service * 64 + pod;
        let address = format!("10.{}.{}.{}", number >> 16, (number >> 8) & 255, number & 255);
        Pod::new(&format!("web-{service}-{pod}"), &address)
    });
    pods.collect()
}
