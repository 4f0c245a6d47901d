//! Pods that start, fail their probe and end, on a real cluster whose own controller says in its slices
//! what they are: as health where the Service asks for it, and as membership with its two levers.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::lambda::Lambda;
use crate::real_cluster::RealCluster;
use crate::sandbox::cloud_map::Behaviour;
use crate::sandbox::function::event;
use crate::world::World;

const READY: &str = "ready serving";
const ENDING: &str = "serving terminating";

#[tokio::test]
async fn pods_of_a_real_cluster_are_as_healthy_as_they_are_ready() {
    let Some(mut story) = Story::begin().await else { return };

    story.service("web", &[("health", "custom")]).await;
    story.service("calm", &[("health", "custom"), ("terminating", "keep-serving")]).await;
    story.cluster.pod("web", "web-a", &["10.0.1.1"]).await;
    story.cluster.starting_pod("web", "web-b", &["10.0.1.2"]).await;
    story.cluster.pod("calm", "calm-a", &["10.0.2.1"]).await;
    story.cluster.wait_for("web", &[("10.0.1.1", READY), ("10.0.1.2", "")]).await;
    story.cluster.wait_for("calm", &[("10.0.2.1", READY)]).await;
    story.sync().await;
    assert_eq!(story.health("web"), ["10.0.1.1 HEALTHY", "10.0.1.2 UNHEALTHY"]);

    let before = story.world.instances("prod", "web");
    story.cluster.readiness("web-a", false).await;
    story.cluster.readiness("web-b", true).await;
    story.cluster.wait_for("web", &[("10.0.1.1", ""), ("10.0.1.2", READY)]).await;
    story.sync().await;
    assert_eq!(story.health("web"), ["10.0.1.1 UNHEALTHY", "10.0.1.2 HEALTHY"]);
    assert_eq!(story.world.instances("prod", "web"), before, "no instance was touched");

    story.cluster.readiness("web-a", true).await;
    story.cluster.end_pod("web-b").await;
    story.cluster.end_pod("calm-a").await;
    story.cluster.wait_for("web", &[("10.0.1.1", READY), ("10.0.1.2", ENDING)]).await;
    story.cluster.wait_for("calm", &[("10.0.2.1", ENDING)]).await;
    story.sync().await;
    assert_eq!(story.health("web"), ["10.0.1.1 HEALTHY"]);
    assert_eq!(story.health("calm"), ["10.0.2.1 HEALTHY"]);

    story.cluster.readiness("calm-a", false).await;
    story.cluster.wait_for("calm", &[("10.0.2.1", "terminating")]).await;
    story.sync().await;
    assert!(story.health("calm").is_empty());
}

#[tokio::test]
async fn pods_of_a_real_cluster_stay_while_they_serve_and_the_last_ones_until_others_are_ready() {
    let Some(mut story) = Story::begin().await else { return };

    story.service("calm", &[("terminating", "keep-serving")]).await;
    story.service("last", &[("when-none-ready", "keep")]).await;
    story.service("odd", &[("health", "custom"), ("when-none-ready", "keep")]).await;
    for (app, address) in [("calm", "10.0.2.1"), ("last", "10.0.3.1"), ("odd", "10.0.4.1")] {
        story.cluster.pod(app, &format!("{app}-a"), &[address]).await;
        story.cluster.wait_for(app, &[(address, READY)]).await;
    }
    story.sync().await;

    story.cluster.end_pod("calm-a").await;
    story.cluster.readiness("last-a", false).await;
    story.cluster.readiness("odd-a", false).await;
    story.cluster.wait_for("calm", &[("10.0.2.1", ENDING)]).await;
    story.cluster.wait_for("last", &[("10.0.3.1", "")]).await;
    story.cluster.wait_for("odd", &[("10.0.4.1", "")]).await;
    story.sync().await;
    assert_eq!(story.world.addresses("prod", "calm"), ["10.0.2.1"]);
    assert_eq!(story.world.addresses("prod", "last"), ["10.0.3.1"]);
    assert_eq!(story.health("odd"), ["10.0.4.1 HEALTHY"]);

    story.cluster.readiness("calm-a", false).await;
    story.cluster.delete_pod("last-a").await;
    story.cluster.pod("odd", "odd-b", &["10.0.4.2"]).await;
    story.cluster.wait_for("calm", &[("10.0.2.1", "terminating")]).await;
    story.cluster.wait_for("last", &[]).await;
    story.cluster.wait_for("odd", &[("10.0.4.1", ""), ("10.0.4.2", READY)]).await;
    story.sync().await;
    assert!(story.world.addresses("prod", "calm").is_empty());
    assert_eq!(story.world.addresses("prod", "last"), ["10.0.3.1"]);
    assert_eq!(story.health("odd"), ["10.0.4.1 UNHEALTHY", "10.0.4.2 HEALTHY"]);

    story.cluster.pod("last", "last-b", &["10.0.3.2"]).await;
    story.cluster.wait_for("last", &[("10.0.3.2", READY)]).await;
    story.sync().await;
    assert_eq!(story.world.addresses("prod", "last"), ["10.0.3.2"]);
}

