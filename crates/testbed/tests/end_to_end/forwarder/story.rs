//! What happens to a forwarder in a cluster, in one story, since a control plane takes seconds to
//! start. Whatever is registered in Cloud Map here was registered because a message asked for it.

use std::collections::BTreeSet;

use serde_json::json;

use super::scene::{Forwarder, Scene, claim};
use crate::real_cluster::RealCluster;
use crate::real_cluster::member::EXPORTS;
use crate::world::World;
use testbed::sqs::Failure;

const SLICES_LISTED: &str = "EndpointSlices of headless Services are listed";
const NO_EXPORTS: &str = "the cluster has no ServiceExports: they are followed as soon as it has";

#[tokio::test]
async fn forwarder_tells_the_function_of_every_change_on_a_real_cluster() {
    let world = World::start().await;
    let Some(cluster) = RealCluster::start(&world, true).await else { return };
    let mut scene = Scene::begin(world, cluster).await;
    let forwarder = scene.forwarder("first").await;

    scene.the_start_asks_for_a_sync_of_the_cluster(&forwarder).await;
    scene.pods_that_come_and_go_are_followed().await;
    scene.annotations_and_services_that_end_are_followed().await;
    scene.slices_that_kubernetes_does_not_keep_are_followed().await;
    scene.exports_are_followed_once_the_cluster_has_them(&forwarder).await;
    scene.what_a_cut_connection_hid_is_reported_when_it_is_back(&forwarder).await;
    scene.what_a_restarted_server_cannot_resume_is_found_by_a_list(&forwarder).await;
    scene.what_the_queue_refuses_is_sent_later_and_once(&forwarder).await;
    scene.two_at_once_tell_everything_twice_and_nothing_is_done_twice().await;
    scene.the_end_leaves_nothing_unsent(forwarder).await;
    scene.world.assert_that_the_ecs_task_is_unchanged();
}

