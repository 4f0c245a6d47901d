//! The rules that rest on what Kubernetes does, on a real cluster: what of an endpoint is written (`records`), and what is
//! too much to be believed (`losses`). One story, since a control plane takes seconds to start. Every sync is a new
//! process of the function, which knows nothing but what it finds. Tables of the plan and scenarios have all other rules.

mod losses;
mod records;

use serde_json::{Value, json};

use crate::lambda::Lambda;
use crate::real_cluster::{RealCluster, claim, headless};
use crate::world::World;

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
