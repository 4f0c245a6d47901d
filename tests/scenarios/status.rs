//! The action `status`: who has instances in each Cloud Map service, told without a write.

use serde_json::{Value, json};

use crate::fleet::{Fleet, annotated, attributes, give_pods};
use crate::run::sync;
use testbed::ROLE_ARN;
use testbed::cloud_map::{Fault, FaultKind};
use testbed::function::invoke;

/// `web` of blue and of green beside a task of ECS and an instance by hand.
async fn shared_name() -> Fleet {
    let fleet = Fleet::start().await;
    let green = fleet.green().await;
    let service = fleet.ecs_service("web", "10.0.9.1");
    fleet.put(&service, "by-hand", &attributes(&[("AWS_INSTANCE_IPV4", "10.0.8.1")]));
    fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]);
    green.service(annotated("web", "prod.local", "web"));
    give_pods(&green, "web", &["10.0.2.1"]);
    sync(&fleet.function().await).await;
    fleet.cloud_map.forget_calls();
    fleet
}

async fn status(fleet: &Fleet, command: Value) -> Value {
    let answer = invoke(&fleet.function().await, &command).await;
    answer.response.expect("a status")
}

#[tokio::test]
async fn status_tells_everybody_apart_and_writes_nothing() {
    let fleet = shared_name().await;
    let [blue, green] = ["blue", "green"].map(|name| fleet.sandbox.cluster_arn(name));

    let status = status(&fleet, json!({"action": "status", "cluster": "blue"})).await;

    assert_eq!((&status["ok"], &status["clusters"]), (&json!(true), &json!([blue])), "{status}");
    let services = status["registries"][0]["services"].as_array().expect("services");
    let [web] = services.as_slice() else { panic!("{status}") };
    assert_eq!((&web["namespace"], &web["name"]), (&json!("prod.local"), &json!("web")));
    let owner = "cloud-map-sync";
    let shares = json!([
        {"by": "cluster", "name": blue, "owner": owner, "count": 2},
        {"by": "cluster", "name": green, "owner": owner, "count": 1},
        {"by": "ecs", "name": "legacy/web", "count": 1},
        {"by": "unknown", "count": 1},
    ]);
    assert_eq!(web["instances"], shares);
    assert_eq!(fleet.cloud_map.writes(), 0);
}

#[tokio::test]
async fn status_is_told_while_no_cluster_answers() {
    let fleet = shared_name().await;
    fleet.cluster.revoke(ROLE_ARN);
    let status = status(&fleet, json!({"action": "status"})).await;
    assert_eq!(status["ok"], true, "{status}");
    assert_eq!(status["clusters"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_service_that_cannot_be_read_is_told_and_the_others_are_counted() {
    let fleet = shared_name().await;
    fleet.cloud_map.inject(Fault::on("ListInstances", FaultKind::AccessDenied));
    let status = status(&fleet, json!({"action": "status"})).await;
    assert_eq!(status["ok"], false, "{status}");
    let web = &status["registries"][0]["services"][0];
    assert!(web["unreadable"].as_str().is_some_and(|it| it.contains("AccessDenied")), "{web}");
}

#[tokio::test]
async fn no_message_of_a_queue_may_ask_for_a_status() {
    let fleet = shared_name().await;
    let batch = crate::queue::batch(&[crate::queue::message("1", &json!({"action": "status"}))]);
    let answer = invoke(&fleet.function().await, &batch).await;
    assert_eq!(answer.report.expect("a report").dropped[0].reason, "action_not_allowed");
}