struct Story {
    world: World,
    cluster: RealCluster,
    lambda: Lambda,
}

impl Story {
    /// A cluster with the function beside it; what is reported of health takes effect at once.
    async fn begin() -> Option<Self> {
        let world = World::start().await;
        let health_delay = Duration::ZERO;
        world.cloud_map.behave(Behaviour { health_delay, ..Behaviour::default() });
        let cluster = RealCluster::start(&world, true).await?;
        cluster.apply_rbac().await;
        cluster.node().await;
        let lambda = world.lambda(&[]).await;
        Some(Self { world, cluster, lambda })
    }

    /// A headless Service that claims its own name in `prod`.
    async fn service(&self, name: &str, levers: &[(&str, &str)]) {
        let own = [("hostname", name), ("namespace", "prod")];
        let annotations = own.iter().chain(levers);
        let annotations = annotations
            .map(|(key, value)| (format!("cloudmap.controller/{key}"), Value::from(*value)));
        let annotations = Value::Object(annotations.collect());
        self.cluster.service(name, &annotations, &json!({"clusterIP": "None"})).await;
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

    /// Address and health of all that stands under a name of `prod`.
    fn health(&self, name: &str) -> Vec<String> {
        let service = self.world.cloud_map.find_service("prod", name).expect("it is created");
        let known = self.world.cloud_map.health(&service);
        let instances = self.world.instances("prod", name).into_iter();
        let lines = instances.map(|(id, it)| format!("{} {}", it["AWS_INSTANCE_IPV4"], known[&id]));
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        lines
    }
}

impl RealCluster {
    /// Begins to delete a pod: it terminates until its kubelet says that it is gone, and there is none.
    async fn end_pod(&self, name: &str) {
        let deleted = self.api::<Pod>().delete(name, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|error| panic!("deleting {name}: {error}"));
    }

    /// Waits until the slices of a Service say exactly this of its endpoints.
    async fn wait_for(&self, service: &str, conditions: &[(&str, &str)]) {
        let wanted = conditions.iter().map(|(address, it)| ((*address).into(), (*it).into()));
        let wanted: BTreeMap<String, String> = wanted.collect();
        let what = format!("for {wanted:?} to be the endpoints of {service}");
        let shown = async || self.conditions(service).await == wanted;
        self.control_plane.wait_until(&what, shown).await;
    }

    async fn conditions(&self, service: &str) -> BTreeMap<String, String> {
        let of_service = format!("kubernetes.io/service-name={service}");
        let of_service = ListParams::default().labels(&of_service);
        let slices = self.api::<EndpointSlice>().list(&of_service).await;
        let slices = slices.expect("an administrator may list EndpointSlices");
        let endpoints = slices.items.into_iter().flat_map(|slice| slice.endpoints);
        endpoints
            .map(|endpoint| {
                let it = endpoint.conditions.expect("the controller tells them");
                let words =
                    [(it.ready, "ready"), (it.serving, "serving"), (it.terminating, "terminating")];
                let words = words.into_iter().filter(|(holds, _)| *holds == Some(true));
                let words: Vec<&str> = words.map(|(_, word)| word).collect();
                (endpoint.addresses[0].clone(), words.join(" "))
            })
            .collect()
    }
}
