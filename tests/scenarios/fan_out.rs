//! `FAN_OUT`: the schedule hands the clusters on by the function's own queue, or by one that is for full syncs alone,
//! so that messages about single Services are served meanwhile.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::time::Deadline;
use serde_json::{Value, json};

use crate::fleet::{Fleet, ips, refs};
use crate::queue;
use crate::queue::{batch_of, failures, scope, take_bodies};
use crate::run::{converge, settled};
use testbed::ROLE_ARN;
use testbed::cloud_map::Quotas;
use testbed::eks::Facts;
use testbed::function::{event, invoke, invoke_until};
use testbed::sqs::{Failure, Queue};

/// The default share of the account's rates.
const HALF: (&str, &str) = ("QUOTA_SHARE", "0.5");

/// The function with a queue of its own.
async fn with_queue(fleet: &Fleet) -> (Function, Queue) {
    let queue = fleet.sandbox.own_queue();
    let url = queue.url().to_owned();
    (fleet.function_with(&[("FAN_OUT", &url), HALF]).await, queue)
}

fn add_more_than_there_is_time_for(fleet: &Fleet, services: usize) {
    for service in 0..services {
        fleet.web(&format!("web-{service}"), "prod", &[&format!("10.1.0.{service}")]);
    }
    let quotas = Quotas::none().limit("RegisterInstance", 10.0, 10.0);
    fleet.cloud_map.adjust(|it| it.quotas = Some(quotas));
}

fn registered(fleet: &Fleet) -> usize {
    let services = fleet.cloud_map.services(&fleet.http);
    services.iter().map(|service| fleet.instances("prod", &service.name).len()).sum()
}

#[tokio::test]
async fn schedule_puts_one_message_for_each_cluster_on_the_queue_and_those_sync_them() {
    let (fleet, _) = Fleet::web_in_both().await;
    let (function, queue) = with_queue(&fleet).await;

    let answer = invoke(&function, &event("schedule-eventbridge-scheduler")).await;

    assert_eq!(answer.response.expect("an answer"), json!({ "ok": true, "handedOn": 2 }));
    assert_eq!(fleet.cloud_map.calls(), []);
    let messages = take_bodies(&queue);
    let of = |cluster: &str| json!({ "action": "sync", "cluster": cluster });
    assert_eq!(messages, [of("blue"), of("green")]);
    for message in messages {
        let answer = invoke(&function, &batch_of(&[message])).await;
        assert_eq!((failures(&answer), take_bodies(&queue)), (vec![], vec![]), "all is done");
    }
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.2.1"]);
}

#[tokio::test]
async fn schedule_of_one_cluster_hands_nothing_on() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    let (function, queue) = with_queue(&fleet).await;

    invoke(&function, &event("schedule-eventbridge-scheduler")).await;

    assert_eq!(take_bodies(&queue), [Value::Null; 0]);
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn schedule_syncs_by_itself_what_it_cannot_hand_on() {
    for taken in [0, 1] {
        let (fleet, _) = Fleet::web_in_both().await;
        let (function, queue) = with_queue(&fleet).await;
        // No retry changes this refusal.
        queue.refuse_all_but(taken, Failure::message("InvalidMessageContents", "no"));

        let answer = invoke(&function, &event("schedule-eventbridge-scheduler")).await;

        assert_eq!(answer.response.expect("an answer")["ok"], true);
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.2.1"]);
    }
}

