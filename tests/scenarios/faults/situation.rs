//! The situations: a world, a change of it, and the invocation that follows. In most of them a task of ECS and an
//! instance that a person made stand beside ours.

use std::time::Duration;

use serde_json::{Value, json};

use super::play::Stage;
use crate::fleet::{annotated, attributes, give_pods};
use crate::multi_cluster::{CLUSTERSET, amber_attributes, amber_id, exported, pods, web};
use crate::queue::{batch, message};
use testbed::cloud_map::{NamespaceKind, ServiceKind};
use testbed::kubernetes::{BOUND_GROUP, ClusterIp, Headless, Pod};

/// A world and what happens in it.
pub struct Situation {
    pub name: &'static str,
    pub settings: &'static [(&'static str, &'static str)],
    /// Puts the world.
    pub before: fn(&Stage),
    /// Whether a full sync has followed.
    pub is_converged: bool,
    pub change: fn(&Stage),
    /// The payload of the run in which a call goes wrong.
    pub cause: fn(&Stage) -> Value,
    /// The payload of the runs after it.
    pub again: fn(&Stage) -> Value,
}

impl Situation {
    /// A converged world with `web` of two clusters and `cart` of one, which a full sync follows.
    pub fn new(name: &'static str, change: fn(&Stage)) -> Self {
        let sync = |_: &Stage| json!({ "action": "sync" });
        Self {
            name,
            settings: &[],
            before: shop,
            is_converged: true,
            change,
            cause: sync,
            again: sync,
        }
    }

    pub fn first_sync() -> Self {
        Self { is_converged: false, ..Self::new("first sync", |_| {}) }
    }

    pub fn scale() -> Self {
        Self::new("scale", |stage| {
            stage.fleet.pods("web", &["10.0.1.1", "10.0.1.3", "10.0.1.4"]);
            stage.fleet.pods("cart", &[]);
        })
    }

    pub fn rolling_replacement() -> Self {
        Self::new("rolling replacement", |stage| {
            stage.fleet.pods("web", &["10.0.1.3", "10.0.1.4"]);
            stage.fleet.pods("cart", &["10.0.1.7"]);
        })
    }

    pub fn rename() -> Self {
        Self::new("rename", |stage| stage.fleet.annotate("cart", "hostname", "basket"))
    }

    pub fn annotation_removed() -> Self {
        Self::new("annotation removed", |stage| stage.fleet.annotate("web", "hostname", ""))
    }

    pub fn service_deleted() -> Self {
        Self::new("service deleted", |stage| {
            stage.fleet.cluster.delete_service("shop", "web");
        })
    }

    pub fn ttl() -> Self {
        Self::new("ttl", |stage| stage.fleet.annotate("orders", "ttl", "15"))
    }

    pub fn custom_health() -> Self {
        let put = |stage: &Stage| {
            let service = annotated("web", "prod", "web");
            stage.fleet.service(service.annotate("cloudmap.controller/health", "custom"));
            health(stage, [Pod::not_ready, |pod| pod]);
        };
        let change = |stage: &Stage| health(stage, [|pod| pod, Pod::not_ready]);
        Self { before: put, ..Self::new("custom health", change) }
    }

    pub fn shared_name() -> Self {
        Self::new("shared name", |stage| {
            give_pods(&stage.green, "web", &["10.0.2.3"]);
            stage.fleet.pods("web", &["10.0.1.1"]);
        })
    }

    pub fn new_namespace() -> Self {
        let change = |stage: &Stage| {
            stage.fleet.web("team", "team", &["10.0.1.9"]);
            stage.green.service(annotated("team", "team", "team"));
            give_pods(&stage.green, "team", &["10.0.2.9"]);
        };
        let settings = &[("CREATE_NAMESPACES", "true")];
        Self { settings, ..Self::new("new namespace", change) }
    }

    pub fn empty_service() -> Self {
        let change = |stage: &Stage| {
            stage.fleet.cluster.delete_service("shop", "cart");
            stage.fleet.cluster.delete_service("shop", "orders");
        };
        let settings = &[("DELETE_EMPTY_SERVICES", "true")];
        Self { settings, ..Self::new("empty service", change) }
    }

