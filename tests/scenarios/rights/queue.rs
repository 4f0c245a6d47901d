//! The right to postpone messages of the function's own queue.

use serde_json::json;

use crate::fleet::Fleet;
use crate::logged::invoke_logged;
use crate::queue::failures;
use testbed::ROLE_ARN;

pub const RIGHTS: [&str; 1] = ["sqs:ChangeMessageVisibility"];

fn naming<'a>(lines: &'a [String], right: &str) -> Vec<&'a String> {
    let right = right.to_lowercase();
    lines.iter().filter(|line| line.to_lowercase().contains(&right)).collect()
}

#[tokio::test]
async fn message_that_may_not_be_postponed_returns_by_itself() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    let queue = fleet.sandbox.queue("own");
    queue.send(&json!({ "namespace": "shop", "service": "web" }).to_string());
    let function = fleet.function_with(&[("QUEUE_URL", queue.url())]).await;
    fleet.cluster.refuse("/", 500);
    let messages = queue.receive();

    let (answer, lines) = invoke_logged(&function, &queue.event(&messages)).await;

    let naming = naming(&lines, "sqs:ChangeMessageVisibility");
    assert!(naming.len() == 1 && naming[0].contains("failed messages"), "{lines:#?}");
    assert_eq!(failures(&answer), [messages[0].id.clone()], "it stays in the queue");
    queue.allow_consumer(ROLE_ARN);
    fleet.cluster.clear_faults();
    queue.pass(queue.until_next().expect("in flight"));
    let messages = queue.receive();
    let (answer, lines) = invoke_logged(&function, &queue.event(&messages)).await;
    assert_eq!(failures(&answer), [""; 0], "{lines:#?}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}
