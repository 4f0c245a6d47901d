//! What is let pass, and when: the same loss after `GUARD_WAIT`, or a confirmed one at once.

use std::time::Duration;

use serde_json::json;

use super::{SHOPS, Shops, WAIT, guard, holds};
use crate::queue::{batch, failures, message};
use crate::run::{held_back, settled, sync};
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
async fn wait_is_a_setting() {
    let mut shops = Shops::start().await;
    let settings = [("GUARD_WAIT", "90s")];
    shops.function = shops.fleet.function_with(&settings).await.with_clock(shops.clock.clock());
    shops.delete_all();
    holds(&sync(&shops.function).await);
    shops.clock.advance(Duration::from_secs(90));
    assert_eq!(sync(&shops.function).await.counts.deregistered, 12);
}

/// With a schedule of half an hour no full sync comes within six times two minutes.
#[tokio::test]
async fn same_loss_passes_under_a_schedule_that_is_slower_than_six_waits() {
    let mut shops = Shops::start().await;
    let settings = [("GUARD_WAIT", "2m"), ("SCHEDULE_MINUTES", "30")];
    shops.function = shops.fleet.function_with(&settings).await.with_clock(shops.clock.clock());
    shops.delete_all();
    holds(&sync(&shops.function).await);
    shops.clock.advance(Duration::from_mins(30));
    assert_eq!(sync(&shops.function).await.counts.deregistered, 12);
}

#[tokio::test]
async fn wait_goes_on_in_another_process() {
    let mut shops = Shops::start().await;
    shops.delete_all();
    holds(&sync(&shops.function).await);
    shops.clock.advance(WAIT);
    shops.restart().await;
    assert_eq!(sync(&shops.function).await.counts.deregistered, 12);
}

#[tokio::test]
async fn loss_that_nobody_looked_at_for_six_waits_is_seen_anew() {
    let shops = Shops::start().await;
    shops.delete_all();
    holds(&sync(&shops.function).await);
    shops.clock.advance(6 * WAIT + Duration::from_secs(1));
    let report = sync(&shops.function).await;
    holds(&report);
    assert_eq!(guard(&report).first_seen.as_deref(), Some("2026-11-21T11:51:01Z"));
    shops.clock.advance(WAIT);
    assert_eq!(sync(&shops.function).await.counts.deregistered, 12);
}

#[tokio::test]
async fn loss_that_grows_passes_only_as_far_as_it_was_seen() {
    let mut shops = Shops::start().await;
    let settings = [("GUARD_MINIMUM", "2")];
    shops.function = shops.fleet.function_with(&settings).await.with_clock(shops.clock.clock());
    shops.delete_all_but(1);
    holds(&sync(&shops.function).await);
    shops.clock.advance(WAIT);
    shops.fleet.cluster.delete_service("shop", SHOPS[0]);

    let report = sync(&shops.function).await;

    assert_eq!((report.counts.deregistered, shops.registered()), (9, 3), "{report}");
    let said = guard(&report);
    assert_eq!((said.state, said.loss, said.instances), (GuardState::Held, 3, 3));
    assert_eq!(said.first_seen.as_deref(), Some("2026-11-21T11:01:00Z"));
    shops.clock.advance(WAIT);
    assert_eq!(sync(&shops.function).await.counts.deregistered, 3);
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

#[tokio::test]
async fn loss_is_confirmed_before_anybody_saw_it_and_for_one_run_alone() {
    let shops = Shops::start().await;
    shops.delete_all();
    invoke(&shops.function, &json!({ "action": "confirm" })).await.response.expect("a report");
    assert_eq!(shops.registered(), 0);
    Shops::open(&shops.fleet);
    assert_eq!(sync(&shops.function).await.counts.registered, 12);
    shops.delete_all();
    holds(&sync(&shops.function).await);
}

#[tokio::test]
async fn confirmation_is_refused_from_a_queue_and_for_a_part_of_a_cluster() {
    let shops = Shops::start().await;
    shops.delete_all();
    let confirm = json!({ "action": "confirm", "cluster": "blue" });
    let notification = json!({ "Type": "Notification", "Message": confirm.to_string() });
    let event = json!({ "detail-type": "t", "source": "s", "detail": confirm });
    let messages =
        [message("sqs", &confirm), message("sns", &notification), message("eventbridge", &event)];
    let answer = invoke(&shops.function, &batch(&messages)).await;
    assert_eq!(failures(&answer), [""; 0]);
    let report = answer.report.expect("a report");
    assert_eq!(report.dropped.len(), 3, "{report}");

    let part = json!({ "action": "confirm", "cluster": "blue", "namespace": "shop" });
    let refused = invoke(&shops.function, &part).await.response.expect_err("refused");
    assert_eq!(refused.kind(), "InvalidEvent");
    assert_eq!(shops.registered(), 12);
}

#[tokio::test]
async fn confirmation_in_a_dry_run_is_a_plan() {
    let mut shops = Shops::start().await;
    shops.delete_all();
    let settings = [("DRY_RUN", "true")];
    shops.function = shops.fleet.function_with(&settings).await.with_clock(shops.clock.clock());
    shops.fleet.cloud_map.forget_calls();
    let answer = invoke(&shops.function, &json!({ "action": "confirm" })).await;
    let report = answer.report.expect("a report");
    assert_eq!((report.counts.deregistered, held_back(&report).len()), (12, 0), "{report}");
    assert_eq!((shops.fleet.cloud_map.writes(), shops.registered()), (0, 12));
}
