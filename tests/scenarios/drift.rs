//! Drift by event: what others change in Cloud Map is looked at soon after the call, in the form in which CloudTrail and
//! EventBridge report it. Such an event costs what this process knows about the service that it names, and no more.

use std::collections::BTreeMap;
use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::model::Timestamp;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::fleet::{Fleet, OTHER_ACCOUNT, OTHER_REGION, attributes};
use crate::logged::invoke_logged;
use crate::queue::{batch, failures, message};
use crate::run::{converge, counts, sync, writes};
use testbed::ACCOUNT;
use testbed::cloud_map::{RecordType, ServiceKind};
use testbed::function::{Answer, event, invoke};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

/// A world with a process.
struct Scene {
    fleet: Fleet,
    function: Function,
}

impl Scene {
    /// `web` with two pods and so many other Services with one, all in step; the process has seen that.
    async fn in_step(others: usize) -> Self {
        let fleet = Fleet::with_web("web", "prod", &["10.0.1.1", "10.0.1.2"]).await;
        for other in 0..others {
            fleet.web(&format!("other-{other}"), "prod", &[&format!("10.1.{other}.1")]);
        }
        Self::of(fleet, &[]).await
    }

    async fn of(fleet: Fleet, settings: &[(&str, &str)]) -> Self {
        let function = fleet.function_with(settings).await;
        converge(&fleet, &function).await;
        fleet.clock.advance(MINUTE);
        Self { fleet, function }
    }

    /// Another process takes the place of this one.
    async fn begin_another(&mut self) {
        self.function = self.fleet.function().await;
    }

    fn id(&self, service: &str) -> String {
        self.fleet.cloud_map.service_id("prod", service)
    }

    /// Another party deregisters an address of a service.
    fn withdraw(&self, service: &str, address: &str) {
        let instances = self.fleet.instances("prod", service).into_iter();
        let mut ids = instances.filter(|(_, it)| it["AWS_INSTANCE_IPV4"] == address);
        let (id, _) = ids.next().expect("the address is registered");
        self.fleet.cloud_map.withdraw(&self.id(service), &id);
    }

    /// The event about a call that was made now.
    fn event(&self, file: &str, service: &str) -> Value {
        change_of(file, service, self.fleet.clock.clock().now())
    }

    /// Delivers one event.
    async fn deliver(&self, event: &Value) -> Answer {
        let answer = invoke(&self.function, &batch(&[message("drift", event)])).await;
        assert_eq!(failures(&answer), [""; 0]);
        answer
    }

    /// The calls to Cloud Map since they were forgotten.
    fn calls(&self) -> BTreeMap<String, usize> {
        let calls = self.fleet.cloud_map.counts();
        self.fleet.cloud_map.forget_calls();
        calls
    }
}

/// The event in a file of `events/`, as if it were about a call at a time, about a service.
pub fn change_of(file: &str, service: &str, time: Timestamp) -> Value {
    let batch = event(file);
    let body = batch["Records"][0]["body"].as_str().expect("a body");
    let body = body.replace("srv-p5zdwlg5uvvzjita", service);
    let mut event: Value = serde_json::from_str(&body).expect("JSON");
    event["detail"]["eventTime"] = json!(time.to_string());
    event
}

fn dropped(answer: &Answer) -> Vec<String> {
    let report = answer.report.as_ref().expect("a report");
    report.dropped.iter().map(|it| format!("{} {}", it.message, it.reason)).collect()
}

