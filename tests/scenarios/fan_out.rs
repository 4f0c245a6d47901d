//! `FAN_OUT`: the schedule hands the clusters on by the function's own queue. Runs may be too short for a cluster, and
//! may overlap.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::time::Deadline;
use serde_json::{Value, json};

use crate::fleet::{Fleet, refs, web_of};
use crate::logged::invoke_logged;
use crate::queue::{batch, failures, message};
use crate::run::{converge, settled};
use testbed::ROLE_ARN;
use testbed::cloud_map::{Behaviour, Fault, FaultKind, Quotas};
use testbed::function::{event, invoke, invoke_until};
use testbed::sqs::error::Failure;
use testbed::sqs::queue::Queue;

/// The default share of the account's rates.
const HALF: (&str, &str) = ("QUOTA_SHARE", "0.5");

/// The function with a queue of its own.
async fn with_queue(fleet: &Fleet) -> (Function, Queue) {
    let queue = fleet.sandbox.queue("own");
    queue.allow(ROLE_ARN);
    let url = queue.url().to_owned();
    (fleet.function_with(&[("FAN_OUT", &url), HALF]).await, queue)
}

/// A refusal that no retry changes.
fn refusal() -> Failure {
    Failure::message("InvalidMessageContents", "no")
}

/// What is in the queue.
fn waiting(queue: &Queue) -> Vec<Value> {
    let bodies = queue.take_all().into_iter();
    bodies.map(|message| serde_json::from_str(&message.body).expect("JSON")).collect()
}

/// As Lambda hands them on.
fn as_batch(messages: &[Value]) -> Value {
    let records = messages.iter().enumerate();
    batch(&records.map(|(id, body)| message(&id.to_string(), body)).collect::<Vec<_>>())
}

fn add_more_than_there_is_time_for(fleet: &Fleet, services: usize) {
    for service in 0..services {
        fleet.web(&format!("web-{service}"), "prod", &[&format!("10.1.0.{service}")]);
    }
    let quotas = Quotas::none().limit("RegisterInstance", 10.0, 10.0);
    fleet.cloud_map.behave(Behaviour { quotas: Some(quotas), ..Behaviour::default() });
}

fn registered(fleet: &Fleet) -> usize {
    let services = fleet.cloud_map.services(&fleet.http);
    services.iter().map(|service| fleet.instances("prod", &service.name).len()).sum()
}

#[tokio::test]
async fn schedule_puts_one_message_for_each_cluster_on_the_queue_and_those_sync_them() {
    let fleet = Fleet::start().await;
    let green = fleet.green().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    web_of(&green, "web", "prod", &["10.0.2.1"]);
    let (function, queue) = with_queue(&fleet).await;

    let answer = invoke(&function, &event("schedule-eventbridge-scheduler")).await;

    assert_eq!(answer.response.expect("an answer"), json!({ "ok": true, "handedOn": 2 }));
    assert_eq!(fleet.cloud_map.calls(), []);
    let messages = waiting(&queue);
    let of = |cluster: &str| json!({ "action": "sync", "cluster": cluster });
    assert_eq!(messages, [of("blue"), of("green")]);
    for message in messages {
        let answer = invoke(&function, &as_batch(&[message])).await;
        assert_eq!((failures(&answer), waiting(&queue)), (vec![], vec![]), "all is done");
    }
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.2.1"]);
}

#[tokio::test]
async fn schedule_of_one_cluster_hands_nothing_on() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    let (function, queue) = with_queue(&fleet).await;

    invoke(&function, &event("schedule-eventbridge-scheduler")).await;

    assert_eq!(waiting(&queue), [Value::Null; 0]);
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn schedule_syncs_by_itself_what_it_cannot_hand_on() {
    for taken in [0, 1] {
        let fleet = Fleet::start().await;
        fleet.green().await;
        fleet.web("web", "prod", &["10.0.1.1"]);
        let (function, queue) = with_queue(&fleet).await;
        queue.refuse_all_but(taken, refusal());

        let answer = invoke(&function, &event("schedule-eventbridge-scheduler")).await;

        assert_eq!(answer.response.expect("an answer")["ok"], true);
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
    }
}

