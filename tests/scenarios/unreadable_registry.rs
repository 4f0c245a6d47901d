//! Cloud Map, or a part of it, that cannot be read: what is not known is not changed.

use cloud_map_sync::function::Function;

use crate::fleet::Fleet;
use crate::run::{converge, held_back, problem, said_of, sync};
use std::time::Duration;
use testbed::cloud_map::{Fault, FaultKind};
use testbed::function::invoke_until;

use cloud_map_sync::time::Deadline;
use serde_json::json;

/// `web` and `cart` registered; each has one pod in place of another.
async fn changed_world() -> (Fleet, Function) {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    fleet.web("cart", "prod.local", &["10.0.2.1"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    fleet.pods("web", &["10.0.1.2"]);
    fleet.pods("cart", &["10.0.2.2"]);
    fleet.cloud_map.forget_calls();
    (fleet, function)
}

#[tokio::test]
async fn throttling_that_does_not_end_is_given_up_in_time_and_takes_nothing_out() {
    let (fleet, function) = changed_world().await;
    fleet.cloud_map.inject(Fault::on("ListServices", FaultKind::Throttling).always());

    let deadline = Deadline::after(Duration::from_secs(4));
    let answer = invoke_until(&function, &json!({ "action": "sync" }), deadline).await;

    let report = answer.report.expect("a report");
    assert!(!report.ok && !problem(&report, "blue").is_empty(), "{report}");
    assert_eq!(fleet.cloud_map.count("DeregisterInstance"), 0);
    assert!(deadline.stop + Duration::from_secs(2) > tokio::time::Instant::now());
}

#[tokio::test]
async fn service_whose_instances_cannot_be_read_is_left_alone_and_the_others_are_served() {
    for kind in [FaultKind::AccessDenied, FaultKind::Error(400, "InvalidInput", "no")] {
        let (fleet, function) = changed_world().await;
        let web = fleet.cloud_map.find_service("prod", "web").expect("created");
        fleet.cloud_map.inject(Fault::on("ListInstances", kind.clone()).service(&web).always());

        let report = sync(&function).await;

        assert!(!report.ok, "{report}");
        assert_eq!(held_back(&report), ["Unreadable"], "{report}");
        assert!(said_of(&report, "Unreadable").contains("web"), "{report}");
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"], "{kind:?}");
        assert_eq!(fleet.addresses("prod.local", "cart"), ["10.0.2.2"], "{kind:?}");
        fleet.cloud_map.heal();
        converge(&fleet, &function).await;
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.2"]);
    }
}

#[tokio::test]
async fn list_that_fails_at_the_second_look_takes_nothing_out() {
    let (fleet, function) = changed_world().await;
    let web = fleet.cloud_map.find_service("prod", "web").expect("created");
    let denied = Fault::on("ListInstances", FaultKind::AccessDenied).service(&web);
    fleet.cloud_map.inject(denied.after(1).always());

    let report = sync(&function).await;

    assert!(!report.ok, "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2"], "{report}");
    assert_eq!(fleet.addresses("prod.local", "cart"), ["10.0.2.2"], "{report}");
}
