//! What is held: a loss of most of a cluster at once, until it is confirmed, and what is not one.

use cloud_map_sync::time::Deadline;
use serde_json::json;

use super::{SHOPS, Shops, guard, holds};
use crate::queue::{batch, failures, message};
use crate::run::{held_back, said_of, settled, sync, sync_service};
use cloud_map_sync::model::GuardState;
use testbed::function::{TIMEOUT, event, invoke, invoke_until};

#[tokio::test]
async fn cluster_that_is_emptied_at_once_keeps_its_instances_and_the_schedule_is_content() {
    let shops = Shops::start().await;
    shops.delete_all();

    let answer = invoke(&shops.function, &event("schedule-eventbridge-rule")).await;

    assert_eq!(answer.response.expect("never for a held-back line")["counts"]["deregistered"], 0);
    let report = answer.report.expect("a report");
    holds(&report);
    let said = guard(&report);
    assert_eq!((said.state, said.loss, said.instances), (GuardState::Held, 12, 12));
    assert_eq!(said.first_seen.as_deref(), Some("2026-11-21T10:51:00Z"));
    assert_eq!(said.lifts_from.as_deref(), Some("2026-11-21T11:01:00Z"));
    assert!(!said.later_look);
    let losing: Vec<&str> = said.services.iter().map(|it| it.service.name.as_str()).collect();
    assert_eq!(losing, SHOPS);
    assert_eq!(held_back(&report), ["Guard"; 4]);
    let line = said_of(&report, "Guard");
    for part in ["shop/cart", "12 of 12", "50 %", "(10)", "11:01:00Z", r#"{"action":"confirm""#] {
        assert!(line.contains(part), "{line:?} lacks {part}");
    }
    assert_eq!(shops.registered(), 12);
}

#[tokio::test]
async fn batch_about_several_services_leaves_a_great_loss_to_the_full_sync_and_takes_a_small_one() {
    let shops = Shops::start().await;
    shops.delete_all();
    let about = |names: &[&str]| {
        let messages = names
            .iter()
            .map(|name| message(name, &json!({ "namespace": "shop", "service": name })));
        batch(&messages.collect::<Vec<_>>())
    };

    let answer = invoke_until(&shops.function, &about(&SHOPS), Deadline::after(TIMEOUT)).await;

    assert_eq!(failures(&answer), [""; 0]);
    let report = answer.report.expect("a report");
    holds(&report);
    assert_eq!(guard(&report).state, GuardState::LeftToFullSync);
    assert_eq!(shops.fleet.cloud_map.writes(), 0, "nothing is remembered");

    let answer = invoke_until(&shops.function, &about(&SHOPS[..2]), Deadline::after(TIMEOUT)).await;
    assert_eq!(answer.report.expect("a report").counts.deregistered, 6);
}

#[tokio::test]
async fn message_about_a_service_that_a_full_sync_holds_takes_nothing_out() {
    let shops = Shops::start().await;
    shops.delete_all();
    holds(&sync(&shops.function).await);
    shops.fleet.cloud_map.forget_calls();

    let report = sync_service(&shops.function, "web").await;

    holds(&report);
    assert_eq!(guard(&report).state, GuardState::HeldByFullSync);
    assert_eq!((shops.registered(), shops.fleet.cloud_map.writes()), (12, 0));
    shops.fleet.web("new", "prod", &["10.9.0.1"]);
    assert_eq!(sync_service(&shops.function, "new").await.counts.registered, 1);
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
