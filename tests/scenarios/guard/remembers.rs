//! What is remembered, where, and until when.

use super::{SHOPS, Shops, WAIT, guard, holds};
use crate::run::{plan, settled, sync};

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
async fn loss_that_is_over_is_forgotten_and_waits_anew_when_it_comes_again() {
    let shops = Shops::start_in_services_of_others().await;
    shops.fail_all();
    holds(&sync(&shops.function).await);
    Shops::open(&shops.fleet);
    shops.clock.advance(WAIT / 2);

    let report = sync(&shops.function).await;

    assert_eq!((report.counts.rewritten, shops.marks().len()), (1, 0), "{report}");
    settled(&shops.fleet, &shops.function).await;
    shops.fail_all();
    shops.clock.advance(WAIT);
    let report = sync(&shops.function).await;
    holds(&report);
    assert!(!guard(&report).later_look, "{report}");
}

#[tokio::test]
async fn plan_and_dry_run_hold_and_remember_nothing() {
    let shops = Shops::start_in_services_of_others().await;
    shops.delete_all();
    let dry = shops.fleet.function_with(&[("DRY_RUN", "true")]).await;
    let dry = dry.with_clock(shops.clock.clock());
    shops.fleet.cloud_map.forget_calls();
    for _ in 0..2 {
        for report in [plan(&shops.function).await, sync(&dry).await] {
            holds(&report);
            assert!(!guard(&report).later_look, "{report}");
        }
        shops.clock.advance(WAIT);
    }
    assert_eq!(shops.fleet.cloud_map.writes(), 0);
}
