//! Schedules, direct invocations and every payload of `events/`: what each is answered with, what it is about, what
//! never writes, and the actions that an installation reserves to an alias of the function.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::fleet::{Fleet, web_of};
use testbed::cloud_map::{Fault, FaultKind};
use testbed::function::{event, invoke, invoke_through};

const SCHEDULES: [&str; 2] = ["schedule-eventbridge-rule", "schedule-eventbridge-scheduler"];

#[tokio::test]
async fn command_about_a_cluster_of_that_name_in_another_region_changes_nothing() {
    let (fleet, _) = Fleet::web_in_both().await;
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
    let (fleet, _) = Fleet::web_in_both().await;
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
        let (fleet, _) = Fleet::web_in_both().await;
        let answer = invoke(&fleet.function().await, &event(schedule)).await;
        let response = answer.response.expect("all checks passed");
        assert_eq!((&response["ok"], &response["counts"]["registered"]), (&json!(true), &json!(2)));
        assert_eq!(response["clusters"], Value::Null);
    }
}

#[tokio::test]
async fn schedule_ends_as_sync_incomplete_for_a_failed_change_and_never_for_what_is_held_back() {
    let (fleet, _) = Fleet::web_in_both().await;
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
    let (fleet, _) = Fleet::web_in_both().await;
    fleet.cluster.refuse("/", 403);
    let answer = invoke(&fleet.function().await, &json!({ "action": "sync" })).await;
    let response = answer.response.expect("always a report");
    assert_eq!(response["ok"], false);
    assert!(response["clusters"][0]["error"].as_str().expect("blue's").contains("rbac.yaml"));
    let change = &response["clusters"][1]["services"][0]["lines"][0];
    assert_eq!((&change["code"], &change["outcome"]), (&json!("create"), &json!("applied")));
}

#[tokio::test]
async fn plan_says_what_a_sync_would_do_and_writes_nothing() {
    let (fleet, _) = Fleet::web_in_both().await;
    fleet.ecs_service("ecs", "10.0.9.1");
    fleet.web("ecs", "prod.local", &["10.0.1.3"]);

    let answer = invoke(&fleet.function().await, &json!({ "action": "plan" })).await;

    let report = answer.report.expect("a report");
    assert_eq!((report.counts.registered, report.counts.foreign), (3, 1), "{report}");
    assert_eq!(fleet.cloud_map.writes(), 0);
    let response = answer.response.expect("a report");
    assert_eq!(response["mode"], "plan");
    assert_eq!(response["clusters"][0]["services"][0]["lines"][0]["outcome"], "planned");
}

#[tokio::test]
async fn payload_that_is_no_command_is_refused_before_anything_is_read() {
    let (fleet, _) = Fleet::web_in_both().await;
    let answer = invoke(&fleet.function().await, &json!({ "action": "destroy" })).await;
    let error = answer.response.expect_err("refused");
    assert_eq!(error.kind(), "InvalidEvent");
    assert!(error.to_string().contains("sync, plan"), "{error}");
    assert!(fleet.sandbox.aws().requests().is_empty());
}

#[tokio::test]
async fn administrative_actions_are_accepted_only_through_the_alias() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    let function = fleet.function_with(&[("CLUSTERS", "blue"), ("ADMIN_ALIAS", "admin")]).await;
    let arn = fleet.sandbox.cluster_arn("blue");
    let command = |action: &str| json!({"action": action, "cluster": arn});

    for action in ["adopt", "confirm", "purge"] {
        for qualifier in [None, Some("live"), Some("$LATEST"), Some("Admin")] {
            let answer = invoke_through(&function, qualifier, &command(action)).await;
            let refused = answer.response.expect_err("reserved");
            assert_eq!(refused.kind(), "NotThroughAlias");
            let named = refused.to_string();
            assert!(named.contains(action) && named.contains("--qualifier admin"), "{named}");
            assert!(qualifier.is_none_or(|it| named.contains(&format!("through {it}"))), "{named}");
        }
        let answer = invoke_through(&function, Some("admin"), &command(action)).await;
        assert!(answer.response.is_ok(), "{action}: {answer:?}");
    }
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"], "confirm is a sync");
}

