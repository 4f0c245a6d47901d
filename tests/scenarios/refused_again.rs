//! A registration that Cloud Map has refused for good is not tried again in each minute by a process that remembers the
//! refusal. In a run without the call all else is as if it had been refused again.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::report::Report;
use serde_json::json;

use crate::fleet::Fleet;
use crate::queue::{batch, failures, message};
use crate::run::{held_back, sync};
use testbed::clock::StandInClock;
use testbed::cloud_map::{Behaviour, Fault, FaultKind, RecordType, ServiceKind};
use testbed::function::{event, invoke};
use testbed::kubernetes::Pod;

const ADDRESS_TAKEN: FaultKind = FaultKind::OperationFails("INVALID_CHANGE_BATCH");
const INVALID: FaultKind = FaultKind::Error(400, "InvalidInput", "The attribute is not valid");
const LIMIT: FaultKind = FaultKind::Error(400, "ResourceLimitExceeded", "No more instances");

/// A world, and a process of the function that the schedule calls each minute.
struct Scene {
    fleet: Fleet,
    clock: StandInClock,
    function: Function,
}

impl Scene {
    /// `web` in an A service of `prod.local` that another party made.
    async fn set() -> Self {
        let fleet = Fleet::start().await;
        fleet.dns_service("web", &[RecordType::A]);
        let clock = StandInClock::new();
        let function = fleet.function().await.with_clock(clock.clock());
        Self { fleet, clock, function }
    }

    /// All registrations in `web` of `prod.local` end so from now on.
    fn refuse(&self, kind: &FaultKind) {
        let web = self.fleet.cloud_map.find_service("prod.local", "web").expect("the service");
        let fault = Fault::on("RegisterInstance", kind.clone());
        self.fleet.cloud_map.inject(fault.service(&web).always());
    }

    async fn minutes_later(&self, minutes: u64) -> (Report, usize) {
        self.clock.advance(Duration::from_mins(minutes));
        self.fleet.cloud_map.forget_calls();
        let report = invoke(&self.function, &event("schedule-eventbridge-scheduler")).await.report;
        (report.expect("a report"), self.tries())
    }

    fn tries(&self) -> usize {
        self.fleet.cloud_map.count("RegisterInstance")
    }
}

#[tokio::test]
async fn refused_endpoint_is_tried_again_after_two_four_eight_minutes_and_each_hour() {
    for (kind, reason) in
        [(ADDRESS_TAKEN, "AddressTaken"), (INVALID, "InvalidInput"), (LIMIT, "LimitExceeded")]
    {
        let scene = Scene::set().await;
        scene.fleet.web("web", "prod.local", &["10.0.1.1"]);
        scene.refuse(&kind);
        let (first, _) = scene.minutes_later(0).await;
        assert_eq!((first.ok, held_back(&first)), (true, vec![reason]), "{first}");

        let (mut tried, mut before) = (Vec::new(), 0);
        for minute in (1..=15).chain([29, 30, 61, 62, 121, 122, 181, 182]) {
            let (report, tries) = scene.minutes_later(minute - before).await;
            before = minute;
            assert_eq!(report.to_string(), first.to_string(), "in minute {minute}");
            if tries > 0 {
                assert_eq!(tries, 1);
                tried.push(minute);
            }
        }
        assert_eq!(tried, [2, 6, 14, 30, 62, 122, 182], "{reason}");
    }
}

#[tokio::test]
async fn what_may_have_ended_the_refusal_has_it_tried_at_once() {
    type Change = fn(&Fleet);
    let changes: [(&str, Change, usize); 6] = [
        ("nothing", |_| (), 0),
        ("another Service", |fleet| fleet.web("cart", "prod", &[]), 0),
        ("an annotation", |fleet| fleet.annotate("web", "ttl", "30"), 2),
        (
            "an endpoint",
            |fleet| {
                let zone = |name, address| Pod::new(name, address).zone("eu-central-1c");
                let pods = [zone("web-10-0-1-1", "10.0.1.1"), Pod::new("web-10-0-1-2", "10.0.1.2")];
                fleet.cluster.pods("shop", "web", &pods);
            },
            1,
        ),
        ("another endpoint", |fleet| fleet.pods("web", &["10.0.1.1", "10.0.1.2", "10.0.1.3"]), 1),
        (
            "an instance",
            |fleet| {
                let web = fleet.cloud_map.find_service("prod.local", "web").expect("the service");
                fleet.ecs_task(&web, "0123456789abcdef0123456789abcdef", "10.0.9.1");
            },
            2,
        ),
    ];
    for (what, change, expected) in changes {
        let scene = Scene::set().await;
        scene.fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]);
        scene.refuse(&INVALID);
        assert_eq!(scene.minutes_later(0).await.1, 2);
        change(&scene.fleet);
        let (report, tries) = scene.minutes_later(1).await;
        assert_eq!((report.ok, tries), (true, expected), "{what}: {report}");
    }
}

