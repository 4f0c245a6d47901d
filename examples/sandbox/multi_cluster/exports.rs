//! `web` is exported by blue, then by green with another port, and scaled to zero.

use serde_json::json;

use super::{Clusterset, addresses, ips, pod, pods, show_imports};
use testbed::kubernetes::{ClusterIp, Export};

impl Clusterset {
    pub(super) async fn one_export(&mut self) {
        self.begin_step("blue exports web; amber, which AWS's controller serves, exports cart. What would a sync do?");
        self.blue.service(ClusterIp::new("shop", "web").port_of("TCP", "http", 80, 8080));
        pods(&self.blue, &["10.0.0.1", "10.0.0.2"]);
        self.blue.put(Export::new("shop", "web").created("2026-01-01T00:00:00Z").into());
        self.plan(&json!({ "action": "plan" })).await;

        self.begin_step("The sync: web and cart are imports in blue and green, each with an IP of its own cluster.");
        self.sync().await;
        for cluster in [&self.blue, &self.green] {
            show_imports(cluster);
            self.expect("web has an IP", ips(cluster).is_some_and(|ips| ips[0].is_string()));
            let of_blue = addresses(cluster, "web") == ["10.0.0.1", "10.0.0.2"];
            self.expect("web leads to the pods of blue", of_blue);
            self.expect("cart leads to amber", addresses(cluster, "cart") == ["10.2.0.1"]);
        }
        println!();

        self.begin_step("One pod of blue is not ready any more: a message about web, and it leaves green's slice.");
        self.blue.pods("shop", "web", &[pod("10.0.0.1").not_ready(), pod("10.0.0.2")]);
        self.message_about_web().await;
        self.expect("green lacks the pod", addresses(&self.green, "web") == ["10.0.0.2"]);

        self.begin_step("It is ready again, and returns.");
        pods(&self.blue, &["10.0.0.1", "10.0.0.2"]);
        self.message_about_web().await;
        let both = addresses(&self.green, "web") == ["10.0.0.1", "10.0.0.2"];
        self.expect("green has the pod", both);
    }

    async fn message_about_web(&self) {
        let payload =
            json!({"action": "sync", "cluster": "blue", "namespace": "shop", "service": "web"});
        self.complete(&payload).await;
        self.settled().await;
    }

    pub(super) async fn two_exports(&mut self) {
        self.begin_step(
            "green exports web, too, with another port: each port leads to its own cluster.",
        );
        self.green.service(ClusterIp::new("shop", "web").port_of("TCP", "admin", 81, 8081));
        pods(&self.green, &["10.1.0.1"]);
        self.green.put(Export::new("shop", "web").created("2026-02-01T00:00:00Z").into());
        self.sync().await;
        for cluster in [&self.blue, &self.green] {
            let export = cluster.service_export("shop", "web").expect("an export");
            let conditions = export["status"]["conditions"].as_array().cloned();
            let conflict = conditions.into_iter().flatten().find(|it| it["type"] == "Conflict");
            let conflict = conflict.expect("a condition");
            let status = &conflict["status"];
            let reason = &conflict["reason"];
            println!("   {} Conflict {status} {reason}", cluster.identity().name);
            let is_told = *status == "True" && *reason == "PortConflict";
            self.expect("both exports say so", is_told);
        }
        println!();
    }

    pub(super) async fn scaled_to_zero(&mut self) {
        self.begin_step("web is scaled to zero in both: the imports and their IPs stay.");
        let before = [ips(&self.blue), ips(&self.green)];
        pods(&self.blue, &[]);
        pods(&self.green, &[]);
        self.sync().await;
        for cluster in [&self.blue, &self.green] {
            show_imports(cluster);
            self.expect("no endpoint is left", addresses(cluster, "web").is_empty());
        }
        println!();
        self.expect("the IPs stay", [ips(&self.blue), ips(&self.green)] == before);
    }

    pub(super) async fn last_export_ends(&mut self) {
        self.begin_step("The last export ends.");
        self.blue.unexport("shop", "web");
        self.sync().await;
        self.expect("the import is gone", self.blue.service_import("shop", "web").is_none());
    }
}
