//! The guard against mass deletion. It holds a loss of most of a cluster at once until that is confirmed. It judges again
//! once the additions of a run have ended, since the registrations that make up for a loss can be refused. And it remembers
//! what it held, for some time and in Cloud Map.

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

    /// The notes of the guard.
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
    assert!(!said.needs_operator);
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
    let lines = planned.clusters[0].all_lines();
    for line in lines.filter(|line| line.verb() == Some(Verb::Register)) {
        let new = line.object.as_deref().expect("an instance");
        let denied = Fault::on("RegisterInstance", FaultKind::AccessDenied).instance(new).always();
        shops.fleet.cloud_map.inject(denied);
    }
    shops.fleet.cloud_map.forget_calls();
    shops
}

#[tokio::test]
async fn offset_that_is_refused_is_held_in_that_run_and_noted_before_any_removal() {
    let shops = Box::pin(start_with_refused_offsets()).await;

    let report = sync(&shops.function).await;

    assert_eq!(guard(&report).state, GuardState::Held, "{report}");
    assert_eq!(report.counts.deregistered, 0, "{report}");
    let calls = shops.fleet.cloud_map.calls().into_iter();
    let accepted = calls.filter(|call| call.is_write() && call.status == 200);
    assert_eq!(accepted.count(), SHOPS.len(), "a note each: {report}");
    shops.fleet.cloud_map.heal();
    let report = sync(&shops.function).await;
    assert!(report.ok && report.counts.deregistered == 3 * SHOPS.len(), "{report}");
}

/// A loss that is let pass and cut short goes on in the next run: the instances with the notes of it go last.
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

/// Whatever else fails, the note of a Service stays until the rest of its loss has gone.
#[tokio::test]
async fn instances_with_the_notes_stay_if_the_others_could_not_go() {
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
    assert_eq!((report.counts.deregistered, report.counts.failed), (0, 8), "{report}");

    shops.fleet.cloud_map.heal();
    let rest = sync(&shops.function).await;
    assert_eq!((rest.ok, rest.counts.deregistered), (true, 12), "{rest}");
}

#[tokio::test]
async fn loss_of_each_service_is_noted_once_on_an_instance_of_its_own() {
    let shops = Shops::start_in_services_of_others().await;
    shops.delete_all();

    holds(&sync(&shops.function).await);

    assert_eq!(shops.fleet.cloud_map.writes(), SHOPS.len());
    for name in SHOPS {
        let marks = shops.fleet.values("prod", name, MARK);
        assert!(
            matches!(marks.as_slice(), [it] if it.starts_with("2026-11-21T10:51:00Z ")),
            "{name}: {marks:?}"
        );
    }
    settled(&shops.fleet, &shops.function).await;
    shops.fleet.clock.advance(WAIT / 2);
    settled(&shops.fleet, &shops.function).await;
}

/// Each of them about one Service, and by a process that knows nothing of what is held.
#[tokio::test]
async fn messages_about_each_held_service_do_not_carry_the_loss_out() {
    let mut shops = Shops::start().await;
    shops.delete_all();
    holds(&sync(&shops.function).await);
    shops.fleet.clock.advance(WAIT);
    for name in SHOPS {
        shops.restart().await;
        invoke(&shops.function, &batch_about("blue", name)).await;
        assert_eq!(shops.registered(), 12, "{name}");
    }
}

/// A warm process that serves a message reads the Service with its own names, however much it would take out.
#[tokio::test]
async fn message_that_takes_a_service_out_reads_its_names_alone() {
    let shops = Shops::start().await;
    shops.fleet.cluster.delete_service("shop", "web");
    shops.fleet.cloud_map.forget_calls();

    let report = sync_service(&shops.function, "web").await;

    assert_eq!(report.counts.deregistered, 3, "{report}");
    let lists = shops.fleet.cloud_map.count("ListInstances");
    let web = shops.fleet.cloud_map.service_id("prod", "web");
    let calls = shops.fleet.cloud_map.calls().into_iter();
    let of_web = calls
        .filter(|call| call.operation == "ListInstances" && call.service.as_ref() == Some(&web));
    assert_eq!(of_web.count(), lists, "{report}");
}

