//! The guard against mass deletion. It holds a loss of most of a cluster at once until that is confirmed. It judges again
//! between the passes, since the registrations that make up for a loss can be refused. And it remembers what it held, for
//! some time and in Cloud Map.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::model::{GuardState, Verb};
use cloud_map_sync::report::{GuardReport, Report};
use serde_json::json;

use crate::fleet::{Fleet, ips, refs};
use crate::queue::{batch_about, batch_of, failures, scope};
use crate::run::{
    converged, held_back, plan, report, said_of, settled, sync, sync_service, writes,
};
use testbed::cloud_map::{Fault, FaultKind};
use testbed::function::{event, invoke};

/// What the guard writes on an instance.
const MARK: &str = "cloud-map-sync/guard";
/// `GUARD_WAIT`, unless it is set.
const WAIT: Duration = Duration::from_mins(10);

/// Four Services of `shop` with three pods each, all registered.
struct Shops {
    fleet: Fleet,
    function: Function,
}

const SHOPS: [&str; 4] = ["cart", "mail", "pay", "web"];

impl Shops {
    async fn start() -> Self {
        Self::started(Fleet::start().await).await
    }

    /// The same world, registered into services that somebody else made.
    async fn start_in_services_of_others() -> Self {
        let fleet = Fleet::start().await;
        for name in SHOPS {
            fleet.cloud_map.ensure_service("prod", name);
        }
        Self::started(fleet).await
    }

    async fn started(fleet: Fleet) -> Self {
        give_pods(&fleet, 0);
        let function = converged(&fleet).await;
        Self { fleet, function }
    }

    /// Somebody deletes all of them.
    fn delete_all(&self) {
        for name in SHOPS {
            self.fleet.cluster.delete_service("shop", name);
        }
    }

    /// No pod is ready any more.
    fn fail_all(&self) {
        for name in SHOPS {
            self.fleet.pods(name, &[]);
        }
    }

    /// Another party adds attributes to all instances, as many as there is room for.
    fn fill(&self) {
        for name in SHOPS {
            self.fleet.fill("prod", name);
        }
    }

    /// How many instances of ours there are in all.
    fn registered(&self) -> usize {
        SHOPS.iter().map(|name| self.fleet.addresses("prod", name).len()).sum()
    }

    /// The marks that the guard left on instances.
    fn marks(&self) -> Vec<String> {
        SHOPS.iter().flat_map(|name| self.fleet.values("prod", name, MARK)).collect()
    }

    /// Another process of the function, which knows nothing of this one.
    async fn restart(&mut self) {
        self.function = self.fleet.function().await;
    }
}

/// Gives every Service three pods in a network of its own in this one.
fn give_pods(fleet: &Fleet, network: usize) {
    for (index, name) in SHOPS.into_iter().enumerate() {
        fleet.web(name, "prod", &refs(&ips(&format!("10.{network}.{index}"), 1..=3)));
    }
}

/// What the guard says of the first cluster.
fn guard(report: &Report) -> &GuardReport {
    let guard = report.clusters[0].guard.as_ref();
    guard.unwrap_or_else(|| panic!("the guard says nothing: {report}"))
}

/// The run is complete, and takes nothing out.
fn holds(report: &Report) {
    assert!(report.ok && report.counts.failed == 0, "{report}");
    assert_eq!(report.counts.deregistered, 0, "{report}");
    assert!(held_back(report).contains(&"Guard"), "{report}");
}

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
        batch_of(&names.iter().map(|name| scope("blue", name)).collect::<Vec<_>>())
    };

    let answer = invoke(&shops.function, &about(&SHOPS)).await;

    assert_eq!(failures(&answer), [""; 0]);
    let report = answer.report.expect("a report");
    holds(&report);
    assert_eq!(guard(&report).state, GuardState::LeftToFullSync);
    assert_eq!(shops.fleet.cloud_map.writes(), 0, "nothing is remembered");

    let answer = invoke(&shops.function, &about(&SHOPS[..2])).await;
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

/// All pods of all Services are replaced, and Cloud Map refuses every new one: without new ones, what goes is a loss.
async fn start_with_refused_offsets() -> Shops {
    let mut shops = Shops::start().await;
    shops.function = shops.fleet.function_with(&[("GUARD_MINIMUM", "2")]).await;
    give_pods(&shops.fleet, 9);
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
    let shops = Box::pin(start_with_refused_offsets()).await;
    shops.fill();
    shops.fleet.web("new", "prod", &["10.9.9.1"]);

    let report = sync(&shops.function).await;

    assert_eq!(guard(&report).state, GuardState::Held, "{report}");
    assert_eq!(shops.fleet.values("prod", "new", MARK).len(), 1, "{report}");
}