    /// Messages about two Services, which the queue delivers again if they are failed back.
    pub fn message() -> Self {
        let cause = |_: &Stage| {
            let body =
                |service| json!({ "cluster": "blue", "namespace": "shop", "service": service });
            batch(&[message("of-web", &body("web")), message("of-cart", &body("cart"))])
        };
        Self { cause, name: "message", ..Self::rolling_replacement() }
    }

    /// A Service of a Kubernetes namespace that may claim no name stands beside one that may.
    pub fn name_policy() -> Self {
        let change = |stage: &Stage| {
            stage.fleet.pods("web", &["10.0.1.1", "10.0.1.3"]);
            let stray = Headless::new("ops", "web").created("2020-01-01T00:00:00Z");
            let stray = stray.annotate("cloudmap.controller/hostname", "stray");
            stage
                .fleet
                .cluster
                .service(stray.annotate("cloudmap.controller/namespace", "prod.local"));
            stage.fleet.cluster.pods("ops", "web", &[Pod::new("web-ops", NOT_ALLOWED)]);
        };
        let settings = &[(
            "NAME_POLICY",
            r#"[{"clusters": ["*"], "kubernetesNamespaces": ["shop"], "cloudMapNamespaces": ["*"], "names": ["*"]}]"#,
        )];
        Self { settings, ..Self::new("name policy", change) }
    }

    /// The guard holds the loss back, whatever goes wrong.
    pub fn mass_loss() -> Self {
        let settings = &[("GUARD_MINIMUM", "1"), ("GUARD_SHARE", "10")];
        let change = |stage: &Stage| {
            stage.fleet.pods("cart", &[]);
            stage.fleet.pods("orders", &[]);
            stage.fleet.pods("web", &["10.0.1.1"]);
        };
        Self { settings, ..Self::new("mass loss", change) }
    }

    pub fn adoption() -> Self {
        let before = |stage: &Stage| {
            let service = stage.fleet.ecs_service("web", "10.0.9.1");
            for (id, address) in [("hand-1", "10.0.1.1"), ("hand-2", "10.0.1.2")] {
                let made = [("AWS_INSTANCE_IPV4", address), ("weight", "10")];
                stage.fleet.put(&service, id, &attributes(&made));
            }
            stage.fleet.cloud_map.allow_adoption(&[(&service, "hand-1"), (&service, "hand-2")]);
            stage.fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]);
        };
        let adopt = |_: &Stage| json!({ "action": "adopt", "confirm": true });
        let new = Self::new("adoption", |_| {});
        Self { before, cause: adopt, again: adopt, is_converged: false, ..new }
    }

    pub fn purge() -> Self {
        let purge = |_: &Stage| json!({ "action": "purge", "cluster": "green", "confirm": true });
        let change = |stage: &Stage| _ = stage.green.delete_service("shop", "web");
        Self { cause: purge, again: purge, ..Self::new("purge", change) }
    }

    /// The cluster has been away for a day, and its instances have a note of that.
    pub fn dead_cluster() -> Self {
        let before = |stage: &Stage| {
            shop(stage);
            let service = stage.fleet.cloud_map.find_service("prod.local", "web").expect("seeded");
            let mut dead = stage.fleet.ours("web", "10.0.3.1");
            let arn = stage.fleet.sandbox.cluster_arn("blue").replace("/blue", "/amber");
            dead.insert("cloud-map-sync/cluster".into(), arn.clone());
            stage.fleet.put(&service, "of-amber", &dead);
            let arns = ["blue", "green"].map(|it| stage.fleet.sandbox.cluster_arn(it));
            stage.fleet.cloud_map.watch_over(crate::fleet::OWNER, &[&arns[0], &arns[1], &arn]);
        };
        let settings = &[("PURGE_DEAD_CLUSTERS_AFTER", "1d")];
        let change = |stage: &Stage| stage.clock.advance(Duration::from_hours(25));
        // For so long a refusal of EKS is not asked for again.
        let again = |stage: &Stage| {
            stage.clock.advance(Duration::from_mins(10));
            json!({ "action": "sync" })
        };
        Self { settings, before, again, ..Self::new("dead cluster", change) }
    }

    /// A cluster whose role the function assumes.
    pub fn through_a_role() -> Self {
        let before = |stage: &Stage| {
            stage.fleet.sandbox.role(READER, None);
            stage.fleet.cluster.grant(READER, &[BOUND_GROUP]);
            shop(stage);
        };
        let change = |stage: &Stage| stage.fleet.pods("web", &["10.0.1.1", "10.0.1.2", "10.0.1.3"]);
        Self { before, settings: WITH_A_ROLE, ..Self::new("through a role", change) }
    }

    pub fn first_export() -> Self {
        let new = Self::new("first export", |_| {});
        Self { before: clusterset, settings: MULTI_CLUSTER, is_converged: false, ..new }
    }

    pub fn exported_pods() -> Self {
        let change = |stage: &Stage| {
            pods(&stage.fleet.cluster, "web", &["10.0.1.2", "10.0.1.3"]);
            pods(&stage.green, "web", &["10.0.2.2"]);
        };
        let new = Self::new("exported pods", change);
        Self { before: clusterset, settings: MULTI_CLUSTER, ..new }
    }

    pub fn unexported() -> Self {
        let change = |stage: &Stage| {
            stage.fleet.cluster.unexport("shop", "web");
            stage.green.unexport("shop", "api");
        };
        let new = Self::new("unexported", change);
        Self { before: clusterset, settings: MULTI_CLUSTER, ..new }
    }
}

