//! What makes up for a loss can be refused: the guard judges again when the registrations are done.

use cloud_map_sync::model::{GuardState, Verb};
use std::time::Duration;

use serde_json::json;

use super::{SHOPS, Shops, WAIT, guard, holds};
use crate::run::{plan, report, sync, writes};
use testbed::cloud_map::{Fault, FaultKind};

/// Every Service gets other pods.
fn replace_all(shops: &Shops) {
    for (index, name) in SHOPS.iter().enumerate() {
        let pods = [1, 2, 3].map(|last| format!("10.9.{index}.{last}"));
        shops.fleet.pods(name, &pods.each_ref().map(String::as_str));
    }
}

/// All pods of all Services are replaced, and Cloud Map refuses every new one: without new ones, what goes is a loss.
async fn start_with_refused_offsets() -> Shops {
    let mut shops = Shops::start().await;
    let function = shops.fleet.function_with(&[("GUARD_MINIMUM", "2")]).await;
    shops.function = function.with_clock(shops.clock.clock());
    replace_all(&shops);
    let planned = plan(&shops.function).await;
    let changes = planned.clusters[0].services.iter().flat_map(|service| &service.changes);
    for change in changes.filter(|change| change.change == Verb::Register) {
        let new = change.instance.as_deref().expect("an instance");
        let denied = Fault::on("RegisterInstance", FaultKind::AccessDenied).instance(new).always();
        shops.fleet.cloud_map.inject(denied);
    }
    shops.fleet.cloud_map.forget_calls();
    shops
}

/// The others have no room for a note.
#[tokio::test]
async fn offset_that_is_refused_may_be_noted_on_an_instance_that_the_run_has_registered() {
    let shops = start_with_refused_offsets().await;
    shops.fill();
    shops.fleet.web("new", "prod", &["10.9.9.1"]);

    let report = sync(&shops.function).await;

    assert_eq!(guard(&report).state, GuardState::Held, "{report}");
    let new = shops.fleet.instances("prod", "new");
    assert!(new.values().any(|it| it.contains_key("cloud-map-sync/guard")), "{new:?}");
}

#[tokio::test]
async fn offset_that_is_refused_is_held_in_that_run_and_noted_before_any_removal() {
    let shops = start_with_refused_offsets().await;

    let report = sync(&shops.function).await;

    assert_eq!(guard(&report).state, GuardState::Held, "{report}");
    assert_eq!(report.counts.deregistered, 0, "{report}");
    let calls = shops.fleet.cloud_map.calls().into_iter();
    let accepted = calls.filter(|call| call.is_write() && call.status == 200);
    assert_eq!(accepted.count(), 1, "the note: {report}");
    shops.fleet.cloud_map.heal();
    let report = sync(&shops.function).await;
    assert!(report.ok && report.counts.deregistered == 3 * SHOPS.len(), "{report}");
}

/// A loss that is let pass and cut short goes on in the next run: the instance with the note of it goes last.
#[tokio::test]
async fn confirmed_or_lapsed_loss_that_is_cut_short_goes_on() {
    for (seen, confirmed) in [(true, false), (true, true), (false, true)] {
        let shops = Shops::start().await;
        shops.delete_all();
        if seen {
            holds(&sync(&shops.function).await);
        }
        if !confirmed {
            shops.clock.advance(WAIT);
        }
        let fails = Fault::on("DeregisterInstance", FaultKind::AccessDenied).after(4).always();
        shops.fleet.cloud_map.inject(fails);
        let action = if confirmed { "confirm" } else { "sync" };
        let cut_short = report(&shops.function, &json!({ "action": action })).await;
        assert!(!cut_short.ok && cut_short.counts.deregistered == 4, "{cut_short}");

        shops.fleet.cloud_map.heal();
        shops.clock.advance(Duration::from_mins(1));
        shops.fleet.cloud_map.forget_calls();
        let rest = sync(&shops.function).await;

        assert!(rest.ok && rest.counts.deregistered == 8, "{seen} {confirmed}: {rest}");
        let writes = writes(&shops.fleet);
        assert!(writes.iter().all(|write| write.starts_with("Deregister")), "{writes:?}");
    }
}

/// Whatever else fails, the note stays until the rest of its loss has gone.
#[tokio::test]
async fn instance_with_the_note_stays_if_the_others_could_not_go() {
    let shops = Shops::start().await;
    shops.delete_all();
    holds(&sync(&shops.function).await);
    shops.clock.advance(WAIT);
    for name in SHOPS {
        let instances = shops.fleet.instances("prod", name).into_iter();
        for (id, _) in instances.filter(|(_, it)| !it.contains_key("cloud-map-sync/guard")) {
            let fails = Fault::on("DeregisterInstance", FaultKind::AccessDenied).instance(&id);
            shops.fleet.cloud_map.inject(fails.always());
        }
    }
    let report = sync(&shops.function).await;
    assert_eq!((report.counts.deregistered, report.counts.failed), (0, 11), "{report}");

    shops.fleet.cloud_map.heal();
    let rest = sync(&shops.function).await;
    assert_eq!((rest.ok, rest.counts.deregistered), (true, 12), "{rest}");
}
