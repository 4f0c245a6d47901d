//! `amber` moves from AWS's controller to the function by `adopt`, and back. The stand-ins watch that its export has a
//! ready endpoint at any time, and each import an IP that leads to one.

use std::collections::BTreeMap;

use cloud_map_sync::function::Function;
use serde_json::{Value, json};

use super::Clusterset;
use crate::story::show;
use testbed::function::invoke;
use testbed::kubernetes::KubernetesServer;

/// The instance of `cart` that AWS's controller registered.
const INSTANCE: &str = "tcp-10_2_0_1-8080";

impl Clusterset {
    pub(super) async fn moves_over(&mut self) {
        self.watch();
        self.function = self.with_amber("on").await;
        self.happens(
            "amber is to move: AWS's controller there is scaled to zero, and adopt is asked for.",
        );
        let adopt = json!({ "action": "adopt", "cluster": "amber" });
        self.plan(&adopt).await;

        self.happens("The finalizers are taken off with the command above. What would adopt do?");
        for mut export in self.amber.objects("serviceexports", "") {
            export["metadata"]["finalizers"] = Value::Null;
            self.amber.put(export);
        }
        self.plan(&adopt).await;

        self.happens("Somebody confirms it: the instance keeps its id, the import gets a new IP.");
        self.adopt().await;
        let cart = self.cart();
        let is_ours = cart[INSTANCE].contains_key("cloud-map-sync/exporter");
        self.expect("the instance is ours under its id", cart.len() == 1 && is_ours);
        let old = self.services_of_aws();
        self.expect("the Services of AWS's controller stay", !old.is_empty());
        self.sync().await;

        self.happens(
            "No client uses the old IPs any more: the Services are deleted with the command above.",
        );
        for name in old {
            self.amber.delete("services", "shop", &name);
        }
        self.sync().await;
    }

    /// The only run that changes something that is not ours.
    async fn adopt(&self) {
        let cloud_map = self.sandbox.cloud_map();
        let place = cloud_map.find_service("shop", "cart").expect("amber's");
        cloud_map.allow_adoption(&[(&place, INSTANCE)]);
        let before = self.foreign();
        let adopt = json!({ "action": "adopt", "cluster": "amber", "confirm": true });
        let answer = invoke(&self.function, &adopt).await;
        show(&answer);
        cloud_map.allow_adoption(&[]);
        self.expect("it is complete", answer.report.is_some_and(|report| report.ok));
        let adopted = ["Cloud Map shop/cart tcp-10_2_0_1-8080", "amber serviceimports cart"];
        self.expect("nothing else is changed", self.changed_since(&before) == adopted);
    }

    pub(super) async fn moves_back(&mut self) {
        self.happens(
            "amber moves back: multiCluster is off for it, and AWS's controller starts again.",
        );
        self.function = self.with_amber("off").await;
        self.aws.run();
        self.sync().await;

        self.happens("What is left of ours is purged: records, derived Services, slices, labels.");
        let purge = json!({ "action": "purge", "cluster": "amber", "confirm": true });
        self.complete(&purge).await;
        self.sync().await;
        self.aws.run();
        let records = self.sandbox.cloud_map().find_service("clusterset.shop-set", "amber");
        let records = records.map(|id| self.sandbox.cloud_map().instances(&id));
        self.expect("no record is left", records.is_none_or(|all| all.is_empty()));
        let mut objects = ["services", "endpointslices", "serviceimports"].into_iter();
        let is_ours = |it: &Value| !it["metadata"]["labels"]["cloud-map-sync/owner"].is_null();
        let has_ours = objects.any(|it| self.amber.objects(it, "shop").iter().any(is_ours));
        self.expect("no object of ours is left in amber", !has_ours);
        self.expect("an import always led to a ready endpoint", self.gaps().is_empty());
        self.sandbox.cloud_map().release_exporters();
        println!("   at no time was cart without a ready endpoint, in any cluster\n");
    }

    /// Watches `cart` in both clusters and in Cloud Map.
    fn watch(&self) {
        for cluster in [&self.blue, &self.amber] {
            cluster.keep_ready("shop", "cart");
        }
        self.sandbox.cloud_map().keep_ready("shop", "cart", "amber");
    }

    fn gaps(&self) -> Vec<String> {
        [&self.blue, &self.amber].into_iter().flat_map(KubernetesServer::gaps).collect()
    }

    async fn with_amber(&self, multi_cluster: &str) -> Function {
        let clusters = json!([
            { "cluster": "blue" }, { "cluster": "amber", "multiCluster": multi_cluster },
        ]);
        self.serving(&clusters.to_string()).await
    }

    /// The instances of `cart`.
    fn cart(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let cloud_map = self.sandbox.cloud_map();
        cloud_map.instances(&cloud_map.find_service("shop", "cart").expect("amber's"))
    }

    /// The Services that AWS's controller derived in amber.
    fn services_of_aws(&self) -> Vec<String> {
        let services = self.amber.objects("services", "shop").into_iter();
        let names =
            services.map(|it| it["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        names.filter(|name| name.starts_with("imported-")).collect()
    }
}
