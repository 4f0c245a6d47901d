//! A cluster is lost: it is an orphan and stale, the imports keep its endpoints, and a purge ends all of it.

use std::time::Duration;

use cloud_map_sync::model::GuardState;
use serde_json::json;

use super::{Members, exported, imported, in_full, part, sources, web};
use crate::fleet::refs;
use crate::run::{report, sync};

const CREATED: &str = "2026-01-01T00:00:00Z";

#[tokio::test]
async fn lost_cluster_stays_in_the_imports_until_it_is_purged_and_the_loss_is_confirmed() {
    let members = Members::start().await;
    let twelve: Vec<String> = (1..=12).map(|last| format!("10.1.0.{last}")).collect();
    exported(&members.green, web(), &refs(&twelve), CREATED);
    members.converge().await;
    let endpoints = imported(&members.blue, "web");
    let arn = members.fleet.sandbox.cluster_arn("green");
    members.fleet.sandbox.aws().eks.delete(&arn);
    let function = members.serving("blue", &[]).await;
    members.clock.advance(Duration::from_hours(1));

    let lost = sync(&function).await;

    assert!(lost.ok, "{}", in_full(&lost));
    assert_eq!(lost.orphans.len(), 1);
    assert_eq!(lost.orphans[0].instances, 14, "endpoints, record and cluster record");
    assert_eq!(part(&lost, "blue").stale.len(), 1);
    assert_eq!(part(&lost, "blue").guard, None);
    assert_eq!(imported(&members.blue, "web"), endpoints);

    let purge = json!({ "action": "purge", "cluster": arn, "confirm": true });
    let purged = report(&function, &purge).await;
    assert!(purged.ok, "{}", in_full(&purged));
    assert_eq!(members.fleet.addresses("shop", "web"), [""; 0]);
    assert!(members.fleet.instances("clusterset.shop-set", "green").is_empty());
    assert_eq!(imported(&members.blue, "web"), endpoints, "a purge changes no cluster");

    let held = sync(&function).await;
    let guard = part(&held, "blue").guard.as_ref().expect("a verdict");
    assert_eq!((guard.state, guard.loss), (GuardState::Held, 12), "{}", in_full(&held));
    assert!(held.orphans.is_empty() && part(&held, "blue").stale.is_empty());
    assert_eq!(imported(&members.blue, "web"), endpoints);

    let confirmed = report(&function, &json!({ "action": "confirm" })).await;
    assert!(confirmed.ok, "{}", in_full(&confirmed));
    assert_eq!(imported(&members.blue, "web"), sources([]));
    assert_eq!(members.blue.service_import("shop", "web"), None);
}

#[tokio::test]
async fn dead_cluster_is_purged_with_its_exports_when_its_time_is_over() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    exported(&members.green, web(), &["10.1.0.1"], CREATED);
    members.converge().await;
    members.fleet.sandbox.aws().eks.delete(&members.fleet.sandbox.cluster_arn("green"));
    let function = members.serving("blue", &[("PURGE_DEAD_CLUSTERS_AFTER", "1d")]).await;
    sync(&function).await;
    members.clock.advance(Duration::from_hours(25));

    sync(&function).await;
    let after = sync(&function).await;

    assert!(after.ok && after.orphans.is_empty(), "{}", in_full(&after));
    assert!(members.fleet.instances("clusterset.shop-set", "green").is_empty());
    assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.1"]);
    assert_eq!(imported(&members.blue, "web"), sources([("blue", &["10.0.0.1:8080"])]));
}
