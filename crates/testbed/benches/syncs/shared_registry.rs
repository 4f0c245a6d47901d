//! Clusters that are kept in one Cloud Map, with the same number of instances in all: a full sync of more clusters reads
//! no more, so that processor time and memory beyond those of one cluster are for the copy that each plans with.

use std::time::Duration;

use crate::function::Binary;
use crate::runs::full_sync;
use crate::table::Table;
use crate::world::pods;
use testbed::Sandbox;
use testbed::cloud_map::{Behaviour, CloudMap, NamespaceKind};
use testbed::kubernetes::Headless;

/// Of all clusters together, each with this number of pods.
const SERVICES: usize = 1600;
const PODS: usize = 10;
const NAMESPACES: usize = 10;

/// One world.
pub struct World {
    /// What it is called.
    pub name: &'static str,
    clusters: usize,
}

/// All worlds, the one with the fewest clusters first.
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
        Table { name: self.name.to_owned(), rows, events: None, imports: None }
    }

    async fn seed(&self) -> (Sandbox, CloudMap) {
        let mut sandbox = Sandbox::start().await;
        let names: Vec<String> = (0..self.clusters).map(|index| format!("c{index}")).collect();
        for name in &names {
            sandbox = sandbox.cluster(name).await;
        }
        let arns: Vec<String> = names.iter().map(|name| sandbox.cluster_arn(name)).collect();
        let cloud_map = sandbox.cloud_map();
        cloud_map
            .watch_over("cloud-map-sync", &arns.iter().map(String::as_str).collect::<Vec<_>>());
        for namespace in 0..NAMESPACES {
            cloud_map.namespace(&format!("prod-{namespace}"), NamespaceKind::Http);
        }
        let clusters: Vec<_> = names.iter().map(|name| sandbox.kubernetes(name)).collect();
        for service in 0..SERVICES {
            let cluster = &clusters[service % clusters.len()];
            let (name, namespace) =
                (format!("web-{service}"), format!("prod-{}", service % NAMESPACES));
            let headless = Headless::new("shop", &name).port("http", 8080);
            cluster.service(
                headless
                    .annotate("cloudmap.controller/hostname", &name)
                    .annotate("cloudmap.controller/namespace", &namespace),
            );
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
