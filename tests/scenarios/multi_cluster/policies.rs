//! `POLICY` for exports and imports.

use cloud_map_sync::report::Report;

use super::{Members, exported, imported, in_full, part, pods, sources, web};
use crate::run::sync;
use testbed::kubernetes::ClusterIp;

const CREATED: &str = "2026-01-01T00:00:00Z";

impl Members {
    /// blue exports `web`, `cart` and `mail`, which green imports.
    async fn with_three_exports() -> Self {
        let members = Self::start().await;
        exported(&members.blue, web(), &["10.0.0.1"], CREATED);
        for (name, addresses) in
            [("cart", ["10.0.0.2", "10.0.0.3"]), ("mail", ["10.0.0.5", "10.0.0.6"])]
        {
            let service = ClusterIp::new("shop", name).port_of("TCP", "http", 80, 8080);
            exported(&members.blue, service, &addresses, CREATED);
        }
        members.converge().await;
        members
    }

    /// `web` is not exported any more, and pods of `cart` come and go.
    async fn change_under(&self, policy: &str) -> Report {
        let function = self.serving("blue,green", &[("POLICY", policy)]).await;
        self.blue.unexport("shop", "web");
        pods(&self.blue, "cart", &["10.0.0.3", "10.0.0.4"]);
        let report = sync(&function).await;
        assert!(report.ok, "{}", in_full(&report));
        let again = sync(&function).await;
        assert_eq!(again.counts.registered + again.counts.rewritten, 0, "{}", in_full(&again));
        report
    }

    /// The names of the lines about imports of green that the policy holds back.
    fn assert_web_stays(&self, report: &Report, held_back: &[&str]) {
        assert_eq!(self.fleet.addresses("shop", "web"), ["10.0.0.1"]);
        assert_eq!(self.fleet.instances("clusterset.shop-set", "blue").len(), 4);
        assert_eq!(imported(&self.green, "web"), sources([("blue", &["10.0.0.1:8080"])]));
        let lines = part(report, "green").held_back.iter();
        let lines: Vec<_> = lines.map(|line| (&*line.service.name, &*line.reason)).collect();
        let expected: Vec<_> = held_back.iter().map(|name| (*name, "Policy")).collect();
        assert_eq!(lines, expected, "{}", in_full(report));
    }
}

#[tokio::test]
async fn ended_export_stays_under_upsert_only_and_pods_come_and_go() {
    let members = Members::with_three_exports().await;
    let before = members.green.service_import("shop", "web").expect("an import");
    let report = members.change_under("upsert-only").await;
    members.assert_web_stays(&report, &["web"]);
    let after = members.green.service_import("shop", "web").expect("an import");
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(members.fleet.addresses("shop", "cart"), ["10.0.0.3", "10.0.0.4"]);
    let cart = sources([("blue", &["10.0.0.3:8080", "10.0.0.4:8080"])]);
    assert_eq!(imported(&members.green, "cart"), cart);
}
