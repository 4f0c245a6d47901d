//! The rules that rest on what Kubernetes does, on a real cluster: what of an endpoint is written, and what is too
//! much to be believed. One story, since a control plane takes seconds to start. Every sync is a new process of the
//! function, which knows nothing but what it finds. Tables of the plan and scenarios have all other rules.
//!
//! Ports and address families come as the endpoint-slice controller tells them: a slice for each set of target ports,
//! and one for each family. Three Deployments of four pods each are made and replaced by the cluster's own
//! controllers: what they lose at once is held, what they replace is not.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::lambda::Lambda;
use crate::real_cluster::{RealCluster, claim, headless};
use crate::world::{World, blue};
use testbed::cloud_map::RecordType;

#[tokio::test]
async fn rules_hold_on_a_real_cluster() {
    let world = World::start().await;
    let Some(cluster) = RealCluster::start(&world, true).await else { return };
    cluster.apply_rbac().await;
    cluster.node().await;
    let story = Story { world, cluster };

    story.named_port_is_the_one_behind_it_in_each_pods_own_slice().await;
    story.several_ports_are_several_instances_of_a_pod().await;
    story.rolling_replacement_of_every_pod_trips_nothing().await;
    story.deleted_namespace_keeps_its_instances_until_somebody_confirms().await;
    story.world.assert_that_the_ecs_task_is_unchanged();
}

struct Story {
    world: World,
    cluster: RealCluster,
}

impl Story {
    /// A full sync in which nothing fails; the next one writes nothing.
    async fn converge(&self) -> Value {
        let report = self.sync().await;
        let before = self.world.cloud_map.writes();
        let settled = self.sync().await;
        assert_eq!(self.world.cloud_map.writes(), before, "{settled}");
        report
    }

    async fn sync(&self) -> Value {
        let report = self.invoke(json!({"action": "sync"})).await;
        assert_eq!(report["ok"], true, "{report}");
        report
    }

    /// The answer of a function that has just started.
    async fn invoke(&self, payload: Value) -> Value {
        let mut lambda: Lambda = self.world.lambda(&[]).await;
        lambda.invoke(payload).await.expect("a report")
    }

    /// The attributes under a name by these keys, `-` for what is not there, sorted.
    fn values(&self, namespace: &str, name: &str, keys: &[&str]) -> Vec<String> {
        let instances = self.world.instances(namespace, name).into_values();
        let mut lines: Vec<String> = instances
            .map(|it| {
                let values = keys.iter().map(|key| it.get(*key).map_or("-", String::as_str));
                values.collect::<Vec<_>>().join(" ")
            })
            .collect();
        lines.sort();
        lines
    }
}

const IPV4_AND_PORT: [&str; 2] = ["AWS_INSTANCE_IPV4", "AWS_INSTANCE_PORT"];

/// A claim in the DNS namespace with ports.
fn claim_with_port(hostname: &str, port: &str) -> Value {
    let mut claim = claim("prod.local", hostname);
    claim["cloudmap.controller/port"] = port.into();
    claim
}

impl Story {
    pub(super) async fn named_port_is_the_one_behind_it_in_each_pods_own_slice(&self) {
        let spec = json!({
            "clusterIP": "None",
            "ports": [{"name": "metrics", "port": 80, "targetPort": "metrics"}],
        });
        self.cluster.service("meter", &claim_with_port("meter", "metrics"), &spec).await;
        let pods = [("meter-a", "10.0.2.1", 9100), ("meter-b", "10.0.2.2", 9200)];
        for (name, address, port) in pods {
            self.cluster.pod_with_port("meter", name, address, ("metrics", port)).await;
        }
        self.cluster.wait_for_ready("meter", &["10.0.2.1", "10.0.2.2"]).await;

        self.converge().await;

        let found = self.values("prod.local", "meter", &IPV4_AND_PORT);
        assert_eq!(found, ["10.0.2.1 9100", "10.0.2.2 9200"]);
        assert_eq!(self.records("meter"), [RecordType::Srv]);
    }

