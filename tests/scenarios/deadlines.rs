//! Near the end of the time given nothing new is begun, and what is left undone is told.

use std::time::Duration;

use cloud_map_sync::time::Deadline;
use serde_json::json;

use crate::fleet::Fleet;
use crate::queue::{batch, failures, message};
use crate::run::{converge, problem, writes};
use testbed::cloud_map::{Fault, FaultKind};
use testbed::function::invoke_until;

/// Three seconds are kept for the end, so three are left to work in.
const SIX_SECONDS: Duration = Duration::from_secs(6);

/// Every registration is answered just after nothing new may begin.
fn slow_registrations(fleet: &Fleet) {
    let late = FaultKind::Late(Duration::from_secs(3));
    fleet.cloud_map.inject(Fault::on("RegisterInstance", late).always());
}

#[tokio::test]
async fn invocation_without_time_writes_nothing_and_says_so() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    let function = fleet.function().await;
    let deadline = Deadline::after(Duration::from_secs(2));

    let answer = invoke_until(&function, &json!({ "action": "sync" }), deadline).await;

    let report = answer.report.expect("a report");
    assert!(!report.ok && problem(&report, "blue").contains("time"), "{report}");
    assert_eq!(writes(&fleet), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn nothing_new_is_begun_near_the_deadline_and_what_is_left_is_reported_and_done_next_time() {
    let fleet = Fleet::start().await;
    let addresses: Vec<String> = (0..200).map(|index| format!("10.0.1.{index}")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    fleet.web("web", "prod", &["10.0.9.1"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    fleet.web("web", "prod", &addresses);
    slow_registrations(&fleet);
    fleet.cloud_map.forget_calls();

    let deadline = Deadline::after(SIX_SECONDS);
    let payload = json!({ "action": "sync" });
    let (answer, begun) = tokio::join!(invoke_until(&function, &payload, deadline), async {
        tokio::time::sleep_until(deadline.stop).await;
        fleet.cloud_map.count("RegisterInstance")
    });

    let report = answer.report.expect("a report");
    assert_eq!(fleet.cloud_map.count("RegisterInstance"), begun, "begun after the stop");
    assert!(!report.ok && (1..200).contains(&begun), "{begun} were begun: {}", report.counts);
    // Of those that were begun nobody sees the end any more.
    assert_eq!((report.counts.undone, report.counts.registered), (201, 0), "{}", report.counts);
    assert_eq!(fleet.cloud_map.count("DeregisterInstance"), 0);
    assert!(fleet.addresses("prod", "web").contains(&"10.0.9.1".to_owned()));

    fleet.cloud_map.heal();
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web").len(), 200);
}

#[tokio::test]
async fn messages_whose_scope_ran_out_of_time_are_failed_back() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    fleet.web("cart", "prod", &["10.0.2.1"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    fleet.pods("web", &["10.0.1.2"]);
    slow_registrations(&fleet);
    let messages = batch(&[
        message("of-web", &json!({ "namespace": "shop", "service": "web" })),
        message("of-cart", &json!({ "namespace": "shop", "service": "cart" })),
    ]);

    let answer = invoke_until(&function, &messages, Deadline::after(SIX_SECONDS)).await;

    assert_eq!(failures(&answer), ["of-web"]);
}
