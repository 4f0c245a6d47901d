//! Calls and operations that fail, and what that means for the change and for no other: what Cloud Map refuses for now
//! fails the run, what it refuses for good is held back, and is not tried again in each minute by a process that
//! remembers it.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::model::{Outcome, Verb};
use cloud_map_sync::report::Report;
use serde_json::Value;

use crate::fleet::{Fleet, ips, refs};
use crate::queue::{self, batch_about, failed_messages, failures};
use crate::run::{converge, documents, held_back, said_of, settled, sync, synced};
use testbed::cloud_map::{Fault, FaultKind, RecordType, ServiceKind};
use testbed::function::{event, invoke};
use testbed::kubernetes::Pod;

const INVALID: FaultKind = FaultKind::Error(400, "InvalidInput", "The attribute is not valid");

/// What the metrics of the only cluster say.
fn metric(report: &Report, name: &str) -> Value {
    documents(report).first().expect("the cluster's document")[name].clone()
}

#[tokio::test]
async fn refused_dns_change_of_a_removal_is_a_failed_change_and_is_tried_again() {
    let (fleet, function) = Fleet::in_step("web", "prod.local", &["10.0.1.1", "10.0.1.2"]).await;
    fleet.pods("web", &["10.0.1.1"]);
    let refused = FaultKind::OperationFails("INVALID_CHANGE_BATCH");
    fleet.cloud_map.inject(Fault::on("DeregisterInstance", refused));

    let report = sync(&function).await;

    assert!(!report.ok && held_back(&report).is_empty(), "{report}");
    let change = report.clusters[0].services[0].changes().next().expect("a change");
    let Outcome::Failed { error } = &change.outcome else { panic!("{report}") };
    assert_eq!(change.verb(), Some(Verb::Deregister), "{report}");
    assert!(error.contains("INVALID_CHANGE_BATCH"), "{report}");
    assert_eq!(metric(&report, "Leftover"), 1);
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn refused_dns_change_of_a_registration_says_what_cloud_map_said() {
    let fleet = Fleet::with_web("web", "prod.local", &["10.0.1.1"]).await;
    let refused = FaultKind::OperationFails("INVALID_CHANGE_BATCH");
    fleet.cloud_map.inject(Fault::on("RegisterInstance", refused));
    let report = sync(&fleet.function().await).await;
    let said = said_of(&report, "AddressTaken");
    assert!(report.ok && said.contains("The operation failed"), "{said}");
}

#[tokio::test]
async fn what_is_invalid_is_held_back_in_cloud_maps_words_and_its_endpoints_are_missing() {
    for (operation, lines) in [("RegisterInstance", 2), ("CreateService", 1)] {
        let fleet = Fleet::with_web("web", "prod", &["10.0.1.1", "10.0.1.2"]).await;
        fleet.web("cart", "prod", &["10.0.2.1"]);
        let service = match operation {
            "CreateService" => "web".to_owned(),
            _ => fleet.cloud_map.ensure_service("prod", "web"),
        };
        fleet.cloud_map.inject(Fault::on(operation, INVALID).service(&service).always());

        let report = sync(&fleet.function().await).await;

        assert!(report.ok && report.counts.failed == 0, "{operation}: {report}");
        assert_eq!(held_back(&report), vec!["InvalidInput"; lines], "{operation}: {report}");
        let said = said_of(&report, "InvalidInput");
        assert!(said.contains("The attribute is not valid"), "{operation}: {said}");
        assert_eq!(metric(&report, "Missing"), 2, "{operation}");
        assert_eq!(fleet.addresses("prod", "cart"), ["10.0.2.1"], "{operation}");
        assert_eq!(failed_messages(&fleet.function().await, "web").await, [""; 0], "{operation}");
    }
}

#[tokio::test]
async fn any_other_call_that_is_invalid_is_a_failed_change() {
    let (fleet, function) = Fleet::in_step("web", "prod.local", &["10.0.1.1", "10.0.1.2"]).await;
    fleet.pods("web", &["10.0.1.1"]);
    fleet.annotate("web", "ttl", "15");
    for operation in ["DeregisterInstance", "UpdateService"] {
        fleet.cloud_map.inject(Fault::on(operation, INVALID));
    }

    let report = sync(&function).await;

    assert!(!report.ok && held_back(&report).is_empty(), "{report}");
    assert_eq!(report.counts.failed, 2, "{report}");
    converge(&fleet, &function).await;
}

#[tokio::test]
async fn operation_that_fails_later_is_a_failed_change_and_stops_no_other() {
    let fleet = queue::fleet().await;
    let function = fleet.function().await;
    let web = fleet.cloud_map.ensure_service("prod", "web");
    let fails = FaultKind::OperationFails("INTERNAL_FAILURE");
    fleet.cloud_map.inject(Fault::on("RegisterInstance", fails).service(&web));

    let report = sync(&function).await;

    assert!(!report.ok, "{report}");
    assert_eq!((report.counts.failed, report.counts.registered), (1, 1), "{report}");
    let services = &report.clusters[0].services;
    let web = services.iter().find(|service| service.name == "web").expect("reported");
    let Outcome::Failed { error } = &web.lines[0].outcome else { panic!("{report}") };
    assert!(error.contains("INTERNAL_FAILURE"), "{error}");
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn instance_that_is_gone_already_counts_as_taken_out() {
    let (fleet, function) = Fleet::in_step("web", "prod", &["10.0.1.1"]).await;
    fleet.pods("web", &[]);
    let gone = FaultKind::Error(400, "InstanceNotFound", "The instance does not exist");
    fleet.cloud_map.inject(Fault::on("DeregisterInstance", gone));

    let report = synced(&function).await;
    assert_eq!((report.counts.deregistered, report.counts.failed), (1, 0), "{report}");
}

/// Somebody else creates the service between our list and our call.
#[tokio::test]
async fn lost_race_to_create_a_service_is_decided_again_on_what_is_there() {
    let fleet = queue::fleet().await;
    let function = fleet.function().await;
    let late = FaultKind::Late(Duration::from_millis(200));
    fleet.cloud_map.inject(Fault::on("ListServices", late));

    tokio::join!(synced(&function), async {
        fleet.called("ListServices").await;
        let web = fleet.cloud_map.service(&fleet.http, "web", ServiceKind::Http);
        fleet.ecs_task(&web, "0123456789abcdef0123456789abcdef", "10.0.9.1");
    });

    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.9.1"]);
    assert_eq!(fleet.addresses("prod", "cart"), ["10.0.2.1"]);
    settled(&fleet, &function).await;
}

const ADDRESS_TAKEN: FaultKind = FaultKind::OperationFails("INVALID_CHANGE_BATCH");
const LIMIT: FaultKind = FaultKind::Error(400, "ResourceLimitExceeded", "No more instances");

/// A world, and a process of the function that the schedule calls each minute.
struct Scene {
    fleet: Fleet,
    function: Function,
}

impl Scene {
    /// `web` in an A service of `prod.local` that another party made.
    async fn set() -> Self {
        let fleet = Fleet::start().await;
        fleet.dns_service("web", &[RecordType::A]);
        let function = fleet.function().await;
        Self { fleet, function }
    }

    /// All registrations in `web` of `prod.local` end so from now on.
    fn refuse(&self, kind: &FaultKind) {
        let web = self.fleet.cloud_map.service_id("prod.local", "web");
        let fault = Fault::on("RegisterInstance", kind.clone());
        self.fleet.cloud_map.inject(fault.service(&web).always());
    }

    async fn minutes_later(&self, minutes: u64) -> (Report, usize) {
        self.fleet.clock.advance(Duration::from_mins(minutes));
        self.fleet.cloud_map.forget_calls();
        let report = invoke(&self.function, &event("schedule-eventbridge-scheduler")).await.report;
        (report.expect("a report"), self.tries())
    }

    /// Runs each minute up to the 21st. Each says what `first` said, and these minutes have so many tries, the others none.
    async fn tries_each_minute(&self, first: &Report, expected: &[(u64, usize)]) {
        let mut tried = Vec::new();
        for minute in 1..=21 {
            let (report, tries) = self.minutes_later(1).await;
            assert_eq!(report.to_string(), first.to_string(), "in minute {minute}");
            if tries > 0 {
                tried.push((minute, tries));
            }
        }
        assert_eq!(tried, expected, "{first}");
    }

    fn tries(&self) -> usize {
        self.fleet.cloud_map.count("RegisterInstance")
    }
}

#[tokio::test]
async fn refused_registrations_are_sent_again_after_ten_minutes() {
    let addresses = ips("10.0.1", 1..=100);
    for (kind, reason) in [(ADDRESS_TAKEN, "AddressTaken"), (INVALID, "InvalidInput")] {
        let scene = Scene::set().await;
        scene.fleet.web("web", "prod.local", &refs(&addresses));
        scene.refuse(&kind);
        let (first, tries) = scene.minutes_later(0).await;
        assert_eq!((first.ok, tries), (true, 100), "{first}");
        assert_eq!(held_back(&first), vec![reason; 100], "{first}");
        scene.tries_each_minute(&first, &[(10, 100), (20, 100)]).await;
    }
}

/// One call shows that a namespace takes no more.
#[tokio::test]
async fn endpoint_without_a_place_is_tried_again_after_ten_minutes() {
    let scene = Scene::set().await;
    scene.fleet.web("web", "prod.local", &["10.0.1.1"]);
    scene.refuse(&LIMIT);
    let (first, _) = scene.minutes_later(0).await;
    assert_eq!((first.ok, held_back(&first)), (true, vec!["LimitExceeded"]), "{first}");
    scene.tries_each_minute(&first, &[(10, 1), (20, 1)]).await;
}

#[tokio::test]
async fn request_that_differs_is_sent_at_once_and_no_other() {
    type Change = fn(&Fleet);
    let changes: [(&str, Change, usize); 6] = [
        ("nothing", |_| (), 0),
        ("another Service", |fleet| fleet.web("cart", "prod", &[]), 0),
        ("an annotation", |fleet| fleet.annotate("web", "attributes", "team=shop"), 2),
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
                let web = fleet.cloud_map.service_id("prod.local", "web");
                fleet.ecs_task(&web, "0123456789abcdef0123456789abcdef", "10.0.9.1");
            },
            0,
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
async fn creation_that_was_refused_is_tried_at_once_if_it_differs() {
    let scene = Scene::set().await;
    scene.fleet.web("cart", "prod.local", &["10.0.1.1"]);
    scene.fleet.cloud_map.inject(Fault::on("CreateService", LIMIT).always());
    let mut creations = Vec::new();
    for (minutes, is_changed) in [(0, false), (1, false), (0, true)] {
        if is_changed {
            scene.fleet.annotate("cart", "ttl", "17");
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
    scene.minutes_later(10).await;
    assert_eq!(scene.fleet.addresses("prod.local", "web"), ["10.0.1.2"]);
}

#[tokio::test]
async fn new_pod_among_refused_ones_costs_one_call_in_a_message_too() {
    let scene = Scene::set().await;
    let addresses = ips("10.0.1", 1..=30);
    let addresses = refs(&addresses);
    scene.fleet.web("web", "prod.local", &addresses[..29]);
    scene.refuse(&INVALID);
    assert_eq!(scene.minutes_later(0).await.1, 29);
    scene.fleet.cloud_map.heal();
    scene.fleet.pods("web", &addresses);
    scene.fleet.clock.advance(Duration::from_mins(1));
    scene.fleet.cloud_map.forget_calls();

    let answer = invoke(&scene.function, &batch_about("blue", "web")).await;

    assert_eq!(failures(&answer), [""; 0]);
    assert_eq!(scene.fleet.addresses("prod.local", "web"), ["10.0.1.30"]);
    let lists = scene.fleet.cloud_map.count("ListServices");
    assert_eq!((scene.tries(), lists), (1, 0));
}

/// A namespace takes no more, which one call of a run shows for all endpoints that are tried.
#[tokio::test]
async fn full_namespace_is_asked_for_a_new_endpoint_alone() {
    let scene = Scene::set().await;
    scene.fleet.cloud_map.adjust(|it| it.instances_per_namespace = 1);
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
