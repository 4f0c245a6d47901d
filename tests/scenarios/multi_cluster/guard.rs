//! The guard holds a large loss of exports, and the imports with it.

use serde_json::json;

use super::{Members, exported, imported, in_full, service};
use crate::run::{report, sync};

const CREATED: &str = "2026-01-01T00:00:00Z";

#[tokio::test]
async fn large_loss_of_exports_is_held_in_cloud_map_and_in_the_imports_until_it_is_confirmed() {
    for are_services_deleted in [false, true] {
        let members = Members::start().await;
        for (index, name) in ["api", "cart"].into_iter().enumerate() {
            let service = service(name);
            let addresses: Vec<String> = (1..=8).map(|pod| format!("10.0.{index}.{pod}")).collect();
            let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
            exported(&members.blue, service, &addresses, CREATED);
        }
        members.converge().await;
        let before = ["api", "cart"].map(|name| imported(&members.green, name));
        for name in ["api", "cart"] {
            if are_services_deleted {
                members.blue.delete_service("shop", name);
            } else {
                members.blue.unexport("shop", name);
            }
        }

        let held = sync(&members.function).await;

        let guard = held.clusters[0].guard.as_ref();
        assert!(guard.is_some_and(|guard| guard.state.holds()), "{}", in_full(&held));
        assert_eq!(members.fleet.addresses("shop", "api").len(), 8);
        assert_eq!(members.fleet.instances("clusterset.shop-set", "blue").len(), 3);
        assert_eq!(["api", "cart"].map(|name| imported(&members.green, name)), before);

        let confirmed = json!({ "action": "confirm" });
        let confirmed = report(&members.function, &confirmed).await;

        assert!(confirmed.ok, "{}", in_full(&confirmed));
        assert_eq!(members.fleet.addresses("shop", "api").len(), 0);
        assert_eq!(members.green.service_import("shop", "api"), None);
        members.assert_settled().await;
    }
}
