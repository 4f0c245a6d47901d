//! Cloud Map does not answer. The clusters of the function go on to follow each other, what they do not read themselves
//! stays in every import, and nothing ends.

use std::collections::BTreeSet;

use serde_json::json;

use super::{
    CLUSTERSET, LATER, Members, exported, exported_at, imported, imported_from, in_full, part,
    pods, service, web, writes,
};
use crate::fleet::{ips, refs};
use crate::run::{report, sync, sync_of};
use testbed::kubernetes::KubernetesServer;

const READS: [&str; 4] = ["ListNamespaces", "ListServices", "ListInstances", "GetInstance"];

impl Members {
    /// blue, green and amber export `web`, and blue alone `cart`.
    async fn exporting() -> Self {
        let members = Self::start().await;
        exported(&members.blue, web(), &["10.0.0.1", "10.0.0.2"]);
        exported_at(&members.green, web(), &["10.1.0.1"], LATER);
        exported(&members.blue, service("cart"), &["10.0.0.7"]);
        members.amber("web", &["10.2.0.1"]);
        members.converge().await;
        members
    }

    fn no_answers(&self) {
        for operation in READS {
            self.fleet.cloud_map.deny(operation);
        }
        self.fleet.cloud_map.forget_calls();
    }

    fn clusters(&self) -> [&KubernetesServer; 2] {
        [&self.blue, &self.green]
    }

    /// A run beside which Cloud Map does not answer, in a new process.
    async fn away(&self, scope: &serde_json::Value) -> cloud_map_sync::report::Report {
        report(&self.serving("blue,green", &[]).await, scope).await
    }
}

#[tokio::test]
async fn served_clusters_follow_each_other_and_all_else_stays() {
    for scope in [json!({ "action": "sync" }), sync_of("blue", "web")] {
        let members = Members::exporting().await;
        members.no_answers();
        pods(&members.blue, "web", &["10.0.0.2", "10.0.0.3"]);

        let report = members.away(&scope).await;

        assert!(!report.ok, "{}", in_full(&report));
        assert_eq!(part(&report, "blue").obstacles[0].reason, "Unreadable");
        for cluster in members.clusters() {
            assert_eq!(
                imported(cluster, "web"),
                "amber 10.2.0.1:8080, blue 10.0.0.2:8080 10.0.0.3:8080, green 10.1.0.1:8080",
                "{}",
                in_full(&report)
            );
        }
        assert_eq!(members.fleet.cloud_map.writes(), 0);
        members.clusters().into_iter().for_each(KubernetesServer::forget_requests);
        members.away(&scope).await;
        assert_eq!(members.clusters().map(writes), [vec![], vec![]] as [Vec<String>; 2]);
        members.fleet.cloud_map.heal();
        members.converge().await;
    }
}

#[tokio::test]
async fn import_does_not_end_and_keeps_type_and_properties_of_members_that_were_not_read() {
    let members = Members::exporting().await;
    members.no_answers();
    members.blue.unexport("shop", "cart");
    members.blue.unexport("shop", "web");
    let before = members.green.objects("serviceimports", "shop");

    let report = members.away(&json!({ "action": "sync" })).await;

    for cluster in members.clusters() {
        assert_eq!(imported(cluster, "cart"), "blue 10.0.0.7:8080");
        assert_eq!(
            imported(cluster, "web"),
            "amber 10.2.0.1:8080, green 10.1.0.1:8080",
            "{}",
            in_full(&report)
        );
    }
    let spec = |imports: &[serde_json::Value]| -> Vec<serde_json::Value> {
        imports.iter().map(|import| import["spec"].clone()).collect()
    };
    assert_eq!(spec(&members.green.objects("serviceimports", "shop")), spec(&before));
    members.fleet.cloud_map.heal();
    members.converge().await;
    assert!(imported(&members.green, "cart").is_empty());
}

#[tokio::test]
async fn guard_holds_a_large_loss_until_cloud_map_has_its_note_again() {
    let members = Members::start().await;
    let eight = ips("10.0.0", 1..=8);
    exported(&members.blue, web(), &refs(&eight));
    exported(&members.blue, service("cart"), &refs(&eight));
    members.converge().await;
    members.no_answers();
    for name in ["web", "cart"] {
        pods(&members.blue, name, &[]);
    }

    for _ in 0..2 {
        let report = members.away(&json!({ "action": "sync" })).await;

        let guard = part(&report, "green").guard.as_ref();
        let guard = guard.unwrap_or_else(|| panic!("{}", in_full(&report)));
        assert!(guard.state.holds() && guard.first_seen.is_none(), "{guard:?}");
        let kept: usize = imported_from(&members.green, "web").values().map(BTreeSet::len).sum();
        assert_eq!(kept, 8, "{}", in_full(&report));
        members.clock.advance(std::time::Duration::from_mins(20));
    }
}

#[tokio::test]
async fn cluster_that_was_no_member_before_exports_and_imports_nothing() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    assert!(sync(&members.serving("blue", &[]).await).await.ok);
    members.no_answers();
    exported_at(&members.green, web(), &["10.1.0.1"], LATER);

    let report = members.away(&json!({ "action": "sync" })).await;

    assert_eq!(imported(&members.blue, "web"), "blue 10.0.0.1:8080");
    assert!(imported(&members.green, "web").is_empty(), "{}", in_full(&report));
}

#[tokio::test]
async fn two_clusters_with_one_id_are_not_followed() {
    let message = sync_of("green", "web");
    // A function that serves one of them does not know of the other.
    for (served, scope) in ["blue,green", "green"]
        .map(|it| [(it, json!({ "action": "sync" })), (it, message.clone())])
        .concat()
    {
        let members = Members::exporting().await;
        members.no_answers();
        members.green.cluster_property("cluster.clusterset.k8s.io", "blue");
        members.green.cluster_property("clusterset.k8s.io", CLUSTERSET);
        pods(&members.blue, "web", &["10.0.0.3"]);
        pods(&members.green, "web", &["10.1.0.3"]);

        report(&members.serving(served, &[]).await, &scope).await;

        for cluster in members.clusters() {
            assert_eq!(
                imported(cluster, "web"),
                "amber 10.2.0.1:8080, blue 10.0.0.1:8080 10.0.0.2:8080, green 10.1.0.1:8080",
                "{served}: {scope}"
            );
        }
    }
}
