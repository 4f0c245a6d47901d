//! Clusters that are kept in one Cloud Map. Synced together they have the same number of instances in all: a full sync of
//! more clusters reads no more, so that processor time and memory beyond those of one cluster are for the copy that each
//! plans with. With `FAN_OUT` each has an invocation of its own.

use std::time::Duration;

use serde_json::{Value, json};

use crate::function::Binary;
use crate::runs::{full_sync, load, measure, one_change, one_event};
use crate::table::{Events, Table};
use crate::world::{address, pods, sandbox_of};
use testbed::Sandbox;
use testbed::cloud_map::{Behaviour, CloudMap, NamespaceKind, Quotas};
use testbed::kubernetes::{Headless, KubernetesServer};

/// One world.
pub struct World {
    pub name: &'static str,
    clusters: usize,
    /// Of all clusters together, each with this number of pods.
    services: usize,
    pods: usize,
    namespaces: usize,
}

/// The largest that one account holds, until AWS raises its quotas.
pub const FAN_OUT: World = World {
    name: "10 clusters x 2,000 x 5 in one account, FAN_OUT, an account's quotas, the whole of them",
    clusters: 10,
    services: 20_000,
    pods: 5,
    namespaces: 50,
};

const TOGETHER: World = World { name: "", clusters: 1, services: 1600, pods: 10, namespaces: 10 };

/// The worlds that are synced together, the one with the fewest clusters first.
pub const WORLDS: &[World] = &[
    World { name: "1 cluster of one registry, 1,600 x 10, no quotas", ..TOGETHER },
    World {
        name: "8 clusters of one registry, 1,600 x 10 in all, no quotas",
        clusters: 8,
        ..TOGETHER
    },
    World {
        name: "32 clusters of one registry, 1,600 x 10 in all, no quotas",
        clusters: 32,
        ..TOGETHER
    },
];

impl World {
    /// Measures all runs in it.
    pub async fn run(&self, binary: &Binary) -> Table {
        let (sandbox, cloud_map, _) = self.seed().await;
        let settings = [("QUOTA_SHARE", "1000")];
        let mut function = binary.start(&sandbox, &settings).await;
        full_sync(false, "first sync", &mut function, &cloud_map).await;
        let mut rows = Vec::new();
        let mut function = binary.start(&sandbox, &settings).await;
        for name in ["in step, cold", "in step, warm"] {
            rows.push(full_sync(false, name, &mut function, &cloud_map).await);
        }
        Table { name: self.name.to_owned(), rows, ..Table::default() }
    }

    /// The same by an invocation for each cluster: of a process that knows nothing, and of one that has read all of Cloud
    /// Map and has served each cluster.
    pub async fn run_apart(&self, binary: &Binary) -> Table {
        let (sandbox, cloud_map, clusters) = self.seed().await;
        let queue = sandbox.own_queue();
        let place = |service| (format!("c{}", service % self.clusters), self.namespace_of(service));
        load(binary, (&sandbox, &cloud_map), (self.services, self.pods), place).await;
        let quotas = Some(Quotas::of_an_account());
        let operation_delay = Duration::from_secs(2);
        cloud_map.behave(Behaviour { operation_delay, quotas, ..self.behaviour() });
        let settings = [("QUOTA_SHARE", "1"), ("FAN_OUT", queue.url())];
        let mut rows = Vec::new();
        let mut new = binary.start(&sandbox, &settings).await;
        let payload = (&cloud_map, of_cluster(0));
        rows.push(measure(true, "in step, cold", &mut new, payload).await);
        let mut function = binary.start(&sandbox, &settings).await;
        let fresh = json!({ "action": "sync", "fresh": true, "cluster": "c0" });
        measure(true, "fresh", &mut function, (&cloud_map, fresh)).await;
        for cluster in 1..self.clusters {
            one_event(&mut function, of_cluster(cluster)).await;
        }
        let payload = (&cloud_map, of_cluster(0));
        rows.push(measure(true, "in step, warm", &mut function, payload).await);
        let mut events = Events { what: "One pod changed", ..Events::default() };
        for service in 0..5 {
            let cluster = service % self.clusters;
            let (name, namespace) = (format!("web-{service}"), self.namespace_of(service));
            clusters[cluster].pods("shop", &name, &pods(service, self.pods, 1));
            let newest = address(service, self.pods);
            let found = (&cloud_map, &*namespace, &*name, &*newest);
            one_change(&mut events, &mut function, of_cluster(cluster), found).await;
        }
        Table { name: self.name.to_owned(), rows, events: Some(events), ..Table::default() }
    }

    async fn seed(&self) -> (Sandbox, CloudMap, Vec<KubernetesServer>) {
        let (sandbox, cloud_map, clusters) = sandbox_of(self.clusters).await;
        for namespace in 0..self.namespaces {
            cloud_map.namespace(&format!("prod-{namespace}"), NamespaceKind::Http);
        }
        for service in 0..self.services {
            let cluster = &clusters[service % clusters.len()];
            let (name, namespace) = (format!("web-{service}"), self.namespace_of(service));
            let headless = Headless::new("shop", &name).port("http", 8080);
            cluster.service(headless.claim(&name, &namespace));
            cluster.pods("shop", &name, &pods(service, self.pods, 0));
        }
        cloud_map.behave(self.behaviour());
        (sandbox, cloud_map, clusters)
    }

    fn namespace_of(&self, service: usize) -> String {
        format!("prod-{}", service % self.namespaces)
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour {
            latency: Duration::from_millis(20),
            operation_delay: Duration::from_millis(20),
            instances_per_namespace: self.services * self.pods,
            discovery_on_any_host: true,
            ..Behaviour::default()
        }
    }
}

/// A batch with the message of a full sync of one cluster.
fn of_cluster(cluster: usize) -> Value {
    let body = json!({ "action": "sync", "cluster": format!("c{cluster}") }).to_string();
    json!({ "Records": [{ "messageId": "one", "eventSource": "aws:sqs", "body": body }] })
}
