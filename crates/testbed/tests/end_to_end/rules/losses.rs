//! Three Deployments of four pods each, which the cluster's own controllers make and replace: what they
//! lose at once is held, what they replace is not.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Story, claim, headless};
use crate::world::blue;

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
        assert_eq!(self.sightings(), [guard["firstSeen"].as_str().expect("a time")]);

        let confirm = json!({"action": "confirm", "cluster": blue().arn()});
        let report = self.invoke(confirm).await;
        assert_eq!(
            (&report["ok"], &report["counts"]["deregistered"]),
            (&json!(true), &json!(before))
        );
        self.converge().await;
        assert_eq!(self.world.all_of_ours(), 0);
    }

    /// When a loss was first seen, as the guard remembers it on an instance that it holds.
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
