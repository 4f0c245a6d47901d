//! What became of a Service while the function was not running is found from the marks alone.

use serde_json::{Value, json};

use super::{Story, claim, headless};

const PODS: [&str; 2] = ["10.0.5.1", "10.0.5.2"];

impl Story {
    pub(super) async fn changed_annotation_is_followed_with_the_new_name_whole_first(&self) {
        self.cluster.service("shop", &claim("prod", "shop"), &headless()).await;
        self.cluster.pod("shop", "shop-a", &PODS[..1]).await;
        self.cluster.pod("shop", "shop-b", &PODS[1..]).await;
        self.cluster.wait_for_ready("shop", &PODS).await;
        self.converge().await;
        assert_eq!(self.world.addresses("prod", "shop"), PODS);

        self.cluster.annotate("shop", &claim("prod.local", "store")).await;

        let come = ["CreateService store", "RegisterInstance store", "RegisterInstance store"];
        let go = ["DeregisterInstance shop"; 2];
        assert_eq!(self.writes().await, [&come[..], &go].concat());
        assert_eq!(self.world.addresses("prod", "shop"), [""; 0]);
        assert_eq!(self.world.addresses("prod.local", "store"), PODS);
    }

    /// Another object with another UID; one of its pods is another one, too.
    pub(super) async fn service_made_again_keeps_what_is_right_and_loses_what_is_not(&self) {
        self.cluster.delete_service("shop").await;
        self.cluster.delete_pod("shop-a").await;
        self.cluster.service("shop", &claim("prod.local", "store"), &headless()).await;
        self.cluster.pod("shop", "shop-c", &["10.0.5.3"]).await;
        self.cluster.wait_for_ready("shop", &["10.0.5.2", "10.0.5.3"]).await;

        assert_eq!(self.writes().await, ["RegisterInstance store", "DeregisterInstance store"]);
        assert_eq!(self.world.addresses("prod.local", "store"), ["10.0.5.2", "10.0.5.3"]);
    }

    /// Which is the only way: the API server lets no Service become headless, or end being it.
    pub(super) async fn service_that_is_made_again_with_a_cluster_ip_is_taken_out(&self) {
        let refused = self.cluster.set_cluster_ip("shop", "10.96.7.7").await;
        assert!(refused.contains("spec.clusterIPs[0]: Invalid value"), "{refused}");
        self.cluster.delete_service("shop").await;
        self.cluster.service("shop", &claim("prod.local", "store"), &json!({})).await;
        self.cluster.wait_for_ready("shop", &["10.0.5.2", "10.0.5.3"]).await;

        assert_eq!(self.writes().await, ["DeregisterInstance store"; 2]);
        assert_eq!(self.world.addresses("prod.local", "store"), [""; 0]);
        self.cluster.delete_service("shop").await;
    }

    pub(super) async fn annotation_that_is_taken_away_takes_the_instances_along(&self) {
        self.cluster.service("shop", &claim("prod", "shop"), &headless()).await;
        self.cluster.wait_for_ready("shop", &["10.0.5.2", "10.0.5.3"]).await;
        self.converge().await;
        assert_eq!(self.world.addresses("prod", "shop"), ["10.0.5.2", "10.0.5.3"]);
        let none = json!({"cloudmap.controller/hostname": Value::Null});
        self.cluster.annotate("shop", &none).await;
        let plan = self.invoke(json!({"action": "plan"})).await;
        assert_eq!(plan["counts"]["emptied"], 1, "a plan that empties a name says so: {plan}");
        assert_eq!(self.writes().await, ["DeregisterInstance shop"; 2]);
    }
}