#[tokio::test]
async fn creation_that_was_refused_is_tried_at_once_after_a_change_of_its_service() {
    let scene = Scene::set().await;
    scene.fleet.web("cart", "prod", &["10.0.1.1"]);
    scene.fleet.cloud_map.inject(Fault::on("CreateService", LIMIT).always());
    let mut creations = Vec::new();
    for (minutes, is_changed) in [(0, false), (1, false), (0, true)] {
        if is_changed {
            scene.fleet.annotate("cart", "attributes", "team=shop");
        }
        let (report, _) = scene.minutes_later(minutes).await;
        assert_eq!((report.ok, held_back(&report)), (true, vec!["LimitExceeded"]), "{report}");
        creations.push(scene.fleet.cloud_map.count("CreateService"));
    }
    assert_eq!(creations, [1, 0, 1]);
}

#[tokio::test]
async fn person_and_another_process_try_at_once() {
    let scene = Scene::set().await;
    scene.fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]);
    scene.refuse(&INVALID);
    scene.minutes_later(0).await;
    assert_eq!(scene.minutes_later(1).await.1, 0);
    for function in [&scene.function, &scene.fleet.function().await] {
        scene.fleet.cloud_map.forget_calls();
        sync(function).await;
        assert_eq!(scene.tries(), 2);
    }
}

#[tokio::test]
async fn last_instance_waits_for_a_registration_that_is_not_tried_as_for_a_refused_one() {
    let scene = Scene::set().await;
    scene.fleet.web("web", "prod.local", &["10.0.1.1"]);
    scene.minutes_later(0).await;
    scene.refuse(&ADDRESS_TAKEN);
    scene.fleet.pods("web", &["10.0.1.2"]);
    for expected in [1, 0] {
        let (report, tries) = scene.minutes_later(1).await;
        assert_eq!((report.ok, tries), (true, expected), "{report}");
        assert_eq!(held_back(&report), ["AddressTaken", "Waiting"], "{report}");
        assert_eq!(scene.fleet.addresses("prod.local", "web"), ["10.0.1.1"]);
    }
    scene.fleet.cloud_map.heal();
    scene.minutes_later(1).await;
    assert_eq!(scene.fleet.addresses("prod.local", "web"), ["10.0.1.2"]);
}

#[tokio::test]
async fn new_pod_among_refused_ones_costs_one_call_in_a_message_too() {
    let scene = Scene::set().await;
    let addresses: Vec<String> = (1..=30).map(|pod| format!("10.0.1.{pod}")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    scene.fleet.web("web", "prod.local", &addresses[..29]);
    scene.refuse(&INVALID);
    assert_eq!(scene.minutes_later(0).await.1, 29);
    scene.fleet.cloud_map.heal();
    scene.fleet.pods("web", &addresses);
    scene.clock.advance(Duration::from_mins(1));
    scene.fleet.cloud_map.forget_calls();

    let body = json!({ "cluster": "blue", "namespace": "shop", "service": "web" });
    let answer = invoke(&scene.function, &batch(&[message("web", &body)])).await;

    assert_eq!(failures(&answer), [""; 0]);
    assert_eq!(scene.fleet.addresses("prod.local", "web"), ["10.0.1.30"]);
    let lists = scene.fleet.cloud_map.count("ListServices");
    assert_eq!((scene.tries(), lists), (1, 0));
}

/// A namespace takes no more, which one call of a run shows for all endpoints that are tried.
#[tokio::test]
async fn full_namespace_is_asked_for_a_new_endpoint_alone() {
    let scene = Scene::set().await;
    let behaviour = Behaviour { instances_per_namespace: 1, ..Behaviour::default() };
    scene.fleet.cloud_map.behave(behaviour);
    let legacy = scene.fleet.cloud_map.service(&scene.fleet.http, "legacy", ServiceKind::Http);
    scene.fleet.ecs_task(&legacy, "0123456789abcdef0123456789abcdef", "10.0.9.1");
    for service in ["web", "cart", "mail"] {
        scene.fleet.web(service, "prod", &["10.0.1.1", "10.0.1.2"]);
    }
    let (before, _) = scene.minutes_later(0).await;
    assert_eq!(held_back(&before), ["LimitExceeded"; 3], "{before}");
    assert_eq!(scene.minutes_later(1).await.1, 0);
    scene.fleet.web("new", "prod", &["10.0.1.9"]);

    let (report, tries) = scene.minutes_later(0).await;

    assert_eq!((report.ok, tries), (true, 1), "{report}");
    assert_eq!(held_back(&report), ["LimitExceeded"; 4], "{report}");
}
