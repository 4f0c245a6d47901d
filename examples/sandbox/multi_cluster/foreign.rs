//! Everything that is not ours: instances in Cloud Map and objects in the clusters. People change some of them in the
//! story. The function must change none.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Clusterset;
use testbed::cloud_map::ServiceKind;
use testbed::kubernetes::{ClusterIp, Export, KubernetesServer, Pod};

/// The foreign instances and objects, each by its service or cluster and its name.
pub type Foreign = BTreeMap<String, Value>;

const NAMESPACES: [&str; 2] = ["shop", "clusterset.shop-set"];
const KINDS: [&str; 6] = [
    "clusterproperties",
    "endpointslices",
    "namespaces",
    "serviceexports",
    "serviceimports",
    "services",
];
/// The marks of our instances: of annotated Services, and of exports.
const MARKS: [&str; 2] = ["cloud-map-sync/owner", "cloud-map-sync/exporter"];

impl Clusterset {
    /// amber exports `cart`, which AWS's controller registers. Each cluster has a Service that is not exported, blue an
    /// import of another tool, and an ECS task has the name `web` in Cloud Map.
    pub(super) fn put_foreign(&self) {
        for cluster in [&self.blue, &self.green, &self.amber] {
            cluster.service(ClusterIp::new("shop", "mail").port_of("TCP", "smtp", 25, 2525));
            cluster.pods("shop", "mail", &[Pod::new("mail-1", "10.9.0.1")]);
        }
        self.blue.put(json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
            "metadata": {"namespace": "shop", "name": "billing"},
            "spec": {"type": "Headless", "ports": []},
        }));
        self.amber.service(ClusterIp::new("shop", "cart").port_of("TCP", "http", 80, 8080));
        self.amber.pods("shop", "cart", &[Pod::new("cart-1", "10.2.0.1")]);
        self.amber.put(Export::new("shop", "cart").created("2026-01-01T00:00:00Z").into());
        self.aws.run();
        let cloud_map = self.sandbox.cloud_map();
        let namespace = cloud_map.find_namespace("shop").expect("of AWS's controller");
        let web = cloud_map.service(&namespace, "web", ServiceKind::Http);
        let task = [("AWS_INSTANCE_IPV4", "10.0.90.11"), ("ECS_SERVICE_NAME", "web")];
        cloud_map.instance(&web, "5f3c1e0b7a9d4c2e8b6f0a1d2c3e4f50", &task);
    }

    /// Everything that is not ours now.
    pub(super) fn foreign(&self) -> Foreign {
        let clusters = [&self.blue, &self.green, &self.amber].into_iter();
        clusters.flat_map(objects).chain(self.instances()).collect()
    }

    /// The foreign instances and objects that have changed.
    pub(super) fn changed_since(&self, before: &Foreign) -> Vec<String> {
        let now = self.foreign();
        let changed = before.iter().filter(|(what, was)| now.get(*what) != Some(was));
        changed.map(|(what, _)| what.clone()).collect()
    }

    fn instances(&self) -> Foreign {
        let cloud_map = self.sandbox.cloud_map();
        let mut all = Foreign::new();
        for namespace in NAMESPACES {
            let services = cloud_map.find_namespace(namespace).map(|id| cloud_map.services(&id));
            for service in services.into_iter().flatten() {
                for (id, attributes) in cloud_map.instances(&service.id) {
                    if !MARKS.iter().any(|mark| attributes.contains_key(*mark)) {
                        let what = format!("Cloud Map {namespace}/{} {id}", service.name);
                        all.insert(what, json!(attributes));
                    }
                }
            }
        }
        all
    }
}

/// Whether an object in a cluster has our label.
pub fn is_ours(object: &Value) -> bool {
    object["metadata"]["labels"].get("cloud-map-sync/owner").is_some()
}

fn objects(cluster: &KubernetesServer) -> Foreign {
    let mut all = Foreign::new();
    for kind in KINDS {
        for mut object in cluster.objects(kind, "") {
            if is_ours(&object) {
                continue;
            }
            if kind == "serviceexports" {
                remove_conditions(&mut object);
            }
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            all.insert(format!("{} {kind} {name}", cluster.identity().name), object);
        }
    }
    all
}

/// Removes the conditions of an export, which the function writes according to the API.
fn remove_conditions(export: &mut Value) {
    export["status"].take();
    for key in ["resourceVersion", "managedFields"] {
        export["metadata"][key].take();
    }
}
