//! The worlds: so many Services with so many pods in so many namespaces, and under which rates. The same world is
//! seeded for the function and for ExternalDNS, each with the annotations and the kind of namespace that it knows.

use std::time::Duration;

use testbed::Sandbox;
use testbed::cloud_map::{Behaviour, CloudMap, NamespaceKind, Quotas};
use testbed::kubernetes::{Headless, KubernetesServer, Pod};

/// One world.
pub struct World {
    pub name: &'static str,
    pub services: usize,
    /// Of each Service.
    pub pods: usize,
    /// Services without annotations, with ten pods each.
    others: usize,
    namespaces: usize,
    /// How long an operation takes, in milliseconds.
    operation: u64,
    /// How many pods change after the syncs, one message after the other.
    pub events: usize,
    /// Whether an account's rates are kept, and the part of them that the function may use.
    pub quotas: bool,
    /// `QUOTA_SHARE`
    pub share: &'static str,
    /// Whether a message names each pod that changes; else a full sync finds it.
    pub has_messages: bool,
    /// Whether Cloud Map is loaded with all that is wanted: a first sync under quotas would take more than an hour.
    pub is_registered: bool,
    /// Whether ExternalDNS is measured in it: always, only where the world is asked for by name, or never.
    pub beside: Beside,
}

/// When ExternalDNS is measured in a world.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// Wherever there is a binary.
    Always,
    /// Where somebody asks for the world, since it takes longer than all the rest.
    Asked,
    /// It knows no quotas, and would be throttled.
    Never,
}

/// Whose world it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tenant {
    /// The function.
    Function,
    /// ExternalDNS: it registers in DNS namespaces only, and looks at pods.
    ExternalDns,
}

/// The worlds that the aims are about.
pub const SMALL: &str = "200 x 5, one namespace, no quotas";
pub const SMALL_UNDER_QUOTAS: &str = "200 x 10, an account's quotas, the whole of them";
pub const LARGE: &str = "1,000 x 20, ten namespaces, no quotas";
pub const LARGE_CLUSTER: &str =
    "1,000 x 10 among 10,000 Services with 100,000 endpoints, no quotas";
pub const LARGE_UNDER_QUOTAS: &str =
    "1,000 x 20, ten namespaces, an account's quotas, the whole of them";

pub const FIFTY_NAMESPACES: &str =
    "2,000 x 1, fifty namespaces, an account's quotas, the whole of them";

/// The worlds that the cost of one pod is compared in: ten instances, and so many that a full sync takes long.
pub const FEW_INSTANCES: &str = "1 x 10, operations of two seconds, no quotas";
pub const MANY_INSTANCES: &str =
    "1,000 x 20, twenty namespaces, operations of two seconds, no quotas";
pub const ALL_ANNOTATED: &str = "10,000 x 10, all annotated, no quotas";

/// The worlds in which a full sync finds each change, by their number of Services, with the longest time until it is
/// registered, in milliseconds.
pub const WITHOUT_MESSAGES: [(&str, &str, f64); 3] = [
    ("250", "250 x 1, full syncs in place of messages, half of an account's quotas", 3000.0),
    ("1,000", "1,000 x 1, full syncs in place of messages, half of an account's quotas", 3000.0),
    ("10,000", TEN_THOUSAND, 5000.0),
];
pub const TEN_THOUSAND: &str =
    "10,000 x 1, full syncs in place of messages, half of an account's quotas";

/// All worlds, the one that takes the longest last.
pub const WORLDS: &[World] = &[
    World { name: SMALL, services: 200, pods: 5, beside: Beside::Always, ..FREE },
    World { name: SMALL_UNDER_QUOTAS, services: 200, pods: 10, ..QUOTAS },
    World { name: LARGE, services: 1000, pods: 20, beside: Beside::Asked, ..TEN },
    World { name: LARGE_CLUSTER, services: 1000, pods: 10, others: 9000, ..TEN },
    World { name: FEW_INSTANCES, services: 1, pods: 10, operation: 2000, ..FREE },
    World {
        name: MANY_INSTANCES,
        services: 1000,
        pods: 20,
        namespaces: 20,
        operation: 2000,
        ..FREE
    },
    World { name: ALL_ANNOTATED, services: 10_000, pods: 10, ..TEN },
    World { name: WITHOUT_MESSAGES[0].1, services: 250, ..NO_MESSAGES },
    World { name: WITHOUT_MESSAGES[1].1, services: 1000, ..NO_MESSAGES },
    World { name: TEN_THOUSAND, services: 10_000, is_registered: true, ..NO_MESSAGES },
    World { name: FIFTY_NAMESPACES, services: 2000, pods: 1, namespaces: 50, ..QUOTAS },
    World { name: LARGE_UNDER_QUOTAS, services: 1000, pods: 20, namespaces: 10, ..QUOTAS },
];