/// A cluster that is too large for one invocation, in one process and in a new one for each run.
#[tokio::test(start_paused = true)]
async fn short_runs_one_after_the_other_serve_every_service() {
    for is_warm in [true, false] {
        let fleet = Fleet::with_web("old", "prod", &["10.2.0.1"]).await;
        let (mut function, queue) = with_queue(&fleet).await;
        converge(&fleet, &function).await;
        add_more_than_there_is_time_for(&fleet, 250);
        fleet.cluster.delete_service("shop", "old");
        let mut done = vec![1];
        while registered(&fleet) != 250 || !fleet.instances("prod", "old").is_empty() {
            if !is_warm {
                function = fleet.function_with(&[("FAN_OUT", queue.url()), HALF]).await;
            }
            let deadline = Deadline::after(Duration::from_secs(20));
            invoke_until(&function, &batch_of(&[full_sync()]), deadline).await;
            assert_eq!(take_bodies(&queue), [Value::Null; 0], "nothing is handed on");
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
        fleet.web(name, "prod", &refs(&ips(&format!("10.2.{index}"), 0..100)));
    }
    let (function, _) = with_queue(&fleet).await;
    converge(&fleet, &function).await;
    for name in &gone {
        fleet.cluster.delete_service("shop", name);
        let id = fleet.cloud_map.service_id("prod", name);
        fleet.cloud_map.deny_in(&id, "RegisterInstance");
    }
    add_more_than_there_is_time_for(&fleet, 120);
    let mut runs = 0;
    while registered(&fleet) < 520 {
        let deadline = Deadline::after(Duration::from_secs(20));
        invoke_until(&function, &batch_of(&[full_sync()]), deadline).await;
        let held: usize = gone.iter().map(|name| fleet.instances("prod", name).len()).sum();
        runs += 1;
        assert_eq!(held, 400, "run {runs} has taken out what the first one held");
        assert!(runs < 20, "it ends");
    }
    assert!(runs > 1, "one run does");
}

const MINUTE: Duration = Duration::from_mins(1);

/// `blue` and `green` with a pod each, nothing registered, and the queues of the full syncs and of the Services.
struct World {
    fleet: Fleet,
    full_syncs: Queue,
    services: Queue,
}

/// A queue of full syncs, and one of messages about Services.
pub fn queues(fleet: &Fleet) -> [Queue; 2] {
    ["full-syncs", "services"].map(|name| {
        let queue = fleet.sandbox.queue(name);
        queue.allow(ROLE_ARN);
        queue.allow_consumer(ROLE_ARN);
        queue
    })
}

impl World {
    async fn start() -> Self {
        let (fleet, _) = Fleet::web_in_both().await;
        let [full_syncs, services] = queues(&fleet);
        Self { fleet, full_syncs, services }
    }

    async fn function(&self, schedule: &str) -> Function {
        let settings = [
            ("FAN_OUT", self.full_syncs.url()),
            ("QUEUE_URL", self.services.url()),
            ("SCHEDULE_MINUTES", schedule),
            ("QUOTA_SHARE", "0.5"),
        ];
        self.fleet.function_with(&settings).await
    }

    fn fail(&self) {
        self.fleet.cluster.refuse("/", 500);
    }
}

fn full_sync() -> Value {
    json!({ "action": "sync", "cluster": "blue" })
}

/// The number of messages that a queue delivers, and that of the failed ones.
async fn deliver(function: &Function, queue: &Queue) -> (usize, usize) {
    let (count, failed) = queue::deliver(function, queue).await;
    (count, failed.len())
}

#[tokio::test]
async fn message_about_a_service_is_served_while_full_syncs_wait_in_the_other_queue() {
    let world = World::start().await;
    let function = world.function("1").await;

    invoke(&function, &event("schedule-eventbridge-scheduler")).await;

    assert_eq!(world.services.receive(), []);
    world.services.send(&scope("blue", "web").to_string());
    assert_eq!(deliver(&function, &world.services).await, (1, 0));
    assert_eq!(world.fleet.addresses("prod", "web"), ["10.0.1.1"], "green is still to be synced");
    assert_eq!(deliver(&function, &world.full_syncs).await, (2, 0));
    assert_eq!(world.fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.2.1"]);
}

/// What is left of it is for the next one.
#[tokio::test(start_paused = true)]
async fn full_sync_without_enough_time_returns_only_before_the_schedule_queues_the_next_one() {
    for (schedule, returning) in [("1", [0, 1]), ("5", [1, 1])] {
        let world = World::start().await;
        add_more_than_there_is_time_for(&world.fleet, 120);
        // As after an upgrade, with full syncs in the queue that had all messages before.
        for (queue, returning) in [&world.full_syncs, &world.services].into_iter().zip(returning) {
            queue.send(&full_sync().to_string());
            let payload = queue.event(&queue.receive());
            let deadline = Deadline::after(Duration::from_secs(5));
            let answer = invoke_until(&world.function(schedule).await, &payload, deadline).await;
            assert_eq!(failures(&answer).len(), returning, "{schedule}: {:?}", answer.report);
        }
    }
}

#[tokio::test]
async fn failed_messages_return_to_the_queue_from_which_they_came() {
    let world = World::start().await;
    world.fail();
    let function = world.function("15").await;
    world.full_syncs.send(&full_sync().to_string());
    for body in [scope("blue", "web"), full_sync()] {
        world.services.send(&body.to_string());
    }
    assert_eq!(deliver(&function, &world.full_syncs).await, (1, 1));
    assert_eq!((world.full_syncs.requests(), world.services.requests()), (1, 0));
    assert_eq!(world.full_syncs.until_next(), Some(MINUTE));
    assert_eq!(deliver(&function, &world.services).await, (2, 2));
    assert_eq!((world.full_syncs.requests(), world.services.requests()), (1, 1));
    assert_eq!(world.services.until_next(), Some(MINUTE));
}

#[tokio::test(start_paused = true)]
async fn failed_full_sync_returns_only_before_the_schedule_queues_the_next_one() {
    for (schedule, minutes) in [("1", vec![]), ("2", vec![1]), ("5", vec![1, 2, 4])] {
        let world = World::start().await;
        world.fail();
        let function = world.function(schedule).await;
        for queue in [&world.full_syncs, &world.services] {
            queue.send(&full_sync().to_string());
        }
        for minutes in minutes {
            assert_eq!(deliver(&function, &world.full_syncs).await, (1, 1), "every {schedule}");
            assert_eq!(world.full_syncs.until_next(), Some(minutes * MINUTE), "every {schedule}");
            world.full_syncs.pass(minutes * MINUTE);
        }
        assert_eq!(deliver(&function, &world.full_syncs).await, (1, 0), "every {schedule}");
        assert_eq!(world.full_syncs.until_next(), None, "every {schedule}");
        assert_eq!(deliver(&function, &world.services).await, (1, 1), "none takes its place");
    }
}

#[tokio::test]
async fn one_queue_for_all_has_every_message_and_each_that_fails_returns() {
    let world = World::start().await;
    let url = world.full_syncs.url();
    for settings in [&[("FAN_OUT", url)][..], &[("FAN_OUT", url), ("QUEUE_URL", url)]] {
        let function = world.fleet.function_with(settings).await;
        invoke(&function, &event("schedule-eventbridge-scheduler")).await;
        world.full_syncs.send(&scope("blue", "web").to_string());
        world.fail();
        assert_eq!(deliver(&function, &world.full_syncs).await, (3, 2), "{settings:?}");
        assert_eq!(world.full_syncs.until_next(), Some(MINUTE), "{settings:?}");
        world.full_syncs.pass(MINUTE);
        world.fleet.cluster.clear_faults();
        assert_eq!(deliver(&function, &world.full_syncs).await, (2, 0), "{settings:?}");
    }
}

/// Five seconds for a connection, thirty for each pause within a reply.
#[tokio::test(start_paused = true)]
async fn cluster_that_does_not_answer_delays_the_answer_for_a_bounded_time_and_no_other_cluster() {
    for (accepts, limit) in [(false, 5), (true, 30)] {
        let world = World::start().await;
        world.fleet.sandbox.use_sockets();
        let function = world.function("1").await;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        if accepts {
            world.fleet.cluster.be_silent();
        } else {
            let facts = Facts {
                name: "blue".to_owned(),
                local_id: None,
                version: world.fleet.cluster.version(),
                endpoint: format!("https://{}", listener.local_addr().expect("an address")),
                certificate_authority: world.fleet.cluster.certificate_authority_pem().clone(),
            };
            let arn = world.fleet.sandbox.cluster_arn("blue");
            world.fleet.sandbox.aws().eks.register_other(&arn, facts);
        }
        let others = (1..40).map(|index| format!("web-{index}"));
        let names: Vec<String> = others.chain(["web".to_owned()]).collect();
        let of = |cluster| names.iter().map(move |name| scope(cluster, name));
        let payload = batch_of(&of("blue").chain(of("green")).collect::<Vec<_>>());
        let start = tokio::time::Instant::now();
        let mut run = std::pin::pin!(invoke(&function, &payload));
        let early = tokio::time::timeout(Duration::from_secs(4), &mut run).await;
        assert!(early.is_err(), "{accepts}");
        assert_eq!(world.fleet.addresses("prod", "web"), ["10.0.2.1"], "done meanwhile");
        let failed = failures(&run.await).len();
        let elapsed = start.elapsed();
        assert_eq!(failed, 40);
        assert!(elapsed >= Duration::from_secs(limit), "{accepts}: {elapsed:?}");
        assert!(elapsed < Duration::from_secs(2 * limit), "{accepts}: {elapsed:?}");
    }
}
