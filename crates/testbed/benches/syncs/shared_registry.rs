//! Clusters that are kept in one Cloud Map. Synced together they have the same number of instances in all: a full sync of
//! more clusters reads no more, so that processor time and memory beyond those of one cluster are for the copy that each
//! plans with.

use std::time::Duration;

use crate::function::Binary;
use crate::runs::full_sync;
use crate::table::Table;
use crate::world::{pods, sandbox_of};
use testbed::Sandbox;
use testbed::cloud_map::{Behaviour, CloudMap, NamespaceKind};
use testbed::kubernetes::Headless;

/// The Services of all clusters together, the pods of each, and the Cloud Map namespaces of their names.
const SERVICES: usize = 1600;
const PODS: usize = 10;
const NAMESPACES: usize = 10;

/// One world.
pub struct World {
    pub name: &'static str,
    clusters: usize,
}

/// The worlds that are synced together, the one with the fewest clusters first.
pub const WORLDS: &[World] = &[
    World { name: "1 cluster of one registry, 1,600 x 10, no quotas", clusters: 1 },
    World { name: "8 clusters of one registry, 1,600 x 10 in all, no quotas", clusters: 8 },
    World { name: "32 clusters of one registry, 1,600 x 10 in all, no quotas", clusters: 32 },
];

impl World {
    /// Measures all runs in it.
    pub async fn run(&self, binary: &Binary) -> Table {
        let (sandbox, cloud_map) = self.seed().await;
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

    async fn seed(&self) -> (Sandbox, CloudMap) {
        let (sandbox, cloud_map, clusters) = sandbox_of(self.clusters).await;
        for namespace in 0..NAMESPACES {
            cloud_map.namespace(&format!("prod-{namespace}"), NamespaceKind::Http);
        }
        for service in 0..SERVICES {
            let cluster = &clusters[service % clusters.len()];
            let name = format!("web-{service}");
            let namespace = format!("prod-{}", service % NAMESPACES);
            let headless = Headless::new("shop", &name).port("http", 8080);
            cluster.service(headless.claim(&name, &namespace));
            cluster.pods("shop", &name, &pods(service, PODS, 0));
        }
        cloud_map.behave(Behaviour {
            latency: Duration::from_millis(20),
            operation_delay: Duration::from_millis(20),
            instances_per_namespace: SERVICES * PODS,
            discovery_on_any_host: true,
            ..Behaviour::default()
        });
        (sandbox, cloud_map)
    }
}
