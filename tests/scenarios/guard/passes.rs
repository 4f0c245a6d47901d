//! What is let pass, and when: the same loss after `GUARD_WAIT`, or a confirmed one at once.

use std::time::Duration;

use serde_json::json;

use super::{Shops, WAIT, guard, holds};
use crate::run::{settled, sync};
use cloud_map_sync::model::GuardState;
use testbed::function::invoke;

#[tokio::test]
async fn same_loss_passes_after_the_wait_and_not_before() {
    let shops = Shops::start().await;
    shops.delete_all();
    holds(&sync(&shops.function).await);
    shops.clock.advance(WAIT.saturating_sub(Duration::from_secs(1)));
    let report = sync(&shops.function).await;
    holds(&report);
    assert!(guard(&report).later_look);
    assert_eq!(guard(&report).first_seen.as_deref(), Some("2026-11-21T10:51:00Z"));

    shops.clock.advance(Duration::from_secs(1));
    let report = sync(&shops.function).await;

    assert_eq!((report.counts.deregistered, shops.registered()), (12, 0), "{report}");
    assert_eq!(guard(&report).state, GuardState::Lifted);
    settled(&shops.fleet, &shops.function).await;
}

#[tokio::test]
async fn confirmed_loss_passes_at_once() {
    let shops = Shops::start().await;
    shops.delete_all();
    holds(&sync(&shops.function).await);

    let answer = invoke(&shops.function, &json!({ "action": "confirm", "cluster": "blue" })).await;

    let response = answer.response.expect("the report");
    assert_eq!((&response["mode"], &response["ok"]), (&json!("sync"), &json!(true)));
    assert_eq!(response["counts"]["deregistered"], 12, "{response}");
    assert_eq!(response["clusters"][0]["guard"]["state"], "confirmed", "{response}");
    assert_eq!(shops.registered(), 0);
    settled(&shops.fleet, &shops.function).await;
}