/// The pods of one Service are back before the wait is over, and later another accident takes them again.
#[tokio::test]
async fn note_goes_with_the_loss_and_lets_no_later_one_pass() {
    let shops = Shops::start().await;
    shops.fail_all();
    holds(&sync(&shops.function).await);
    give_pods(&shops.fleet, 0);
    shops.fleet.clock.advance(WAIT / 2);
    assert!(sync(&shops.function).await.ok);
    assert!(shops.marks().is_empty());
    settled(&shops.fleet, &shops.function).await;
    shops.fleet.clock.advance(WAIT * 2);
    shops.fail_all();
    holds(&sync(&shops.function).await);
    assert_eq!(shops.registered(), 12);
}

/// The instance on which a full sync writes its note has gone since it was listed.
#[tokio::test]
async fn note_does_not_register_again_what_has_gone_meanwhile() {
    let shops = Shops::start().await;
    shops.delete_all();
    let web = shops.fleet.cloud_map.service_id("prod", "web");
    let late = FaultKind::Late(Duration::from_millis(200));
    shops.fleet.cloud_map.inject(Fault::on("ListInstances", late).service(&web));
    let gone = shops.fleet.instances("prod", "web").into_keys().next().expect("an instance");
    shops.fleet.cloud_map.forget_calls();

    let (report, ()) = tokio::join!(sync(&shops.function), async {
        shops.fleet.called("ListInstances").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        shops.fleet.cloud_map.remove_instance(&web, &gone);
    });

    assert_eq!(
        (report.counts.deregistered, guard(&report).state),
        (0, GuardState::Held),
        "{report}"
    );
    assert!(!shops.fleet.instances("prod", "web").contains_key(&gone), "{report}");
}

/// Whatever keeps a note from being written, only a person lets the loss pass, and the line says so.
#[tokio::test]
async fn loss_that_cannot_be_noted_waits_for_a_person_and_says_so() {
    let shops = Shops::start_in_services_of_others().await;
    shops.fill();
    shops.delete_all();
    for _ in 0..3 {
        let report = sync(&shops.function).await;
        holds(&report);
        let guard = guard(&report);
        assert_eq!((&guard.first_seen, &guard.lifts_from), (&None, &None), "{report}");
        for said in ["shop/cart", "could not be noted", "\"action\":\"confirm\""] {
            assert!(guard.detail.contains(said), "{}", guard.detail);
        }
        shops.fleet.clock.advance(WAIT);
    }
    // A message leaves each of them to the full sync.
    for name in SHOPS {
        invoke(&shops.function, &batch_about("blue", name)).await;
    }
    assert_eq!(shops.registered(), 12);
    report(&shops.function, &json!({ "action": "confirm", "cluster": "blue" })).await;
    assert_eq!(shops.registered(), 0);
}

#[tokio::test]
async fn note_that_is_refused_is_no_note_and_the_line_says_so() {
    let shops = Shops::start().await;
    shops.delete_all();
    let denied = Fault::on("RegisterInstance", FaultKind::AccessDenied).always();
    shops.fleet.cloud_map.inject(denied);
    for _ in 0..2 {
        let report = sync(&shops.function).await;
        assert_eq!((report.ok, report.counts.failed), (false, SHOPS.len()), "{report}");
        assert_eq!(guard(&report).lifts_from, None, "{report}");
        assert!(guard(&report).detail.contains("could not be noted"), "{}", guard(&report).detail);
        assert_eq!(shops.registered(), 12);
        shops.fleet.clock.advance(WAIT);
    }
}

#[tokio::test]
async fn name_of_a_held_service_passes_to_nobody_else_until_its_loss_passes() {
    let shops = Shops::start().await;
    shops.delete_all();
    shops.fleet.web("new", "prod", &["10.9.0.1"]);
    shops.fleet.annotate("new", "hostname", "web");
    for _ in 0..2 {
        let report = sync(&shops.function).await;
        holds(&report);
        assert!(said_of(&report, "DomainConflict").contains("shop/web"), "{report}");
        invoke(&shops.function, &batch_about("blue", "new")).await;
        assert_eq!(shops.fleet.addresses("prod", "web").len(), 3);
        shops.fleet.clock.advance(WAIT / 2);
    }
    let report = sync(&shops.function).await;
    assert_eq!((report.ok, report.counts.deregistered), (true, 12), "{report}");
    assert_eq!(shops.fleet.addresses("prod", "web"), ["10.9.0.1"]);
    settled(&shops.fleet, &shops.function).await;
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
        for name in SHOPS {
            invoke(&shops.function, &batch_about("blue", name)).await;
            assert_eq!(shops.registered(), 12, "{name} {confirm}");
        }
    }
}
