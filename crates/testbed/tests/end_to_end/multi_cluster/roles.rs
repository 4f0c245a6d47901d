//! The two roles of deploy/rbac-multi-cluster.yaml, each alone.

use serde_json::json;

use super::imports::{assert_ready, import};
use super::{Story, lambda};
use crate::control_plane::rbac::{EXPORT, IMPORT};
use crate::real_cluster::member::IMPORTS;

impl Story {
    pub(super) async fn either_role_is_enough_for_its_own_part(&mut self) {
        self.blue.control_plane.take_right("cloud-map-sync-import", IMPORT).await;
        self.green.control_plane.take_right("cloud-map-sync-export", EXPORT).await;
        let clusters = json!([
            {"cluster": "blue", "multiCluster": "export"},
            {"cluster": "green", "multiCluster": "import"},
        ]);
        self.lambda = lambda(&self.world, &clusters.to_string()).await;
        self.blue.export("web", &json!({})).await;
        self.converge().await;

        assert_eq!(self.blue.condition("web", "Ready").await, "True Exported");
        assert_ready(&import(&self.green, "web").await, &["blue"]);
        assert_eq!(self.blue.object(IMPORTS, "web").await, None);
    }
}