/// The address of a pod that `NAME_POLICY` keeps out of Cloud Map.
pub const NOT_ALLOWED: &str = "10.0.7.1";
pub const READER: &str = "arn:aws:iam::111122223333:role/reader";
const WITH_A_ROLE: &[(&str, &str)] = &[(
    "CLUSTERS",
    r#"[{"cluster": "blue", "roleArn": "arn:aws:iam::111122223333:role/reader"}, "green"]"#,
)];

pub const MULTI_CLUSTER: &[(&str, &str)] =
    &[("MULTI_CLUSTER", "on"), ("CREATE_NAMESPACES", "true")];

/// `web` of two clusters beside a task of ECS, `cart` beside an instance by hand, and `orders` with records of its own.
pub fn shop(stage: &Stage) {
    let fleet = &stage.fleet;
    fleet.ecs_service("web", "10.0.9.1");
    let cart = fleet.cloud_map.service(&fleet.http, "cart", ServiceKind::Http);
    let by_hand = [("AWS_INSTANCE_IPV4", "10.0.9.2"), ("colour", "red")];
    fleet.put(&cart, "by-hand", &attributes(&by_hand));
    fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]);
    fleet.web("cart", "prod", &["10.0.1.5"]);
    fleet.web("orders", "prod.local", &["10.0.1.6"]);
    stage.green.service(annotated("web", "prod.local", "web"));
    give_pods(&stage.green, "web", &["10.0.2.1"]);
}

/// `web` of two members and `api` of one, beside an endpoint that AWS's controller registered.
pub fn clusterset(stage: &Stage) {
    let (blue, cloud_map) = (&stage.fleet.cluster, &stage.fleet.cloud_map);
    let namespace = cloud_map.namespace("shop", NamespaceKind::Http);
    let of_amber = cloud_map.service(&namespace, "web", ServiceKind::Http);
    cloud_map.instance(&of_amber, &amber_id("10.0.3.1"), &amber_attributes("10.0.3.1"));
    for (name, cluster) in stage.clusters() {
        cluster.serve_multi_cluster();
        cluster.cluster_property("cluster.clusterset.k8s.io", name);
        cluster.cluster_property("clusterset.k8s.io", CLUSTERSET);
        cluster.namespace("shop");
    }
    exported(blue, web(), &["10.0.1.1", "10.0.1.2"], "2026-01-01T00:00:00Z");
    exported(&stage.green, web(), &["10.0.2.1"], "2026-01-02T00:00:00Z");
    let api = ClusterIp::new("shop", "api").port_of("TCP", "http", 80, 8080);
    exported(&stage.green, api, &["10.0.2.5"], "2026-01-03T00:00:00Z");
}

fn health(stage: &Stage, changes: [fn(Pod) -> Pod; 2]) {
    let pods = changes.into_iter().enumerate().map(|(index, change)| {
        change(Pod::new(&format!("web-{index}"), &format!("10.0.1.{}", index + 1)))
    });
    stage.fleet.cluster.pods("shop", "web", &pods.collect::<Vec<_>>());
}