/// A cold process sees by the marks that are left whose service it is; the sync reads it again.
#[tokio::test]
async fn deregistered_address_is_registered_again_and_no_other_service_is_read() {
    for (is_cold, reads) in [
        (false, vec![("ListInstances", 1)]),
        (true, vec![("GetService", 1), ("ListInstances", 2), ("ListNamespaces", 1)]),
    ] {
        let mut scene = Scene::in_step(5).await;
        if is_cold {
            scene.begin_another().await;
        }
        scene.withdraw("web", "10.0.1.2");

        scene.deliver(&scene.event("sqs-drift-instance", &scene.id("web"))).await;

        assert_eq!(scene.fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2"]);
        let calls = reads.into_iter().chain([("GetOperation", 1), ("RegisterInstance", 1)]);
        assert_eq!(scene.calls(), counts(calls), "cold: {is_cold}");
    }
}

#[tokio::test]
async fn what_a_cold_process_cannot_tell_waits_for_the_full_sync() {
    let mut scene = Scene::in_step(0).await;
    scene.begin_another().await;
    scene.withdraw("web", "10.0.1.1");
    scene.withdraw("web", "10.0.1.2");

    scene.deliver(&scene.event("sqs-drift-instance", &scene.id("web"))).await;

    let calls = [("GetService", 1), ("ListInstances", 1), ("ListNamespaces", 1)];
    assert_eq!(scene.calls(), counts(calls));
    sync(&scene.function).await;
    assert_eq!(scene.fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2"]);
}

#[tokio::test]
async fn attribute_of_another_party_costs_a_look_and_one_of_ours_is_written_again() {
    let scene = Scene::in_step(0).await;
    let id = scene.id("web");
    let (instance, own) = scene.fleet.instances("prod", "web").pop_first().expect("an instance");
    let mut changed = own.clone();
    changed.extend(attributes(&[("team", "checkout")]));
    scene.fleet.put(&id, &instance, &changed);
    scene.deliver(&scene.event("sqs-drift-instance", &id)).await;
    assert_eq!(scene.calls(), counts([("ListInstances", 1)]));

    scene.fleet.clock.advance(20 * SECOND);
    changed.extend(attributes(&[("AWS_INSTANCE_IPV4", "10.9.9.9")]));
    scene.fleet.put(&id, &instance, &changed);
    scene.deliver(&scene.event("sqs-drift-instance", &id)).await;
    assert_eq!(writes(&scene.fleet), ["RegisterInstance web"]);
    assert_eq!(scene.fleet.instances("prod", "web")[&instance]["team"], "checkout");
    assert_eq!(scene.fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2"]);
}

#[tokio::test]
async fn deleted_service_is_made_again_and_one_that_is_made_for_a_claim_is_filled() {
    let scene = Scene::in_step(0).await;
    let id = scene.id("web");
    scene.fleet.cloud_map.remove_service(&id);
    scene.deliver(&scene.event("sqs-drift-service", &id)).await;
    assert_eq!(
        writes(&scene.fleet),
        ["CreateService web", "RegisterInstance web", "RegisterInstance web"]
    );

    // The name is claimed, and the service was never there.
    scene.fleet.web("late", "prod", &["10.0.3.1"]);
    scene.fleet.cloud_map.deny("CreateService");
    sync(&scene.function).await;
    scene.fleet.cloud_map.heal();
    let made = scene.fleet.cloud_map.service(&scene.fleet.http, "late", ServiceKind::Http);
    scene.calls();
    scene.deliver(&scene.event("sqs-drift-created", &made)).await;
    assert_eq!(scene.fleet.addresses("prod", "late"), ["10.0.3.1"]);
    // Whether a service itself is changed is never decided on what is remembered of it.
    let once = ["GetOperation", "GetService", "ListServices", "ListTagsForResource"];
    let once = once.into_iter().chain(["RegisterInstance"]).map(|it| (it, 1));
    assert_eq!(scene.calls(), counts(once.chain([("ListInstances", 2)])));
}

#[tokio::test]
async fn list_of_namespaces_is_read_again_after_one_came_or_went() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    fleet.dns_service("of-another-party", &[RecordType::A]);
    let scene = Scene::of(fleet, &[]).await;
    sync(&scene.function).await;
    assert_eq!(scene.calls().get("ListNamespaces"), None, "it stands for five minutes");

    scene.deliver(&scene.event("sqs-drift-namespace", "")).await;
    assert_eq!(scene.calls(), counts([]));

    scene.fleet.clock.advance(MINUTE);
    sync(&scene.function).await;
    assert_eq!(scene.calls()["ListNamespaces"], 1);
}

#[tokio::test(start_paused = true)]
async fn settings_that_another_party_gave_a_service_are_seen() {
    let fleet = Fleet::with_web("web", "prod.local", &["10.0.1.1"]).await;
    fleet.annotate("web", "ttl", "15");
    let scene = Scene::of(fleet, &[("DNS_NAMESPACES", "true")]).await;
    let id = scene.fleet.cloud_map.service_id("prod.local", "web");
    scene.fleet.cloud_map.begin_update(&id, 600);

    sleep(MINUTE).await;
    scene.deliver(&scene.event("sqs-drift-service", &id)).await;

    assert_eq!(writes(&scene.fleet), ["UpdateService web"]);
    assert_eq!(scene.calls()["GetService"], 1);
}

#[tokio::test]
async fn late_and_doubled_events_are_seen_by_one_look() {
    let scene = Scene::in_step(0).await;
    scene.withdraw("web", "10.0.1.1");
    let first = scene.event("sqs-drift-instance", &scene.id("web"));
    scene.fleet.clock.advance(SECOND);
    scene.withdraw("web", "10.0.1.2");
    let second = scene.event("sqs-drift-instance", &scene.id("web"));
    scene.fleet.clock.advance(MINUTE);

    scene.deliver(&second).await;
    assert_eq!(scene.calls()["RegisterInstance"], 2);
    for event in [&second, &first, &first] {
        scene.fleet.clock.advance(SECOND);
        let payload = batch(&[message("drift", event)]);
        let (answer, log) = invoke_logged(&scene.function, &payload).await;
        assert_eq!(failures(&answer), [""; 0]);
        assert!(!log.iter().any(|line| line.contains("another party")), "{log:?}");
        assert_eq!(scene.calls(), counts([]));
    }
}

#[tokio::test]
async fn two_controllers_that_fight_repair_once_in_the_time_of_the_schedule() {
    let scene = Scene::in_step(0).await;
    let mut warnings = 0;
    for seconds in 0..59 {
        if scene.fleet.addresses("prod", "web").len() == 2 {
            scene.withdraw("web", "10.0.1.2");
        }
        let event = scene.event("sqs-drift-instance", &scene.id("web"));
        let payload = batch(&[message("drift", &event)]);
        let (answer, log) = invoke_logged(&scene.function, &payload).await;
        assert_eq!((failures(&answer), dropped(&answer)), (vec![], vec![]));
        warnings +=
            log.iter().filter(|line| line.contains("another party has changed web")).count();
        let expected = if seconds == 0 { vec!["RegisterInstance web"] } else { vec![] };
        assert_eq!(writes(&scene.fleet), expected, "after {seconds} s");
        scene.calls();
        scene.fleet.clock.advance(SECOND);
    }
    assert_eq!(warnings, 1);

    scene.fleet.clock.advance(SECOND);
    scene.deliver(&scene.event("sqs-drift-instance", &scene.id("web"))).await;
    assert_eq!(writes(&scene.fleet), ["RegisterInstance web"]);
}

#[tokio::test]
async fn ten_thousand_ids_cost_twenty_reads() {
    for is_cold in [false, true] {
        let mut scene = Scene::in_step(0).await;
        if is_cold {
            scene.begin_another().await;
        }
        let records: Vec<Value> = (0..10_000)
            .map(|id| {
                let event = scene.event("sqs-drift-instance", &format!("srv-forged{id}"));
                message(&id.to_string(), &event)
            })
            .collect();

        let answer = invoke(&scene.function, &batch(&records)).await;

        assert_eq!((failures(&answer), dropped(&answer)), (vec![], vec![]));
        assert_eq!(scene.calls(), counts([("GetService", 20)]));
        assert_eq!(writes(&scene.fleet), [""; 0]);
    }
}

#[tokio::test]
async fn what_is_of_no_cluster_costs_nothing() {
    let scene = Scene::in_step(0).await;
    let ecs = scene.fleet.ecs_service("legacy", "10.7.1.1");
    sync(&scene.function).await;
    scene.calls();

    for file in ["sqs-drift-instance", "sqs-drift-tags"] {
        scene.deliver(&scene.event(file, &ecs)).await;
        assert_eq!(scene.calls(), counts([]), "{file}");
    }
}

#[tokio::test]
async fn forged_and_foreign_events_are_dropped_and_counted_and_nothing_is_asked() {
    let scene = Scene::in_step(0).await;
    let good = scene.event("sqs-drift-instance", &scene.id("web"));
    let with = |pointer: &str, value: Value| {
        let mut event = good.clone();
        *event.pointer_mut(pointer).expect("a field of it") = value;
        event
    };
    let elsewhere =
        format!("arn:aws:servicediscovery:eu-central-1:{OTHER_ACCOUNT}:service/srv-elsewhere");
    let mut failed = good.clone();
    failed["detail"]["errorCode"] = json!("AccessDenied");
    let mut foreign = with("/account", json!(OTHER_ACCOUNT));
    foreign["detail"]["requestParameters"]["serviceId"] = json!("srv-elsewhere");
    let service = "/detail/requestParameters/serviceId";
    let events = [
        ("no call", "unknown_call", with("/detail/eventName", json!("DiscoverInstances"))),
        ("no id", "unknown_call", with(service, json!("https://evil.example/"))),
        ("no time", "unknown_call", with("/detail/eventTime", json!("now"))),
        ("failed", "unknown_call", failed),
        ("recorder", "unknown_call", with("/detail/eventSource", json!("ecs.amazonaws.com"))),
        ("account", "unknown_registry", foreign),
        ("owner", "unknown_registry", with(service, json!(elsewhere))),
        ("Region", "unknown_registry", with("/region", json!(OTHER_REGION))),
    ];
    let records: Vec<Value> = events.iter().map(|(id, _, it)| message(id, it)).collect();
    let before = scene.fleet.sandbox.aws().requests().len();

    let answer = invoke(&scene.function, &batch(&records)).await;

    assert_eq!(failures(&answer), [""; 0]);
    assert_eq!(dropped(&answer), events.map(|(id, reason, _)| format!("{id} {reason}")));
    assert_eq!(scene.fleet.sandbox.aws().requests().len(), before);
}

#[tokio::test]
async fn repair_that_fails_returns_its_event_and_is_made_then() {
    let scene = Scene::in_step(0).await;
    scene.withdraw("web", "10.0.1.1");
    let id = scene.id("web");
    scene.fleet.cloud_map.deny_in(&id, "RegisterInstance");
    let drift = scene.event("sqs-drift-instance", &id);
    let answer = invoke(&scene.function, &batch(&[message("drift", &drift)])).await;
    assert_eq!(failures(&answer), ["drift"], "it returns, and was no repair");
    scene.fleet.cloud_map.heal();
    scene.deliver(&drift).await;
    assert_eq!(scene.fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2"]);
}

#[tokio::test]
async fn event_of_the_account_and_region_of_a_registry_is_looked_up_there_with_its_role() {
    let fleet = Fleet::start().await;
    let role = "arn:aws:iam::444455556666:role/registry-writer";
    fleet.sandbox.role(role, None);
    let arn = fleet.sandbox.cluster_arn("blue");
    let far = fleet.registry(OTHER_REGION, OTHER_ACCOUNT, &arn);
    fleet.web("web", "prod", &["10.0.1.1", "10.0.1.2"]);
    let clusters =
        json!([{ "cluster": "blue", "registryRoleArn": role, "registryRegion": OTHER_REGION }]);
    let scene = Scene::of(fleet, &[("CLUSTERS", &clusters.to_string())]).await;
    let id = far.service_id("prod", "web");
    let instance = far.instances(&id).into_keys().next().expect("an instance");
    far.withdraw(&id, &instance);
    let mut event = scene.event("sqs-drift-instance", &id);

    event["region"] = json!(OTHER_REGION);
    event["account"] = json!(OTHER_ACCOUNT);
    scene.deliver(&event).await;

    assert_eq!(far.instances(&id).len(), 2);
    event["detail"]["requestParameters"]["serviceId"] = json!("srv-unknown");
    event["account"] = json!(ACCOUNT);
    assert_eq!(dropped(&scene.deliver(&event).await), ["drift unknown_registry"]);
}