/// A cluster that is too large for one invocation, in one process and in a new one for each run.
#[tokio::test(start_paused = true)]
async fn short_runs_one_after_the_other_serve_every_service() {
    for is_warm in [true, false] {
        let fleet = Fleet::start().await;
        fleet.web("old", "prod", &["10.2.0.1"]);
        let (mut function, queue) = with_queue(&fleet).await;
        converge(&fleet, &function).await;
        add_more_than_there_is_time_for(&fleet, 250);
        fleet.cluster.delete_service("shop", "old");
        let mut done = vec![1];
        while registered(&fleet) != 250 || !fleet.instances("prod", "old").is_empty() {
            if !is_warm {
                function = fleet.function_with(&[("FAN_OUT", queue.url()), HALF]).await;
            }
            let message = json!({ "action": "sync", "cluster": "blue" });
            let deadline = Deadline::after(Duration::from_secs(20));
            invoke_until(&function, &as_batch(&[message]), deadline).await;
            assert_eq!(waiting(&queue), [Value::Null; 0], "nothing is handed on");
            done.push(registered(&fleet));
            assert!(done.is_sorted() && done.len() < 20, "{is_warm}: {done:?}");
        }
        assert!(done.len() > 4, "one run does not do: {done:?}");
        settled(&fleet, &function).await;
    }
}

/// The guard's note is a write like any other, and may be among those for which there was no time.
#[tokio::test(start_paused = true)]
async fn next_runs_hold_what_a_short_run_held_though_its_note_was_not_written() {
    let fleet = Fleet::start().await;
    let gone = ["gone-0", "gone-1", "gone-2", "gone-3"];
    for (index, name) in gone.iter().enumerate() {
        let addresses: Vec<String> = (0..100).map(|it| format!("10.2.{index}.{it}")).collect();
        fleet.web(name, "prod", &refs(&addresses));
    }
    let (function, _) = with_queue(&fleet).await;
    converge(&fleet, &function).await;
    for name in &gone {
        fleet.cluster.delete_service("shop", name);
        let id = fleet.cloud_map.find_service("prod", name).expect("the service");
        let denied = Fault::on("RegisterInstance", FaultKind::AccessDenied).service(&id);
        fleet.cloud_map.inject(denied.always());
    }
    add_more_than_there_is_time_for(&fleet, 120);
    let mut runs = 0;
    while registered(&fleet) < 520 {
        let message = json!({ "action": "sync", "cluster": "blue" });
        let deadline = Deadline::after(Duration::from_secs(20));
        invoke_until(&function, &as_batch(&[message]), deadline).await;
        let held: usize = gone.iter().map(|name| fleet.instances("prod", name).len()).sum();
        runs += 1;
        assert_eq!(held, 400, "run {runs} has taken out what the first one held");
        assert!(runs < 20, "it ends");
    }
    assert!(runs > 1, "one run does");
}

/// Messages for parts of a cluster, as release 0.1.0 has sent them to itself.
#[tokio::test]
async fn parts_of_an_earlier_release_are_one_full_sync_and_one_line() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    let (function, _) = with_queue(&fleet).await;
    let part =
        |shard: &str| json!({ "action": "sync", "cluster": "blue", "shard": shard, "hop": 1 });
    let parts = as_batch(&[part("0/4"), part("3/4")]);
    let mut lines = Vec::new();
    for _ in 0..2 {
        let (answer, logged) = invoke_logged(&function, &parts).await;
        assert_eq!(failures(&answer), [""; 0]);
        lines.extend(logged.into_iter().filter(|line| line.contains("earlier release")));
    }
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
    assert_eq!((fleet.cloud_map.count("RegisterInstance"), lines.len()), (1, 1), "{lines:?}");
}
