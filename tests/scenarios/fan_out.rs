//! `FAN_OUT`: work that one invocation hands on to others by the function's own queue, and that such invocations may
//! overlap.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::model::{ServiceRef, Shard};
use cloud_map_sync::time::Deadline;
use serde_json::{Value, json};

use crate::fleet::{Fleet, annotated, give_pods};
use crate::queue::{batch, failures, message};
use crate::run::{converge, settled};
use testbed::ROLE_ARN;
use testbed::cloud_map::{Behaviour, Fault, FaultKind, Quotas};
use testbed::function::{event, invoke};
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

/// So many Services with a pod each, nothing registered, at ten registrations a second.
async fn more_than_there_is_time_for(services: usize) -> Fleet {
    let fleet = Fleet::start().await;
    add_more_than_there_is_time_for(&fleet, services);
    fleet
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
    green.service(annotated("web", "prod", "web"));
    give_pods(&green, "web", &["10.0.2.1"]);
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

#[tokio::test(start_paused = true)]
async fn run_that_ends_for_want_of_time_hands_on_the_rest_in_parts_until_all_is_done() {
    let fleet = more_than_there_is_time_for(250).await;
    let (function, queue) = with_queue(&fleet).await;
    let mut messages = vec![json!({ "action": "sync", "cluster": "blue" })];
    let mut hops = Vec::new();
    while let Some(message) = messages.pop() {
        hops.push(message["hop"].as_u64().unwrap_or_default());
        let deadline = Deadline::after(Duration::from_secs(20));
        let answer = function.invoke(&as_batch(&[message]), deadline).await;
        let report = answer.report.as_ref().expect("a report");
        assert_eq!(failures(&answer), [""; 0], "what is handed on does not come back: {report}");
        messages.extend(waiting(&queue));
        assert!(hops.len() < 40, "it ends: {hops:?}");
    }
    assert_eq!(registered(&fleet), 250);
    assert!(hops.len() > 4 && hops.iter().all(|hop| *hop <= 8), "{hops:?}");
    settled(&fleet, &function).await;
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
            function.invoke(&as_batch(&[message]), deadline).await;
            queue.take_all();
            done.push(registered(&fleet));
            assert!(done.is_sorted() && done.len() < 20, "{is_warm}: {done:?}");
        }
        assert!(done.len() > 4, "one run does not do: {done:?}");
        settled(&fleet, &function).await;
    }
}

/// The message for a part of `blue` that was handed on so often.
fn part(shard: &str, hop: u8) -> Value {
    json!({ "action": "sync", "cluster": "blue", "shard": shard, "hop": hop })
}

/// Which of these messages come back from a run that is out of time, and what it hands on.
async fn cut_short(messages: &[Value], may_send: bool) -> (Vec<String>, Vec<Value>) {
    let fleet = more_than_there_is_time_for(120).await;
    let (function, queue) = with_queue(&fleet).await;
    if !may_send {
        queue.refuse(Some(refusal()));
    }
    let deadline = Deadline::after(Duration::from_secs(5));
    let answer = function.invoke(&as_batch(messages), deadline).await;
    (failures(&answer), waiting(&queue))
}

#[tokio::test(start_paused = true)]
async fn part_is_handed_on_as_it_is_up_to_the_last_hop_whose_message_comes_back() {
    assert_eq!(cut_short(&[part("0/1", 7)], true).await, (vec![], vec![part("0/1", 8)]));
    assert_eq!(cut_short(&[part("0/1", 8)], true).await, (vec!["0".to_owned()], vec![]));
    let (back, handed_on) = cut_short(&[part("0/2", 1), part("1/2", 8)], true).await;
    assert!(!back.is_empty() && handed_on.is_empty(), "the longest way counts: {handed_on:?}");
}

#[tokio::test(start_paused = true)]
async fn message_comes_back_where_its_rest_cannot_be_handed_on() {
    let refused = cut_short(&[part("0/1", 1)], false).await;
    assert_eq!(refused, (vec!["0".to_owned()], vec![]));
    let named = json!({ "action": "sync", "cluster": "blue", "namespace": "shop" });
    assert_eq!(cut_short(&[named], true).await, (vec!["0".to_owned()], vec![]));
}

/// The first Service of each of four parts, by name.
fn one_of_each_part() -> Vec<String> {
    let names = |shard: Shard| {
        let mut all = (0..).map(|index| format!("gone-{index}"));
        all.find(|name| shard.contains(&ServiceRef::new("shop", name.as_str())))
    };
    Shard::all(4).filter_map(names).collect()
}

/// The guard's note is a write like any other, and may be among those for which there was no time.
#[tokio::test(start_paused = true)]
async fn rest_holds_what_the_run_held_though_its_note_was_not_written() {
    let fleet = Fleet::start().await;
    let gone = one_of_each_part();
    for (index, name) in gone.iter().enumerate() {
        let addresses: Vec<String> = (0..5).map(|it| format!("10.2.{index}.{it}")).collect();
        fleet.web(name, "prod", &addresses.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let (function, queue) = with_queue(&fleet).await;
    converge(&fleet, &function).await;
    let ours = || gone.iter().map(|name| fleet.instances("prod", name).len()).sum::<usize>();
    for name in &gone {
        fleet.cluster.delete_service("shop", name);
        let id = fleet.cloud_map.find_service("prod", name).expect("the service");
        let denied = Fault::on("RegisterInstance", FaultKind::AccessDenied).service(&id);
        fleet.cloud_map.inject(denied.always());
    }
    add_more_than_there_is_time_for(&fleet, 120);
    let mut messages = vec![json!({ "action": "sync", "cluster": "blue" })];
    let mut held = Vec::new();
    while let Some(message) = messages.pop() {
        held.push(message["held"].as_array().map_or(0, Vec::len));
        let deadline = Deadline::after(Duration::from_secs(20));
        function.invoke(&as_batch(&[message]), deadline).await;
        messages.extend(waiting(&queue));
        assert!(held.len() < 40, "it ends: {held:?}");
    }
    assert_eq!(ours(), 20, "no part has taken out what the run held: {held:?}");
    assert!(held.len() > 4 && held[1..].iter().all(|count| *count == 1), "{held:?}");
}

#[tokio::test(start_paused = true)]
async fn parts_that_run_beside_each_other_and_beside_a_full_sync_leave_the_same_as_one_run() {
    let fleet = more_than_there_is_time_for(40).await;
    fleet.ecs_service("web-0", "10.0.9.1");
    let (one, _) = with_queue(&fleet).await;
    let (two, three) = (fleet.function_with(&[HALF]).await, fleet.function_with(&[HALF]).await);
    let (first, second) = (as_batch(&[part("0/2", 1)]), as_batch(&[part("1/2", 1)]));
    let whole = json!({ "action": "sync" });

    let (a, b, c) =
        tokio::join!(invoke(&one, &first), invoke(&two, &second), invoke(&three, &whole));

    assert_eq!((failures(&a), failures(&b)), (vec![], vec![]));
    assert_eq!(c.response.expect("a report")["ok"], true);
    assert_eq!(registered(&fleet), 40);
    settled(&fleet, &one).await;
}
