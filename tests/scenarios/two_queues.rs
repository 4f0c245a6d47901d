//! `FAN_OUT` with a queue of its own: messages about single Services are served while full syncs wait, and each failed
//! message returns to the queue from which it came.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::time::Deadline;
use serde_json::{Value, json};

use crate::fleet::{Fleet, web_of};
use crate::queue::{self, batch, failures, message};
use testbed::ROLE_ARN;
use testbed::cloud_map::{Behaviour, Quotas};
use testbed::eks::Facts;
use testbed::function::{event, invoke, invoke_until};
use testbed::kubernetes::{Fault, FaultKind};
use testbed::sqs::lambda;
use testbed::sqs::queue::Queue;

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
        let fleet = Fleet::start().await;
        let green = fleet.green().await;
        fleet.web("web", "prod", &["10.0.1.1"]);
        web_of(&green, "web", "prod", &["10.0.2.1"]);
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
        self.fleet.cluster.fail(Fault::always("/", FaultKind::Status(500)));
    }
}

fn about_web() -> String {
    json!({ "cluster": "blue", "namespace": "shop", "service": "web" }).to_string()
}

fn full_sync() -> String {
    json!({ "action": "sync", "cluster": "blue" }).to_string()
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
    world.services.send(&about_web());
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
        for service in 0..120 {
            let name = format!("web-{service}");
            world.fleet.web(&name, "prod", &[&format!("10.1.0.{service}")]);
        }
        let quotas = Quotas::none().limit("RegisterInstance", 10.0, 10.0);
        world.fleet.cloud_map.behave(Behaviour { quotas: Some(quotas), ..Behaviour::default() });
        // As after an upgrade, with full syncs in the queue that had all messages before.
        for (queue, returning) in [&world.full_syncs, &world.services].into_iter().zip(returning) {
            queue.send(&full_sync());
            let payload = lambda::event(queue, &queue.receive());
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
    world.full_syncs.send(&full_sync());
    for body in [about_web(), full_sync()] {
        world.services.send(&body);
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
            queue.send(&full_sync());
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
        world.full_syncs.send(&about_web());
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
            let silence = FaultKind::Slow(Duration::from_hours(1));
            world.fleet.cluster.fail(Fault::always("/", silence));
        } else {
            let facts = Facts {
                name: "blue".to_owned(),
                version: world.fleet.cluster.version(),
                endpoint: format!("https://{}", listener.local_addr().expect("an address")),
                certificate_authority: world.fleet.cluster.certificate_authority_pem().to_owned(),
            };
            let arn = world.fleet.sandbox.cluster_arn("blue");
            world.fleet.sandbox.aws().eks.register_other(&arn, facts);
        }
        let bodies = (0..40).flat_map(|index| {
            ["blue", "green"].map(|cluster| {
                let service = if index == 0 { "web".to_owned() } else { format!("web-{index}") };
                json!({ "cluster": cluster, "namespace": "shop", "service": service })
            })
        });
        let messages: Vec<Value> =
            bodies.enumerate().map(|(id, body)| message(&id.to_string(), &body)).collect();
        let start = tokio::time::Instant::now();
        let payload = batch(&messages);
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