/// The worlds that show how the cost grows: with the Services, and with the pods of ten Services.
pub const GROWING: &[World] = &[
    World { name: "250 Services x 1 pod", services: 250, pods: 1, ..TEN },
    World { name: "1,000 Services x 1 pod", services: 1000, pods: 1, ..TEN },
    World { name: "3,000 Services x 1 pod", services: 3000, pods: 1, ..TEN },
    World { name: "10,000 Services x 1 pod", services: 10_000, pods: 1, ..TEN },
    World { name: "30,000 Services x 1 pod", services: 30_000, pods: 1, ..TEN },
    World { name: "10 Services x 1 pod", services: 10, pods: 1, ..TEN },
    World { name: "10 Services x 10 pods", services: 10, pods: 10, ..TEN },
    World { name: "10 Services x 100 pods", services: 10, pods: 100, ..TEN },
    World { name: "10 Services x 1,000 pods", services: 10, pods: 1000, ..TEN },
];

const FREE: World = World {
    name: "",
    services: 0,
    pods: 0,
    others: 0,
    namespaces: 1,
    operation: 20,
    events: 40,
    quotas: false,
    share: "1000",
    has_messages: true,
    is_registered: false,
    beside: Beside::Never,
};

const TEN: World = World { namespaces: 10, ..FREE };
const QUOTAS: World = World { quotas: true, share: "1", operation: 2000, events: 5, ..FREE };
const NO_MESSAGES: World = World { share: "0.5", has_messages: false, pods: 1, ..QUOTAS };

impl World {
    pub fn instances(&self) -> usize {
        self.services * self.pods
    }

    /// One of [`WORLDS`].
    pub fn named(name: &str) -> &'static Self {
        WORLDS.iter().find(|world| world.name == name).expect("a world")
    }

    /// A sandbox with it.
    pub async fn seed(&self, tenant: Tenant) -> (Sandbox, KubernetesServer, CloudMap) {
        let sandbox = Sandbox::start().await.cluster("blue").await;
        let cluster = sandbox.kubernetes("blue");
        let cloud_map = sandbox.cloud_map();
        if tenant == Tenant::Function {
            cloud_map.watch_over("cloud-map-sync", &[&sandbox.cluster_arn("blue")]);
        } else {
            cluster.show_pods();
        }
        self.fill(&cluster, &cloud_map, tenant);
        (sandbox, cluster, cloud_map)
    }

    /// Fills a cluster and Cloud Map with it.
    pub fn fill(&self, cluster: &KubernetesServer, cloud_map: &CloudMap, tenant: Tenant) {
        let kind = match tenant {
            Tenant::Function => NamespaceKind::Http,
            Tenant::ExternalDns => NamespaceKind::DnsPrivate,
        };
        for namespace in 0..self.namespaces {
            cloud_map.namespace(&format!("prod-{namespace}"), kind);
        }
        for service in 0..self.services {
            self.add_service(cluster, tenant, service);
        }
        for other in 0..self.others {
            let name = format!("other-{other}");
            let namespace = format!("team-{}", other % 20);
            cluster.service(Headless::new(&namespace, &name).port("http", 8080));
            cluster.pods(&namespace, &name, &pods(self.services + other, 10, 0));
        }
        cloud_map.behave(self.behaviour());
    }

    fn add_service(&self, cluster: &KubernetesServer, tenant: Tenant, service: usize) {
        let namespace = self.namespace_of(service);
        let name = format!("web-{service}");
        let headless = Headless::new("shop", &name).port("http", 8080);
        cluster.service(match tenant {
            Tenant::Function => headless.claim(&name, &namespace),
            Tenant::ExternalDns => {
                let host = format!("{name}.{namespace}");
                headless.annotate("external-dns.alpha.kubernetes.io/hostname", &host)
            }
        });
        cluster.pods("shop", &name, &pods(service, self.pods, 0));
    }

    /// The Cloud Map namespace of a Service.
    pub fn namespace_of(&self, service: usize) -> String {
        format!("prod-{}", service % self.namespaces)
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour {
            latency: Duration::from_millis(20),
            operation_delay: Duration::from_millis(self.operation),
            quotas: self.quotas.then(Quotas::of_an_account),
            // AWS raises this one: larger fleets have it raised, with room for pods that are new beside the old ones.
            instances_per_namespace: (2 * self.instances() / self.namespaces).max(2000),
            discovery_on_any_host: true,
            ..Behaviour::default()
        }
    }
}

/// A sandbox with clusters `c0`, `c1` and so on, whose marks in Cloud Map are ours.
pub async fn sandbox_of(clusters: usize) -> (Sandbox, CloudMap, Vec<KubernetesServer>) {
    let mut sandbox = Sandbox::start().await;
    let names: Vec<String> = (0..clusters).map(|index| format!("c{index}")).collect();
    for name in &names {
        sandbox = sandbox.cluster(name).await;
    }
    let arns: Vec<String> = names.iter().map(|name| sandbox.cluster_arn(name)).collect();
    let cloud_map = sandbox.cloud_map();
    cloud_map.watch_over("cloud-map-sync", &arns);
    let clusters = names.iter().map(|name| sandbox.kubernetes(name)).collect();
    (sandbox, cloud_map, clusters)
}

/// The pods of a Service, the last so many of them new.
pub fn pods(service: usize, count: usize, new: usize) -> Vec<Pod> {
    let pods = (new..count + new)
        .map(|pod| Pod::new(&format!("web-{service}-{pod}"), &address(service, pod)));
    pods.collect()
}

/// The address of a pod, of fewer than 65,536 Services.
pub fn address(service: usize, pod: usize) -> String {
    format!("{}.{}.{}.{}", 10 + (pod >> 8), pod & 255, service >> 8, service & 255)
}
