//! The rules that rest on what Kubernetes does, on a real cluster: who holds a name (`claims`), what of an
//! endpoint is written (`records`), what became of a Service while nobody looked (`moves`), and what is
//! too much to be believed (`losses`). One story, since a control plane takes seconds to start. Every sync
//! is a new process of the function, which knows nothing but what it finds.

mod claims;
mod losses;
mod moves;
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

    story.older_of_two_claimants_holds_the_name_and_the_other_hears_of_it().await;
    story.next_claimant_is_promoted_in_the_sync_that_finds_the_holder_gone().await;
    story.claim_that_all_share_is_a_union_until_one_of_them_leaves_it().await;
    story.named_port_is_the_one_behind_it_in_each_pods_own_slice().await;
    story.several_ports_are_several_instances_of_a_pod().await;
    story.service_of_one_family_has_records_of_that_family().await;
    story.service_of_the_type_http_in_a_dns_namespace_takes_both_families_and_says_so().await;
    story.changed_annotation_is_followed_with_the_new_name_whole_first().await;
    story.service_made_again_keeps_what_is_right_and_loses_what_is_not().await;
    story.service_that_is_made_again_with_a_cluster_ip_is_taken_out().await;
    story.annotation_that_is_taken_away_takes_the_instances_along().await;
    story.rolling_replacement_of_every_pod_trips_nothing().await;
    story
        .deployments_scaled_to_none_keep_their_instances_and_are_followed_when_they_are_back()
        .await;
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

    /// The writes of a full sync in which nothing fails: operation and Cloud Map service. The next one has
    /// none.
    async fn writes(&self) -> Vec<String> {
        self.world.cloud_map.forget_calls();
        self.sync().await;
        let writes = self.world.writes();
        self.world.cloud_map.forget_calls();
        let settled = self.sync().await;
        assert_eq!(self.world.writes(), [""; 0], "{settled}");
        writes
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

/// What is held back for a Kubernetes Service: reason and words.
fn held_back(report: &Value, service: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let services = report["clusters"][0]["services"].as_array().into_iter().flatten();
    let lines = services.flat_map(|it| it["heldBack"].as_array().into_iter().flatten());
    let of_service = lines.filter(|line| line["service"]["name"] == service);
    of_service.map(|line| (text(&line["reason"]), text(&line["detail"]))).collect()
}
