//! What is remembered, where, and until when.

use std::time::Duration;

use serde_json::json;

use super::{SHOPS, Shops, WAIT, guard, holds};
use crate::queue::{batch, message};
use crate::run::{report, settled, sync, writes};
use testbed::function::invoke;

impl Shops {
    /// The marks that the guard left on instances.
    fn marks(&self) -> Vec<String> {
        let all = SHOPS.iter().flat_map(|name| self.fleet.instances("prod", name));
        all.filter_map(|(_, attributes)| attributes.get("cloud-map-sync/guard").cloned()).collect()
    }
}

#[tokio::test]
async fn loss_is_remembered_once_on_an_instance_that_is_held() {
    let shops = Shops::start_in_services_of_others().await;
    shops.delete_all();
    shops.fleet.cloud_map.forget_calls();

    holds(&sync(&shops.function).await);

    assert_eq!(shops.fleet.cloud_map.writes(), 1);
    let marks = shops.marks();
    assert!(
        matches!(marks.as_slice(), [one] if one.starts_with("2026-11-21T10:51:00Z ")),
        "{marks:?}"
    );
    settled(&shops.fleet, &shops.function).await;
    shops.clock.advance(WAIT / 2);
    settled(&shops.fleet, &shops.function).await;
}

#[tokio::test]
async fn loss_is_remembered_on_a_service_of_ours_if_no_instance_has_room() {
    let mut shops = Shops::start().await;
    shops.fill();
    shops.delete_all();
    shops.fleet.cloud_map.forget_calls();

    holds(&sync(&shops.function).await);

    assert_eq!(writes(&shops.fleet), ["UpdateServiceAttributes cart"]);
    let note = format!("cloud-map-sync/guard/{}", shops.fleet.sandbox.cluster_arn("blue"));
    let noted = |shops: &Shops| shops.fleet.view("prod", "cart").attributes.get(&note).cloned();
    assert!(noted(&shops).is_some_and(|it| it.starts_with("2026-11-21T10:51:00Z ")));
    settled(&shops.fleet, &shops.function).await;
    // Neither does a message take out what is held.
    shops.restart().await;
    let about = json!({ "cluster": "blue", "namespace": "shop", "service": "web" });
    invoke(&shops.function, &batch(&[message("m", &about)])).await;
    assert_eq!(shops.registered(), 12);

    shops.clock.advance(WAIT);
    shops.restart().await;
    let report = sync(&shops.function).await;
    assert_eq!((report.ok, report.counts.deregistered, shops.registered()), (true, 12, 0));
    assert_eq!(noted(&shops), None, "{report}");
    settled(&shops.fleet, &shops.function).await;
}

#[tokio::test]
async fn loss_that_is_noted_on_a_service_waits_once_though_an_instance_has_room_since() {
    let mut shops = Shops::start().await;
    shops.fill();
    shops.delete_all();
    holds(&sync(&shops.function).await);
    let id = shops.fleet.cloud_map.find_service("prod", "web").expect("the service");
    let (instance, mut attributes) =
        shops.fleet.instances("prod", "web").pop_last().expect("an instance");
    attributes.retain(|key, _| !key.starts_with("by-hand"));
    shops.fleet.put(&id, &instance, &attributes);
    // No message takes out what is held.
    shops.restart().await;
    let about = json!({ "cluster": "blue", "namespace": "shop", "service": "cart" });
    invoke(&shops.function, &batch(&[message("m", &about)])).await;
    assert_eq!(shops.registered(), 12);

    shops.clock.advance(WAIT);
    shops.restart().await;
    let report = sync(&shops.function).await;
    assert_eq!((report.counts.deregistered, shops.registered()), (12, 0), "{report}");
}

#[tokio::test]
async fn note_on_a_service_goes_if_the_loss_is_over() {
    let shops = Shops::start().await;
    shops.fill();
    shops.fail_all();
    holds(&sync(&shops.function).await);
    Shops::open(&shops.fleet);
    shops.clock.advance(WAIT / 2);
    assert!(sync(&shops.function).await.ok);
    assert!(shops.fleet.view("prod", "cart").attributes.is_empty());
    settled(&shops.fleet, &shops.function).await;
    shops.fail_all();
    shops.clock.advance(WAIT);
    holds(&sync(&shops.function).await);
}

#[tokio::test]
async fn loss_that_can_be_noted_nowhere_waits_for_a_person_and_says_so() {
    let shops = Shops::start_in_services_of_others().await;
    shops.fill();
    shops.delete_all();
    for _ in 0..3 {
        let report = sync(&shops.function).await;
        holds(&report);
        let guard = guard(&report);
        assert_eq!((&guard.first_seen, &guard.lifts_from), (&None, &None), "{report}");
        for said in ["has room for a note", "carries our tag", "\"action\":\"confirm\""] {
            assert!(guard.detail.contains(said), "{}", guard.detail);
        }
        shops.clock.advance(WAIT);
    }
    let confirm = json!({ "action": "confirm", "cluster": "blue" });
    report(&shops.function, &confirm).await;
    assert_eq!(shops.registered(), 0);
}

/// An adoption takes nothing out and holds nothing, so it says nothing of what a full sync would hold.
#[tokio::test]
async fn adoption_does_not_vouch_for_a_cluster_that_another_process_holds() {
    for confirm in [false, true] {
        let shops = Shops::start_in_services_of_others().await;
        shops.clock.advance(Duration::from_mins(2));
        shops.delete_all();
        let adopt = json!({ "action": "adopt", "cluster": "blue", "confirm": confirm });
        invoke(&shops.function, &adopt).await.response.expect("a report");
        let other = shops.fleet.function().await.with_clock(shops.clock.clock());
        holds(&sync(&other).await);
        let has_mark = |name: &&str| {
            let instances = shops.fleet.instances("prod", name);
            instances.values().any(|it| it.contains_key("cloud-map-sync/guard"))
        };
        let unmarked = SHOPS.iter().find(|name| !has_mark(name)).expect("one mark in all");
        let about = json!({ "cluster": "blue", "namespace": "shop", "service": unmarked });
        invoke(&shops.function, &batch(&[message("m", &about)])).await;
        assert_eq!(shops.registered(), 12, "{unmarked} {confirm}");
    }
}
