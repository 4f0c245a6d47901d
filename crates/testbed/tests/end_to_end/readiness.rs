//! Pods that start, fail their probe and end, on a real cluster whose own controller writes their conditions
//! into its slices.
//!
//! A real API server that refuses the function: it forbids what RBAC does not allow with 403, and a
//! token that it cannot verify with 401. Either is an error that Lambda's alarms see, and no instance
//! is lost over it.

use cloud_map_sync::actions::doctor::Checkup;
use serde::Deserialize;
use serde_json::json;

use crate::control_plane::manifest::LIST_SERVICES;
use crate::lambda::Lambda;
use crate::real_cluster::{RealCluster, claim, headless};
use crate::world::World;
use testbed::cloud_map::Behaviour;
use testbed::function::event;

const READY: &str = "ready serving";
const ENDING: &str = "serving terminating";

#[tokio::test]
async fn readiness_of_a_real_cluster_decides_which_pods_are_registered() {
    let Some(mut story) = Story::begin().await else { return };
    story.ready_pods_are_registered().await;
}

struct Story {
    world: World,
    cluster: RealCluster,
    lambda: Lambda,
}

impl Story {
    /// A cluster with the function beside it.
    async fn begin() -> Option<Self> {
        let world = World::start().await;
        let cluster = RealCluster::start(&world, true).await?;
        cluster.apply_rbac().await;
        cluster.node().await;
        let lambda = world.lambda(&[]).await;
        Some(Self { world, cluster, lambda })
    }

    async fn ready_pods_are_registered(&mut self) {
        self.service("web", &[]).await;
        self.service("calm", &[("terminating", "keep-serving")]).await;
        self.cluster.pod("web", "web-a", &["10.0.1.1"]).await;
        self.cluster.starting_pod("web", "web-b", &["10.0.1.2"]).await;
        self.cluster.pod("calm", "calm-a", &["10.0.2.1"]).await;
        self.cluster.wait_for_endpoints("web", &[("10.0.1.1", READY), ("10.0.1.2", "")]).await;
        self.cluster.wait_for_endpoints("calm", &[("10.0.2.1", READY)]).await;
        self.sync().await;
        assert_eq!(self.world.addresses("prod", "web"), ["10.0.1.1"]);

        self.cluster.readiness("web-a", false).await;
        self.cluster.readiness("web-b", true).await;
        self.cluster.wait_for_endpoints("web", &[("10.0.1.1", ""), ("10.0.1.2", READY)]).await;
        self.sync().await;
        assert_eq!(self.world.addresses("prod", "web"), ["10.0.1.2"]);

        self.cluster.readiness("web-a", true).await;
        self.cluster.end_pod("web-b").await;
        self.cluster.end_pod("calm-a").await;
        self.cluster.wait_for_endpoints("web", &[("10.0.1.1", READY), ("10.0.1.2", ENDING)]).await;
        self.cluster.wait_for_endpoints("calm", &[("10.0.2.1", ENDING)]).await;
        self.sync().await;
        assert_eq!(self.world.addresses("prod", "web"), ["10.0.1.1"]);
        assert_eq!(self.world.addresses("prod", "calm"), ["10.0.2.1"]);

        self.cluster.readiness("calm-a", false).await;
        self.cluster.wait_for_endpoints("calm", &[("10.0.2.1", "terminating")]).await;
        self.sync().await;
        assert_eq!(self.world.addresses("prod", "calm"), [""; 0]);
    }

    /// A headless Service that claims its own name in `prod`.
    async fn service(&self, name: &str, levers: &[(&str, &str)]) {
        let mut annotations = claim("prod", name);
        for (key, value) in levers {
            annotations[format!("cloudmap.controller/{key}")] = json!(value);
        }
        self.cluster.service(name, &annotations, &headless()).await;
    }

    /// A scheduled sync, and another one that finds nothing to write.
    async fn sync(&mut self) {
        for writes_nothing in [false, true] {
            self.world.cloud_map.forget_calls();
            let answer = self.lambda.invoke(event("schedule-eventbridge-rule")).await;
            let answer = answer.unwrap_or_else(|failure| panic!("{failure:?}"));
            let writes = self.world.cloud_map.writes();
            assert!(!writes_nothing || writes == 0, "{answer}");
        }
    }
}

#[tokio::test]
async fn real_cluster_that_refuses_the_function_loses_no_instance() {
    let world = World::start().await;
    let behaviour = Behaviour { discovery_on_any_host: true, ..Behaviour::default() };
    world.cloud_map.behave(behaviour);
    let Some(cluster) = RealCluster::start(&world, false).await else { return };
    cluster.service("web", &claim("prod.local", "web"), &headless()).await;
    cluster.slice("web", &["10.0.1.1"]).await;
    let mut lambda = world.lambda(&[]).await;

    assert_that_the_sync_fails(&world, &mut lambda, &["403", "services is forbidden"]).await;
    assert_eq!(world.addresses("prod.local", "web"), [""; 0]);
    assert_that_the_doctor_finds(&mut lambda, &["! rbac       may not list services"]).await;

    cluster.apply_rbac().await;
    let answer = lambda.invoke(event("schedule-eventbridge-rule")).await.expect("allowed now");
    assert_eq!(answer["counts"]["registered"], 1, "{answer}");
    assert_eq!(world.addresses("prod.local", "web"), ["10.0.1.1"]);
    let finds = ["= rbac       may create events", "all checks passed"];
    assert_that_the_doctor_finds(&mut lambda, &finds).await;

    // A key that AWS knows and the cluster's token verifier does not.
    let unknown = world.sandbox.another_process().access_key().clone();
    let mut stranger = world.lambda_with_key(&unknown).await;
    assert_that_the_sync_fails(&world, &mut stranger, &["401", "Unauthorized"]).await;
    assert_that_the_doctor_finds(&mut stranger, &["! token", "create-access-entry"]).await;
    assert_eq!(world.addresses("prod.local", "web"), ["10.0.1.1"]);

    cluster.control_plane.take_right("cloud-map-sync", LIST_SERVICES).await;
    let mut lambda = world.lambda(&[]).await;
    assert_that_the_sync_fails(&world, &mut lambda, &["403", "services is forbidden"]).await;
    assert_eq!(world.addresses("prod.local", "web"), ["10.0.1.1"]);
    world.assert_that_the_ecs_task_is_unchanged();
}

async fn assert_that_the_sync_fails(world: &World, lambda: &mut Lambda, because: &[&str]) {
    world.cloud_map.forget_calls();
    let outcome = lambda.invoke(event("schedule-eventbridge-rule")).await;
    let failure = outcome.expect_err("a cluster that cannot be read is no success");
    assert_eq!(failure.error_type, "SyncIncomplete", "{failure:?}");
    assert!(failure.error_message.starts_with("1 cluster not read;"), "{failure:?}");
    assert_eq!(world.cloud_map.writes(), 0);
    let log = lambda.log();
    let line = log.lines().find(|line| line.contains("cluster not read, so nothing was changed"));
    let line = line.unwrap_or_else(|| panic!("a line for the cluster\n{log}"));
    for word in because {
        assert!(line.contains(word), "{word} in {line}");
    }
}

async fn assert_that_the_doctor_finds(lambda: &mut Lambda, lines: &[&str]) {
    let answer = lambda.invoke(json!({"action": "doctor"})).await.expect("a checkup");
    let said = Checkup::deserialize(&answer).expect("of this release").to_string();
    for line in lines {
        assert!(said.contains(line), "{line} in\n{said}");
    }
}
