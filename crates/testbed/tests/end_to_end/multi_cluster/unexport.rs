//! The end of an export: its record, instances and imports go.

use serde_json::json;

use super::Story;
use super::imports::slices;
use crate::real_cluster::RealCluster;
use crate::real_cluster::member::{IMPORTS, SERVICES};

impl Story {
    pub(super) async fn export_without_its_service_is_invalid_and_has_no_import(&mut self) {
        self.blue.delete_service("db").await;
        self.sync().await;
        assert_eq!(self.blue.condition("db", "Valid").await, "False NoService");
        assert_eq!(self.blue.condition("db", "Ready").await, "False Pending");
        for cluster in self.members() {
            assert_eq!(cluster.object(IMPORTS, "db").await, None);
        }
        assert_eq!(self.instances("db").len(), 0);
    }

    /// Where no garbage collector runs, the next sync does its work.
    pub(super) async fn ended_export_leaves_nothing_behind(&mut self) {
        const NAMES: [&str; 5] = ["both", "six", "bare", "mail", "web"];
        // Not at once, which would be a mass deletion.
        for names in [&NAMES[..4], &NAMES[4..]] {
            for name in names {
                self.blue.end_export(name).await;
            }
            self.sync().await;
        }
        for cluster in self.members() {
            assert_eq!(cluster.objects(IMPORTS).await, [json!(null); 0]);
        }
        assert!(!slices(&self.green, "web").await.is_empty(), "nobody has collected it");
        let collected = async || ours(&self.blue).await.is_empty();
        self.blue.control_plane.wait_until("for the garbage collector", collected).await;
        for name in NAMES {
            assert_eq!(self.instances(name).len(), 0);
        }
        assert_eq!(self.world.instances("clusterset.shop-set", "blue").len(), 1);

        self.converge().await;
        for cluster in self.members() {
            assert_eq!(ours(cluster).await, [""; 0]);
        }
        // The Services of the cluster itself are still there.
        assert!(self.blue.object(SERVICES, "web").await.is_some());
        assert!(self.green.object(SERVICES, "web").await.is_some());
    }
}

/// The objects of imports that are left.
async fn ours(cluster: &RealCluster) -> Vec<String> {
    let all = cluster.versions().await.into_iter();
    all.filter(|it| it.contains("/derived-") || it.contains("/imported-")).collect()
}