    pub(super) async fn several_ports_are_several_instances_of_a_pod(&self) {
        let spec = json!({
            "clusterIP": "None",
            "ports": [
                {"name": "http", "port": 80, "targetPort": 8080},
                {"name": "grpc", "port": 90, "targetPort": 9090},
            ],
        });
        self.cluster.service("api", &claim_with_port("api", "http,90"), &spec).await;
        self.cluster.pod("api", "api-a", &["10.0.2.3"]).await;
        self.cluster.wait_for_ready("api", &["10.0.2.3"]).await;
        self.converge().await;
        let found = self.values("prod.local", "api", &IPV4_AND_PORT);
        assert_eq!(found, ["10.0.2.3 8080", "10.0.2.3 9090"]);
    }

    /// The record types of a service in the DNS namespace.
    fn records(&self, name: &str) -> Vec<RecordType> {
        let services = self.world.services("prod.local");
        let service = services.into_iter().find(|service| service.name == name).expect("created");
        let records = service.dns.expect("DNS records").records;
        records.into_iter().map(|(record, _)| record).collect()
    }
}

const SHOPS: [&str; 3] = ["cart", "mail", "pay"];
const PODS: usize = 4;

impl Story {
    pub(super) async fn rolling_replacement_of_every_pod_trips_nothing(&self) {
        let _kubelet = self.cluster.kubelet();
        for name in SHOPS {
            self.cluster.service(name, &claim("prod", name), &headless()).await;
            self.cluster.deployment(name, PODS).await;
        }
        self.cluster.wait_for_rollout(&SHOPS).await;
        self.converge().await;
        let before = self.registered();
        assert_eq!(before.len(), SHOPS.len() * PODS);

        for name in SHOPS {
            self.cluster.restart(name).await;
        }
        let mut lambda = self.world.lambda(&[]).await;
        while !self.are_rolled_out().await {
            let report = lambda.invoke(json!({"action": "sync"})).await.expect("a report");
            assert!(report["ok"] == true && report["clusters"][0]["guard"].is_null(), "{report}");
            assert_eq!(report["counts"]["emptied"], 0, "{report}");
        }
        self.converge().await;
        let after = self.registered();
        assert_eq!((after.len(), before.intersection(&after).count()), (12, 0), "all are new");
    }

    /// All Services of the story are in it, those of the other sections too.
    pub(super) async fn deleted_namespace_keeps_its_instances_until_somebody_confirms(&self) {
        let kubelet = self.cluster.kubelet();
        let before = self.world.all_of_ours();
        assert!(before > SHOPS.len() * PODS);
        self.cluster.delete_namespace().await;
        drop(kubelet);
        let report = self.converge().await;
        let guard = &report["clusters"][0]["guard"];
        assert_eq!((&guard["state"], &guard["loss"]), (&json!("held"), &json!(before)), "{report}");
        assert_eq!(self.world.all_of_ours(), before);
        let first_seen = guard["firstSeen"].as_str().expect("a time");
        let services = guard["services"].as_array().expect("the losing Services").len();
        assert_eq!(self.sightings(), vec![first_seen; services], "a note for each Service");

        let report = self.invoke(json!({"action": "confirm", "cluster": blue().arn()})).await;
        assert_eq!(
            (&report["ok"], &report["counts"]["deregistered"]),
            (&json!(true), &json!(before))
        );
        self.converge().await;
        assert_eq!(self.world.all_of_ours(), 0);
    }

    /// When losses were first seen, as the guard has noted each on an instance of its Service.
    fn sightings(&self) -> Vec<String> {
        let mark = |it: &str| it.split(' ').next().unwrap_or_default().to_owned();
        let instances = ["prod", "prod.local"].into_iter().flat_map(|it| self.world.all(it));
        instances.filter_map(|it| it.get("cloud-map-sync/guard").map(|text| mark(text))).collect()
    }

    async fn are_rolled_out(&self) -> bool {
        for name in SHOPS {
            if !self.cluster.is_rolled_out(name).await {
                return false;
            }
        }
        true
    }

    fn registered(&self) -> BTreeSet<String> {
        SHOPS.iter().flat_map(|name| self.world.addresses("prod", name)).collect()
    }
}