impl Scene {
    async fn the_start_asks_for_a_sync_of_the_cluster(&mut self, forwarder: &Forwarder) {
        let message = self.next_message().await;
        self.readiness(forwarder, 200).await;
        assert_eq!(message.body, r#"{"action":"sync","cluster":"blue"}"#);
        self.hand_over(&[message]).await;
        assert_eq!(self.world.addresses("prod", "web"), ["10.0.1.1"]);
        assert_eq!(self.world.addresses("prod", "cart"), ["10.0.2.1"]);
        let (status, numbers) = forwarder.probe("/metrics").await;
        assert_eq!(status, 200);
        assert!(numbers.contains("\ncloud_map_forwarder_messages_sent_total 1\n"), "{numbers}");
        self.fence().await;
    }

    async fn pods_that_come_and_go_are_followed(&mut self) {
        self.cluster.pod("web", "web-b", &["10.0.1.2"]).await;
        self.cluster.pod("plain", "plain-a", &["10.0.4.1"]).await;
        self.until("web", &["10.0.1.1", "10.0.1.2"]).await;
        self.cluster.readiness("web-a", false).await;
        self.until("web", &["10.0.1.2"]).await;
        self.cluster.readiness("web-a", true).await;
        self.until("web", &["10.0.1.1", "10.0.1.2"]).await;
        self.cluster.delete_pod("web-b").await;
        self.until("web", &["10.0.1.1"]).await;
        self.cluster.wait_for_ready("plain", &["10.0.4.1"]).await;
        let heard = self.fence().await;
        assert!(heard.iter().all(|service| service == "web"), "{heard:?}");
    }

    async fn annotations_and_services_that_end_are_followed(&mut self) {
        let late = json!({"clusterIP": "None", "selector": {"app": "web"}});
        self.cluster.service("late", &claim("late"), &late).await;
        self.until("late", &["10.0.1.1"]).await;
        self.cluster.annotate("late", &json!({"cloudmap.controller/hostname": null})).await;
        self.until("late", &[]).await;
        self.cluster.annotate("late", &claim("late")).await;
        self.until("late", &["10.0.1.1"]).await;
        self.cluster.delete_service("late").await;
        self.until("late", &[]).await;
        self.fence().await;
    }

    async fn slices_that_kubernetes_does_not_keep_are_followed(&mut self) {
        let by_hand = json!({"clusterIP": "None", "selector": null});
        self.cluster.service("legacy", &claim("legacy"), &by_hand).await;
        self.fence().await;
        self.cluster.slice("legacy", &["10.0.5.1"]).await;
        self.until("legacy", &["10.0.5.1"]).await;
        self.fence().await;
    }

    /// The function of this story does not export: the messages about exports change nothing.
    async fn exports_are_followed_once_the_cluster_has_them(&mut self, forwarder: &Forwarder) {
        assert_eq!(forwarder.said(NO_EXPORTS), 1);
        let spec = json!({"ports": [{"name": "http", "port": 80, "targetPort": 8080}]});
        self.cluster.service("api", &json!({}), &spec).await;
        self.cluster.pod("api", "api-a", &["10.0.6.1"]).await;
        self.cluster.wait_for_ready("api", &["10.0.6.1"]).await;
        self.cluster.control_plane.install_multi_cluster_api().await;
        assert_eq!(self.fence().await, [""; 0], "a Service without annotation and export");

        self.cluster.export("api", &json!({})).await;
        self.hear("api").await;
        // What the function writes into the status of an export, and the objects of its imports.
        let status = json!({"status": {"conditions": []}});
        self.cluster.change_object(EXPORTS, "api/status", status).await;
        let derived = json!({"selector": null});
        self.cluster.service("derived-isrlchlhrq", &json!({}), &derived).await;
        self.cluster.slice("derived-isrlchlhrq", &["10.0.7.1"]).await;
        assert_eq!(self.fence().await, [""; 0]);

        self.cluster.pod("api", "api-b", &["10.0.6.2"]).await;
        self.hear("api").await;
        self.cluster.wait_for_ready("api", &["10.0.6.1", "10.0.6.2"]).await;
        self.fence().await;
        self.cluster.annotate("api", &json!({"note": "changed"})).await;
        self.hear("api").await;
        self.cluster.end_export("api").await;
        self.hear("api").await;
        self.cluster.delete_pod("api-b").await;
        self.cluster.wait_for_ready("api", &["10.0.6.1"]).await;
        assert_eq!(self.fence().await, [""; 0], "it is exported no more");
        assert_eq!(forwarder.said(NO_EXPORTS), 1, "said once");
    }

    async fn what_a_cut_connection_hid_is_reported_when_it_is_back(
        &mut self,
        forwarder: &Forwarder,
    ) {
        self.relay.cut();
        self.cluster.pod("cart", "cart-b", &["10.0.2.2"]).await;
        self.cluster.wait_for_ready("cart", &["10.0.2.1", "10.0.2.2"]).await;
        let why = self.readiness(forwarder, 503).await;
        assert!(why.starts_with("the watch of ") && why.contains(" has failed for "), "{why}");
        assert_eq!(forwarder.probe("/livez").await.0, 200, "a restart would not help");
        self.relay.mend();
        self.readiness(forwarder, 200).await;
        self.until("cart", &["10.0.2.1", "10.0.2.2"]).await;
        let heard = self.fence().await;
        assert!(heard.iter().all(|service| service == "cart"), "{heard:?}");
        assert_eq!(forwarder.said(SLICES_LISTED), 1, "the watch was resumed");
    }

    async fn what_a_restarted_server_cannot_resume_is_found_by_a_list(
        &mut self,
        forwarder: &Forwarder,
    ) {
        self.relay.cut();
        self.cluster.delete_pod("cart-b").await;
        self.cluster.wait_for_ready("cart", &["10.0.2.1"]).await;
        // It begins with the present state, and knows nothing of where the watch was.
        self.cluster.control_plane.restart_api_server().await;
        self.relay.mend();
        self.until("cart", &["10.0.2.1"]).await;
        let heard = self.fence().await;
        assert!(heard.iter().all(|service| service == "cart"), "{heard:?}");
        assert_eq!(forwarder.said(SLICES_LISTED), 2, "it was listed again");
    }

    async fn what_the_queue_refuses_is_sent_later_and_once(&mut self, forwarder: &Forwarder) {
        self.queue.refuse(Some(Failure::unavailable()));
        self.cluster.pod("web", "web-c", &["10.0.1.3"]).await;
        self.cluster.wait_for_ready("web", &["10.0.1.1", "10.0.1.3"]).await;
        self.refused(1).await;
        let why = self.readiness(forwarder, 503).await;
        assert!(why.starts_with("the queue accepts no messages: cannot send"), "{why}");
        assert_eq!(forwarder.probe("/livez").await.0, 200, "a restart would not help");
        self.cluster.pod("web", "web-d", &["10.0.1.4"]).await;
        self.cluster.wait_for_ready("web", &["10.0.1.1", "10.0.1.3", "10.0.1.4"]).await;
        self.refused(2).await;
        self.queue.refuse(None);
        self.until("web", &["10.0.1.1", "10.0.1.3", "10.0.1.4"]).await;
        assert_eq!(self.fence().await, ["web"]);
        self.readiness(forwarder, 200).await;

        self.queue.fail_entries(1);
        self.cluster.delete_pod("web-c").await;
        self.cluster.pod("cart", "cart-c", &["10.0.2.3"]).await;
        self.until("web", &["10.0.1.1", "10.0.1.4"]).await;
        self.until("cart", &["10.0.2.1", "10.0.2.3"]).await;
        self.fence().await;
    }

    async fn two_at_once_tell_everything_twice_and_nothing_is_done_twice(&mut self) {
        let second = self.forwarder("second").await;
        let start = self.next_message().await;
        self.hand_over(&[start]).await;
        assert_eq!(self.fence().await, ["the whole cluster"]);

        self.cluster.pod("web", "web-e", &["10.0.1.5"]).await;
        self.cluster.wait_for_ready("web", &["10.0.1.1", "10.0.1.4", "10.0.1.5"]).await;
        let mut messages = Vec::new();
        let mut senders = BTreeSet::new();
        while senders.len() < 2 {
            let message = self.next_message().await;
            if message.body.contains("web") {
                senders.insert(message.sender.clone());
                messages.push(message);
            }
        }
        let before = self.world.cloud_map.writes();
        self.hand_over(&messages).await;
        assert_eq!(self.world.addresses("prod", "web"), ["10.0.1.1", "10.0.1.4", "10.0.1.5"]);
        assert_eq!(self.world.cloud_map.writes() - before, 1, "one registration");

        second.terminate();
        let (status, log) = second.end().await;
        assert_eq!(status, Some(0), "{log}");
        self.fence().await;
    }

    async fn the_end_leaves_nothing_unsent(&mut self, forwarder: Forwarder) {
        self.queue.refuse(Some(Failure::unavailable()));
        self.cluster.delete_pod("web-e").await;
        self.cluster.wait_for_ready("web", &["10.0.1.1", "10.0.1.4"]).await;
        // By now it pauses for seconds.
        self.refused(3).await;
        self.queue.refuse(None);
        forwarder.terminate();
        let (status, log) = forwarder.end().await;
        assert_eq!(status, Some(0), "{log}");
        let messages = self.queue.take_all();
        assert_eq!(messages.len(), 1, "{messages:?}");
        self.hand_over(&messages).await;
        assert_eq!(self.world.addresses("prod", "web"), ["10.0.1.1", "10.0.1.4"]);
    }
}
