//! The binary against the sandbox's Kubernetes API: every kind of payload in, every kind of answer out
//! of one process.

use std::time::Duration;

use serde_json::json;

use crate::world::World;
use testbed::function::event;
use testbed::kubernetes::{Headless, KubernetesServer, Pod};

/// A world whose cluster `blue` is a stand-in, with the Service `shop/web` and one pod of it.
pub async fn stand_in() -> (World, KubernetesServer) {
    let world = World::start().await;
    world.sandbox.clone().cluster("blue").await;
    let blue = world.sandbox.kubernetes("blue");
    let service = Headless::new("shop", "web")
        .annotate("cloudmap.controller/hostname", "web")
        .annotate("cloudmap.controller/namespace", "prod.local");
    blue.service(service);
    blue.pods("shop", "web", &[Pod::new("web-a", "10.0.1.1")]);
    (world, blue)
}

#[tokio::test]
async fn one_process_serves_schedule_queue_and_person_and_describes_the_cluster_once() {
    let (world, blue) = stand_in().await;
    let mut lambda = world.lambda(&[]).await;

    let answer = lambda.invoke(event("schedule-eventbridge-rule")).await.expect("served");
    assert_eq!((&answer["ok"], &answer["counts"]["registered"]), (&json!(true), &json!(1)));

    blue.pods("shop", "web", &[Pod::new("web-a", "10.0.1.1"), Pod::new("web-b", "10.0.1.2")]);
    let answer = lambda.invoke(event("sqs-own-message")).await;
    assert_eq!(answer, Ok(json!({"batchItemFailures": []})));
    assert_eq!(world.addresses("prod.local", "web"), ["10.0.1.1", "10.0.1.2"]);

    let report = lambda.invoke(event("direct-sync")).await.expect("served");
    let place = &report["clusters"][0]["services"][0];
    assert_eq!((&place["name"], &place["unchanged"]), (&json!("web"), &json!(2)), "{report}");

    let requests = world.sandbox.aws().requests();
    let described = requests.iter().filter(|request| request.operation == "DescribeCluster");
    assert_eq!(described.count(), 1, "{requests:?}");
    world.assert_that_the_ecs_task_is_unchanged();
}

#[tokio::test]
async fn every_payload_in_events_is_served_and_one_record_dropped() {
    let (world, _) = stand_in().await;
    world.sandbox.clone().cluster("green").await;
    let mut lambda = world.lambda(&[("CLUSTERS", "blue,green")]).await;
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../events"));
    let files = folder.expect("the folder of events").map(|file| file.expect("a file").file_name());
    let files = files.filter_map(|file| file.to_str()?.strip_suffix(".json").map(str::to_owned));

    for name in files {
        let answer = lambda.invoke(event(&name)).await;
        let answer = answer.unwrap_or_else(|failure| panic!("{name}: {failure:?}"));
        let of_a_queue = json!({"batchItemFailures": []});
        assert!(answer["ok"] == true || answer == of_a_queue, "{name}: {answer}");
    }

    let log = lambda.log();
    let dropped: Vec<&str> = log.lines().filter(|line| line.contains("message dropped")).collect();
    assert_eq!(dropped.len(), 1, "the text that is no JSON in sqs-mixed-batch\n{dropped:#?}");
}

#[tokio::test]
async fn message_that_says_nothing_usable_is_not_failed_back_and_the_others_are_served() {
    let (world, _) = stand_in().await;
    let mut lambda = world.lambda(&[]).await;

    let answer = lambda.invoke(event("sqs-mixed-batch")).await;

    assert_eq!(answer, Ok(json!({"batchItemFailures": []})));
    assert_eq!(world.addresses("prod.local", "web"), ["10.0.1.1"]);
    let log = lambda.log();
    assert!(log.contains("c127efef-796c-4db8-adad-b89a5a8e1ec2"), "the bad record\n{log}");
    assert!(!log.contains("checkout scaled to 3"), "its body\n{log}");
}

#[tokio::test]
async fn message_about_a_cluster_that_cannot_be_read_is_failed_back() {
    let (world, blue) = stand_in().await;
    world.sandbox.aws().eks.deny(&blue.identity().arn(), true);
    let mut lambda = world.lambda(&[]).await;

    let answer = lambda.invoke(event("sqs-own-message")).await;

    let id = "592c42e0-77d3-482b-a73d-29de698a146d";
    assert_eq!(answer, Ok(json!({"batchItemFailures": [{"itemIdentifier": id}]})));
}

#[tokio::test]
async fn unknown_action_fails_as_an_invalid_event_and_the_next_invocation_is_served() {
    let (world, _) = stand_in().await;
    let mut lambda = world.lambda(&[]).await;

    let failure = lambda.invoke(json!({"action": "explode"})).await.expect_err("refused");
    assert_eq!(failure.error_type, "InvalidEvent");
    assert!(failure.error_message.contains("sync, plan"), "{failure:?}");

    let report = lambda.invoke(event("direct-plan")).await.expect("served");
    assert_eq!(report["counts"]["registered"], 1, "{report}");
}

#[tokio::test]
async fn invocation_without_time_left_changes_nothing_and_fails() {
    let (world, _) = stand_in().await;
    let mut lambda = world.lambda(&[]).await;

    let schedule = event("schedule-eventbridge-scheduler");
    let failure = lambda.invoke_for(schedule, Duration::ZERO).await.expect_err("incomplete");

    assert_eq!(failure.error_type, "SyncIncomplete", "{failure:?}");
    assert_eq!(world.cloud_map.writes(), 0);
}