#[tokio::test]
async fn all_else_is_accepted_without_it_and_without_the_setting_everything_is() {
    let fleet = Fleet::start().await;
    let reserved = fleet.function_with(&[("CLUSTERS", "blue"), ("ADMIN_ALIAS", "admin")]).await;
    let command = |action: &str| json!({"action": action, "cluster": "blue"});
    for action in ["plan", "sync", "status", "doctor"] {
        let answer = invoke(&reserved, &command(action)).await;
        assert!(answer.response.is_ok(), "{action}: {answer:?}");
    }
    assert!(invoke(&reserved, &event("schedule-eventbridge-rule")).await.response.is_ok());

    let open = fleet.function().await;
    for action in ["adopt", "confirm"] {
        assert!(invoke(&open, &command(action)).await.response.is_ok(), "{action}");
    }
}

const SERVICES: [&str; 3] = ["cart", "checkout", "web"];

/// What each payload syncs, as `<cluster> <service>`.
fn expected(name: &str) -> Vec<String> {
    let all = |cluster: &str| SERVICES.map(|service| format!("{cluster} {service}")).to_vec();
    let one = |text: &str| vec![text.to_owned()];
    match name {
        "schedule-eventbridge-rule" | "schedule-eventbridge-scheduler" | "direct-sync" => {
            [all("blue"), all("green")].concat()
        }
        "direct-plan"
        | "direct-plan-cluster"
        | "direct-adopt"
        | "direct-adopt-confirmed"
        | "direct-adopt-owner"
        | "direct-doctor"
        | "direct-explain"
        | "direct-purge"
        | "direct-status" => Vec::new(),
        "direct-sync-service"
        | "sqs-sync-service"
        | "sqs-knative-reference"
        | "sqs-argo-events" => one("blue web"),
        "logs-audit" => ["blue cart", "blue web"].map(str::to_owned).to_vec(),
        "sqs-knative-resource" => one("blue cart"),
        "sqs-kubewatch" | "sqs-argo-events-data" => one("green checkout"),
        "sqs-in-eventbridge-in-sns" => one("green cart"),
        "sqs-sync-cluster" => all("green"),
        "direct-confirm"
        | "sqs-kubernetes-event-exporter"
        | "sqs-in-sns"
        | "sqs-in-eventbridge" => all("blue"),
        "sqs-mixed-batch" => {
            let blue = ["blue cart", "blue web"].map(str::to_owned);
            [blue.to_vec(), all("green")].concat()
        }
        other => panic!("events/{other}.json is not in this table"),
    }
}

fn registered(fleet: &Fleet) -> Vec<String> {
    let of = |(cluster, address): (&str, &str)| {
        let is_in = |it: &&str| fleet.addresses("prod", it).iter().any(|it| it == address);
        let found = SERVICES.into_iter().filter(is_in);
        found.map(|service| format!("{cluster} {service}")).collect::<Vec<_>>()
    };
    [("blue", "10.0.1.1"), ("green", "10.0.2.1")].map(of).concat()
}

fn names() -> BTreeSet<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/events");
    let entries = std::fs::read_dir(folder).expect("the folder events/");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.filter_map(|name| name.to_str()?.strip_suffix(".json").map(str::to_owned));
    names.collect()
}

#[tokio::test]
async fn every_payload_syncs_what_it_is_about_and_nothing_else() {
    for name in names() {
        let (fleet, green) = Fleet::with_green().await;
        for service in SERVICES {
            fleet.web(service, "prod", &["10.0.1.1"]);
            web_of(&green, service, "prod", &["10.0.2.1"]);
        }
        let answer = invoke(&fleet.function().await, &event(&name)).await;
        let response = answer.response.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(registered(&fleet), expected(&name), "{name}");
        if name.starts_with("sqs-") {
            assert_eq!(response, json!({ "batchItemFailures": [] }), "{name}");
        } else {
            assert_eq!(response["ok"], true, "{name}: {response}");
        }
    }
}