#[tokio::test]
async fn offset_that_is_refused_is_held_in_that_run_and_noted_before_any_removal() {
    let shops = Box::pin(start_with_refused_offsets()).await;

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
            shops.fleet.clock.advance(WAIT);
        }
        let fails = Fault::on("DeregisterInstance", FaultKind::AccessDenied).after(4).always();
        shops.fleet.cloud_map.inject(fails);
        let action = if confirmed { "confirm" } else { "sync" };
        let cut_short = report(&shops.function, &json!({ "action": action })).await;
        assert!(!cut_short.ok && cut_short.counts.deregistered == 4, "{cut_short}");

        shops.fleet.cloud_map.heal();
        shops.fleet.clock.advance(Duration::from_mins(1));
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
    shops.fleet.clock.advance(WAIT);
    for name in SHOPS {
        let instances = shops.fleet.instances("prod", name).into_iter();
        for (id, _) in instances.filter(|(_, it)| !it.contains_key(MARK)) {
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

#[tokio::test]
async fn loss_is_remembered_once_on_an_instance_that_is_held() {
    let shops = Shops::start_in_services_of_others().await;
    shops.delete_all();

    holds(&sync(&shops.function).await);

    assert_eq!(shops.fleet.cloud_map.writes(), 1);
    let [mark] = shops.marks().try_into().expect("one mark in all");
    assert!(mark.starts_with("2026-11-21T10:51:00Z "), "{mark}");
    settled(&shops.fleet, &shops.function).await;
    shops.fleet.clock.advance(WAIT / 2);
    settled(&shops.fleet, &shops.function).await;
}

#[tokio::test]
async fn loss_is_remembered_on_a_service_of_ours_if_no_instance_has_room() {
    let mut shops = Shops::start().await;
    shops.fill();
    shops.delete_all();

    holds(&sync(&shops.function).await);

    assert_eq!(writes(&shops.fleet), ["UpdateServiceAttributes cart"]);
    let note = format!("cloud-map-sync/guard/{}", shops.fleet.sandbox.cluster_arn("blue"));
    let noted = |shops: &Shops| shops.fleet.view("prod", "cart").attributes.get(&note).cloned();
    assert!(noted(&shops).is_some_and(|it| it.starts_with("2026-11-21T10:51:00Z ")));
    settled(&shops.fleet, &shops.function).await;
    // Neither does a message take out what is held.
    shops.restart().await;
    invoke(&shops.function, &batch_about("blue", "web")).await;
    assert_eq!(shops.registered(), 12);

    shops.fleet.clock.advance(WAIT);
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
    let id = shops.fleet.cloud_map.service_id("prod", "web");
    let (instance, mut attributes) =
        shops.fleet.instances("prod", "web").pop_last().expect("an instance");
    attributes.retain(|key, _| !key.starts_with("by-hand"));
    shops.fleet.put(&id, &instance, &attributes);
    // No message takes out what is held.
    shops.restart().await;
    invoke(&shops.function, &batch_about("blue", "cart")).await;
    assert_eq!(shops.registered(), 12);

    shops.fleet.clock.advance(WAIT);
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
    give_pods(&shops.fleet, 0);
    shops.fleet.clock.advance(WAIT / 2);
    assert!(sync(&shops.function).await.ok);
    assert!(shops.fleet.view("prod", "cart").attributes.is_empty());
    settled(&shops.fleet, &shops.function).await;
    shops.fail_all();
    shops.fleet.clock.advance(WAIT);
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
        shops.fleet.clock.advance(WAIT);
    }
    report(&shops.function, &json!({ "action": "confirm", "cluster": "blue" })).await;
    assert_eq!(shops.registered(), 0);
}

/// An adoption takes nothing out and holds nothing, so it says nothing of what a full sync would hold.
#[tokio::test]
async fn adoption_does_not_vouch_for_a_cluster_that_another_process_holds() {
    for confirm in [false, true] {
        let shops = Shops::start_in_services_of_others().await;
        shops.fleet.clock.advance(Duration::from_mins(2));
        shops.delete_all();
        let adopt = json!({ "action": "adopt", "cluster": "blue", "confirm": confirm });
        invoke(&shops.function, &adopt).await.response.expect("a report");
        holds(&sync(&shops.fleet.function().await).await);
        let has_mark = |name: &&str| !shops.fleet.values("prod", name, MARK).is_empty();
        let unmarked = SHOPS.iter().find(|name| !has_mark(name)).expect("one mark in all");
        invoke(&shops.function, &batch_about("blue", unmarked)).await;
        assert_eq!(shops.registered(), 12, "{unmarked} {confirm}");
    }
}
