//! The guard holds a large loss of exports and the imports with it, and a large loss of imported endpoints, also of
//! clusters that no function serves.

use std::collections::BTreeSet;
use std::time::Duration;

use cloud_map_sync::model::GuardState;
use cloud_map_sync::report::{GuardReport, Report};
use serde_json::json;

use super::{Members, exported, held_back, imported, imported_from, in_full, part, service, web};
use crate::fleet::{ips, refs};
use crate::run::{report, sync, synced};
use testbed::kubernetes::KubernetesServer;

/// `GUARD_WAIT`, unless it is set.
const WAIT: Duration = Duration::from_mins(10);
const NAMES: [&str; 2] = ["api", "cart"];

#[tokio::test]
async fn large_loss_of_exports_is_held_in_cloud_map_and_in_the_imports_until_it_is_confirmed() {
    for deleted in ["serviceexports", "services"] {
        let members = Members::with_sixteen_pods().await;
        let before = NAMES.map(|name| imported(&members.green, name));
        for name in NAMES {
            assert!(members.blue.delete(deleted, "shop", name));
        }

        let held = sync(&members.function).await;

        let guard = held.clusters[0].guard.as_ref();
        assert!(guard.is_some_and(|guard| guard.state.holds()), "{}", in_full(&held));
        assert_eq!(members.fleet.addresses("shop", "api").len(), 8);
        assert_eq!(members.fleet.instances("clusterset.shop-set", "blue").len(), 3);
        assert_eq!(NAMES.map(|name| imported(&members.green, name)), before);

        let confirmed = report(&members.function, &json!({ "action": "confirm" })).await;

        assert!(confirmed.ok, "{}", in_full(&confirmed));
        assert_eq!(members.fleet.addresses("shop", "api").len(), 0);
        assert_eq!(members.green.service_import("shop", "api"), None);
        members.assert_settled().await;
    }
}

impl Members {
    /// blue exports two Services with eight pods each, which both clusters import.
    pub async fn with_sixteen_pods() -> Self {
        let members = Self::start().await;
        for (index, name) in NAMES.into_iter().enumerate() {
            let addresses = ips(&format!("10.0.{index}"), 1..=8);
            exported(&members.blue, service(name), &refs(&addresses));
        }
        members.converge().await;
        members
    }

    /// `amber` exports two Services with eight endpoints each, which both clusters import.
    async fn with_amber() -> Self {
        let members = Self::start().await;
        members.amber_has_all();
        members.converge().await;
        members
    }

    fn amber_has_all(&self) {
        for (index, name) in NAMES.into_iter().enumerate() {
            self.amber(name, &refs(&ips(&format!("10.2.{index}"), 1..=8)));
        }
    }

    fn amber_is_lost(&self) {
        for name in NAMES {
            self.amber(name, &[]);
        }
    }

    /// The clusters of which an import has a note of the guard.
    fn noted(&self) -> Vec<&str> {
        let clusters = [("blue", &self.blue), ("green", &self.green)].into_iter();
        let noted = clusters.filter(|(_, cluster)| {
            let imports = cluster.objects("serviceimports", "shop").into_iter();
            { imports }.any(|it| it["metadata"]["annotations"]["cloud-map-sync/guard"].is_string())
        });
        noted.map(|(name, _)| name).collect()
    }
}

pub fn guard<'a>(report: &'a Report, cluster: &str) -> &'a GuardReport {
    part(report, cluster).guard.as_ref().unwrap_or_else(|| panic!("{}", in_full(report)))
}

pub fn count(cluster: &KubernetesServer, name: &str) -> usize {
    imported_from(cluster, name).values().map(BTreeSet::len).sum()
}

#[tokio::test]
async fn large_loss_of_another_cluster_is_held_and_noted_while_additions_go_on() {
    let members = Members::with_amber().await;
    members.amber("api", &["10.2.9.9"]);
    members.amber("cart", &[]);
    exported(&members.blue, web(), &["10.0.0.1"]);

    let held = synced(&members.function).await;

    for cluster in ["blue", "green"] {
        let guard = guard(&held, cluster);
        assert_eq!((guard.state, guard.loss, guard.instances), (GuardState::Held, 15, 16));
        assert!(!guard.needs_operator);
        let lines = held_back(&held, cluster);
        assert!(matches!(lines[..], [("api", "Guard", _), ("cart", "Guard", _)]), "{lines:?}");
    }
    for cluster in members.clusters() {
        assert_eq!((count(cluster, "api"), count(cluster, "cart")), (9, 8));
    }
    members.assert_imported("web", "blue 10.0.0.1:8080", &in_full(&held));
    assert_eq!(members.noted(), ["blue", "green"]);
    members.assert_settled().await;
    members.clock.advance(WAIT / 2);
    let again = sync(&members.function).await;
    assert!(guard(&again, "green").needs_operator, "{}", in_full(&again));
    assert_eq!(members.noted(), ["blue", "green"], "a new heartbeat keeps the note");

    members.clock.advance(WAIT / 2);
    let lifted = sync(&members.function).await;

    assert_eq!(guard(&lifted, "green").state, GuardState::Lifted, "{}", in_full(&lifted));
    members.assert_imported("api", "amber 10.2.9.9:8080", &in_full(&lifted));
    for cluster in members.clusters() {
        assert_eq!(cluster.service_import("shop", "cart"), None);
    }
    assert_eq!(members.noted(), [""; 0]);
    members.assert_settled().await;
}

#[tokio::test]
async fn cluster_that_comes_back_is_forgotten_and_a_confirmation_is_for_one_cluster() {
    let members = Members::with_amber().await;
    members.amber_is_lost();
    sync(&members.function).await;
    members.amber_has_all();
    members.converge().await;
    assert_eq!(members.noted(), [""; 0]);
    members.amber_is_lost();

    let confirm = json!({ "action": "confirm", "cluster": "blue" });
    let confirmed = report(&members.function, &confirm).await;

    assert_eq!(guard(&confirmed, "blue").state, GuardState::Confirmed, "{}", in_full(&confirmed));
    assert_eq!(guard(&confirmed, "green").state, GuardState::Held);
    assert_eq!(members.blue.service_import("shop", "api"), None);
    assert_eq!(count(&members.green, "api"), 8);
    assert_eq!(members.noted(), ["green"]);
}

#[tokio::test]
async fn loss_of_exports_is_held_in_cloud_map_and_in_the_imports_apart() {
    let members = Members::with_sixteen_pods().await;
    for name in NAMES {
        assert!(members.blue.unexport("shop", name));
    }
    let held = sync(&members.function).await;
    assert_eq!(guard(&held, "green").state, GuardState::Held, "{}", in_full(&held));
    members.clock.advance(WAIT);

    let lifted = sync(&members.function).await;

    assert_eq!(guard(&lifted, "green").state, GuardState::Lifted, "{}", in_full(&lifted));
    assert_eq!(members.green.service_import("shop", "api"), None);
    members.assert_settled().await;
}
