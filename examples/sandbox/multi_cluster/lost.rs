//! Cloud Map is unavailable, in part and then completely. Then green is lost: it becomes an orphan and stale, and a
//! purge removes everything of it from Cloud Map.

use std::time::Duration;

use serde_json::{Value, json};

use super::{BOTH, Clusterset, addresses, pods, show_imports};
use testbed::function::event;
use testbed::kubernetes::KubernetesServer;

impl Clusterset {
    pub(super) async fn cloud_map_is_away(&mut self) {
        self.begin_step("web has pods again, and Cloud Map refuses each registration: blue and green go on without it.");
        self.refuse(&["RegisterInstance"]);
        pods(&self.blue, &BOTH[..2]);
        pods(&self.green, &BOTH[2..]);
        let answer = self.run(&event("direct-sync")).await;
        self.expect("the run is not complete", answer.report.is_some_and(|report| !report.ok));
        self.expect_imported_by_both();
        println!("   Cloud Map takes them again:");
        self.sandbox.cloud_map().heal();
        self.sync().await;

        self.begin_step(
            "Cloud Map does not answer at all, and a pod of blue is replaced: blue and green follow, and amber's part stays.",
        );
        self.refuse(&["ListNamespaces", "ListServices", "ListInstances", "GetInstance"]);
        let replaced = [BOTH[0], "10.0.0.9"];
        pods(&self.blue, &replaced);
        let answer = self.run(&event("direct-sync")).await;
        self.expect("the run is not complete", answer.report.is_some_and(|report| !report.ok));
        for cluster in [&self.blue, &self.green] {
            show_imports(cluster);
            let expected = [replaced[0], replaced[1], BOTH[2]];
            self.expect("web leads to the new pod", addresses(cluster, "web") == expected);
        }
        let before = [&self.blue, &self.green].map(objects);
        self.settled().await;
        self.expect("all stays", [&self.blue, &self.green].map(objects) == before);
        println!("   Cloud Map answers again, and the old pod is back:");
        self.sandbox.cloud_map().heal();
        pods(&self.blue, &BOTH[..2]);
        self.sync().await;
        self.expect_imported_by_both();
    }

    fn refuse(&self, operations: &[&str]) {
        for operation in operations {
            self.sandbox.cloud_map().deny(operation);
        }
    }

    fn expect_imported_by_both(&self) {
        for cluster in [&self.blue, &self.green] {
            show_imports(cluster);
            self.expect("web leads to both", addresses(cluster, "web") == BOTH);
            self.expect("cart leads to amber", addresses(cluster, "cart") == ["10.2.0.1"]);
        }
        println!();
    }

    pub(super) async fn green_is_lost(&mut self) {
        self.begin_step("EKS has no cluster green any more: its endpoints stay.");
        self.sandbox.aws().eks.delete(&self.sandbox.cluster_arn("green"));
        self.green.stop();
        let answer = self.run(&event("direct-sync")).await;
        let report = answer.report.expect("a report");
        self.expect("green cannot be read", !report.ok && report.orphans.is_empty());
        self.settled().await;
        self.show_blue(&BOTH);

        self.begin_step(
            "A quarter of an hour later green is stale. CLUSTERS does not name it any more: it is an orphan.",
        );
        self.clock.advance(Duration::from_mins(16));
        self.function = self.serving("blue").await;
        let report = self.complete(&event("direct-sync")).await;
        self.expect("green is stale", report.to_string().contains("! stale      member green "));
        self.expect("green is an orphan", report.orphans.len() == 1);
        self.settled().await;
        self.show_blue(&BOTH);
        self.status().await;
    }

    pub(super) async fn green_is_purged(&mut self) {
        self.begin_step("green will not return. What would a purge do?");
        let green = self.sandbox.cluster_arn("green");
        self.plan(&json!({ "action": "purge", "cluster": green })).await;

        self.begin_step("Somebody confirms it: all that green left in Cloud Map goes.");
        self.complete(&json!({ "action": "purge", "cluster": green, "confirm": true })).await;
        self.show_blue(&BOTH);
        println!("   With the next sync its endpoints and its port leave the imports:");
        let report = self.complete(&event("direct-sync")).await;
        self.expect("no cluster is an orphan", report.orphans.is_empty());
        self.settled().await;
        self.show_blue(&BOTH[..2]);
        let import = self.blue.service_import("shop", "web").expect("an import");
        let ports = import["spec"]["ports"].as_array().map(Vec::len);
        self.expect("the port of green is gone", ports == Some(1));
        let status = self.status().await;
        let members = status.registries.iter().flat_map(|it| &it.clustersets);
        let mut members = members.flat_map(|it| &it.members);
        self.expect("green is no member", members.all(|it| it.member != "green"));
    }

    fn show_blue(&self, web: &[&str]) {
        show_imports(&self.blue);
        println!();
        self.expect(&format!("web leads to {web:?}"), addresses(&self.blue, "web") == web);
    }
}

/// All objects that may be written, foreign ones, too.
fn objects(cluster: &KubernetesServer) -> Vec<Value> {
    let kinds = ["endpointslices", "serviceexports", "serviceimports", "services"].into_iter();
    kinds.flat_map(|kind| cluster.objects(kind, "")).collect()
}
