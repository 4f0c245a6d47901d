//! Schedules and direct invocations: what each is answered with, and what never writes.

use serde_json::{Value, json};

use crate::fleet::{Fleet, web_of};
use crate::run::plan;
use testbed::cloud_map::{Fault, FaultKind};
use testbed::function::{event, invoke};
use testbed::kubernetes::{Fault as ClusterFault, FaultKind as ClusterFaultKind};

const SCHEDULES: [&str; 2] = ["schedule-eventbridge-rule", "schedule-eventbridge-scheduler"];

/// `web` in blue and in green, nothing registered.
async fn two_clusters() -> Fleet {
    let fleet = Fleet::start().await;
    let green = fleet.green().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    web_of(&green, "web", "prod", &["10.0.2.1"]);
    fleet
}

#[tokio::test]
async fn command_about_a_cluster_of_that_name_in_another_region_changes_nothing() {
    let fleet = two_clusters().await;
    let function = fleet.function().await;
    let command = |action: &str, region: &str| {
        let mut command = json!({"action": action, "cluster": "blue", "region": region});
        if ["adopt", "purge"].contains(&action) {
            command["confirm"] = true.into();
        }
        command
    };
    invoke(&function, &command("sync", "eu-central-1")).await.response.expect("its Region");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
    fleet.cloud_map.forget_calls();
    fleet.pods("web", &["10.0.1.2"]);
    for action in ["sync", "adopt", "confirm", "purge"] {
        let answer = invoke(&function, &command(action, "eu-west-1")).await;
        let error = answer.response.expect_err(action);
        assert_eq!(error.kind(), "UnknownCluster", "{action}");
        let said = error.to_string();
        assert!(said.contains("the cluster blue in eu-west-1"), "{action}: {said}");
        assert!(said.contains("is in eu-central-1: nothing was changed"), "{action}: {said}");
    }
    assert_eq!(fleet.cloud_map.writes(), 0);
    invoke(&function, &command("purge", "eu-central-1")).await.response.expect("its Region");
    assert!(fleet.addresses("prod", "web").is_empty());
}

/// `kubectl cloudmap diff` compares two plans only if they are of one scope.
#[tokio::test]
async fn report_of_a_direct_invocation_has_its_scope() {
    let fleet = two_clusters().await;
    let function = fleet.function().await;
    for (payload, scope) in [
        (json!({"action": "plan"}), "every cluster"),
        (json!({"action": "plan", "cluster": "blue"}), "blue"),
        (json!({"action": "plan", "cluster": "blue", "namespace": "shop"}), "blue/shop"),
        (
            json!({"action": "plan", "cluster": "blue", "namespace": "shop", "service": "web"}),
            "blue/shop/web",
        ),
    ] {
        let report = invoke(&function, &payload).await.response.expect("a plan");
        assert_eq!(report["scope"], scope);
    }
}

#[tokio::test]
async fn schedule_is_answered_with_counts() {
    for schedule in SCHEDULES {
        let fleet = two_clusters().await;
        let answer = invoke(&fleet.function().await, &event(schedule)).await;
        let response = answer.response.expect("all checks passed");
        assert_eq!((&response["ok"], &response["counts"]["registered"]), (&json!(true), &json!(2)));
        assert_eq!(response["clusters"], Value::Null);
    }
}

#[tokio::test]
async fn schedule_ends_as_sync_incomplete_for_a_failed_change_and_never_for_what_is_held_back() {
    let fleet = two_clusters().await;
    fleet.web("cart", "typo", &["10.0.1.2"]);
    let function = fleet.function().await;
    fleet.cloud_map.inject(Fault::on("RegisterInstance", FaultKind::AccessDenied));
    let answer = invoke(&function, &event(SCHEDULES[0])).await;
    assert_eq!(answer.response.expect_err("a change failed").kind(), "SyncIncomplete");

    let answer = invoke(&function, &event(SCHEDULES[0])).await;
    assert_eq!(answer.response.expect("cart is held back alone")["counts"]["heldBack"], 1);
}

#[tokio::test]
async fn direct_invocation_is_answered_with_the_whole_report_even_where_it_is_incomplete() {
    let fleet = two_clusters().await;
    fleet.cluster.fail(ClusterFault::always("/", ClusterFaultKind::Status(403)));
    let answer = invoke(&fleet.function().await, &json!({ "action": "sync" })).await;
    let response = answer.response.expect("always a report");
    assert_eq!(response["ok"], false);
    assert!(response["clusters"][0]["error"].as_str().expect("blue's").contains("rbac.yaml"));
    let change = &response["clusters"][1]["services"][0]["changes"][0];
    assert_eq!((&change["change"], &change["result"]), (&json!("create"), &json!("applied")));
}

#[tokio::test]
async fn plan_says_what_a_sync_would_do_and_writes_nothing() {
    let fleet = two_clusters().await;
    fleet.ecs_service("ecs", "10.0.9.1");
    fleet.web("ecs", "prod.local", &["10.0.1.3"]);
    let function = fleet.function().await;

    let report = plan(&function).await;

    assert_eq!((report.counts.registered, report.counts.foreign), (3, 1), "{report}");
    assert_eq!(fleet.cloud_map.writes(), 0);
    let answer = invoke(&function, &json!({ "action": "plan" })).await;
    let response = answer.response.expect("a report");
    assert_eq!(response["mode"], "plan");
    assert_eq!(response["clusters"][0]["services"][0]["changes"][0]["result"], "planned");
}

#[tokio::test]
async fn payload_that_is_no_command_is_refused_before_anything_is_read() {
    let fleet = two_clusters().await;
    let answer = invoke(&fleet.function().await, &json!({ "action": "destroy" })).await;
    let error = answer.response.expect_err("refused");
    assert_eq!(error.kind(), "InvalidEvent");
    assert!(error.to_string().contains("sync, plan"), "{error}");
    assert!(fleet.sandbox.aws().requests().is_empty());
}
