//! The binary against the sandbox's Kubernetes API: every kind of payload in, every kind of answer out
//! of one process.

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
