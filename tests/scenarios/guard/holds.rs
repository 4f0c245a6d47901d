//! What is held: a loss of most of a cluster at once, and what is not one.

use cloud_map_sync::time::Deadline;
use serde_json::json;

use super::{SHOPS, Shops, addresses, guard, holds};
use crate::fleet::{Fleet, annotated, give_pods};
use crate::queue::{batch, failures, message};
use crate::run::{converge, held_back, plan, said_of, settled, sync, sync_service};
use cloud_map_sync::model::GuardState;
use testbed::ROLE_ARN;
use testbed::function::{TIMEOUT, event, invoke};
use testbed::kubernetes::Pod;

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
async fn cluster_made_again_empty_under_its_name_keeps_its_instances() {
    let mut shops = Shops::start().await;
    let identity = shops.fleet.cluster.identity();
    shops.fleet.cluster.stop();
    shops.fleet.sandbox.add_cluster(identity, ROLE_ARN).await;

    shops.restart().await;
    holds(&sync(&shops.function).await);

    assert_eq!(shops.registered(), 12);
}

#[tokio::test]
async fn pods_that_are_all_not_ready_at_once_stay_registered() {
    let shops = Shops::start().await;
    for (index, name) in SHOPS.into_iter().enumerate() {
        let pods = addresses(index).map(|address| Pod::new(&address, &address).not_ready());
        shops.fleet.cluster.pods("shop", name, &pods);
    }

    holds(&sync(&shops.function).await);

    assert_eq!(shops.registered(), 12);
}

#[tokio::test]
async fn limits_are_settings() {
    let mut shops = Shops::start().await;
    let settings = [("GUARD_SHARE", "20"), ("GUARD_MINIMUM", "5")];
    shops.function = shops.fleet.function_with(&settings).await.with_clock(shops.clock.clock());
    for name in &SHOPS[..2] {
        shops.fleet.cluster.delete_service("shop", name);
    }
    let report = sync(&shops.function).await;
    holds(&report);
    assert_eq!((guard(&report).loss, guard(&report).share, guard(&report).minimum), (6, 20, 5));
}

/// A hundred pods of one Service.
async fn one_large_service() -> (Fleet, cloud_map_sync::function::Function) {
    let fleet = Fleet::start().await;
    let addresses: Vec<String> = (0..100).map(|last| format!("10.0.1.{last}")).collect();
    fleet.web("web", "prod", &addresses.iter().map(String::as_str).collect::<Vec<_>>());
    fleet.web("cart", "prod", &["10.0.2.1"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    (fleet, function)
}

#[tokio::test]
async fn one_service_scaled_from_a_hundred_pods_to_none_is_believed_since_it_was_read() {
    let (fleet, function) = one_large_service().await;
    fleet.pods("web", &[]);
    let report = converge(&fleet, &function).await;
    assert_eq!(report.counts.deregistered, 100, "{report}");
}

#[tokio::test]
async fn one_service_that_loses_its_annotation_is_believed_since_it_was_read() {
    let (fleet, function) = one_large_service().await;
    fleet.annotate("web", "hostname", "");
    let report = converge(&fleet, &function).await;
    assert_eq!(report.counts.deregistered, 100, "{report}");
}

#[tokio::test]
async fn one_service_of_a_hundred_pods_that_is_gone_is_held_by_a_full_sync_and_not_by_its_own() {
    let (fleet, function) = one_large_service().await;
    fleet.cluster.delete_service("shop", "web");
    let planned = plan(&function).await;
    holds(&planned);
    assert!(guard(&planned).detail.contains("shop/web, which is not in the cluster"), "{planned}");

    let report = sync_service(&function, "web").await;

    assert_eq!((report.counts.deregistered, report.counts.held_back), (100, 0), "{report}");
}

#[tokio::test]
async fn one_cluster_that_is_held_stops_no_other() {
    let shops = Shops::start().await;
    let green = shops.fleet.green().await;
    green.service(annotated("green", "prod", "green"));
    give_pods(&green, "green", &["10.8.0.1"]);
    let function = shops.fleet.function().await.with_clock(shops.clock.clock());
    sync(&function).await;
    shops.delete_all();
    give_pods(&green, "green", &["10.8.0.2"]);

    let report = sync(&function).await;

    assert_eq!(guard(&report).state, GuardState::Held);
    assert!(report.clusters[1].guard.is_none(), "{report}");
    assert_eq!(shops.fleet.addresses("prod", "green"), ["10.8.0.2"]);
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

    let answer = shops.function.invoke(&about(&SHOPS), Deadline::after(TIMEOUT)).await;

    assert_eq!(failures(&answer), [""; 0]);
    let report = answer.report.expect("a report");
    holds(&report);
    assert_eq!(guard(&report).state, GuardState::LeftToFullSync);
    assert_eq!(shops.fleet.cloud_map.writes(), 0, "nothing is remembered");

    let answer = shops.function.invoke(&about(&SHOPS[..2]), Deadline::after(TIMEOUT)).await;
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
async fn policy_that_ends_no_claim_refuses_deletions_and_the_guard_holds_failed_pods() {
    let mut shops = Shops::start().await;
    let settings = [("POLICY", "upsert-only")];
    shops.function = shops.fleet.function_with(&settings).await.with_clock(shops.clock.clock());
    shops.fail_all();
    holds(&sync(&shops.function).await);
    settled(&shops.fleet, &shops.function).await;
    shops.delete_all();
    let report = sync(&shops.function).await;
    assert_eq!(held_back(&report), ["Policy"; 12], "{report}");
}
