//! The rights for the function's own queue, and for the key that encrypts it, which SQS uses in the caller's name.

use serde_json::json;

use crate::fleet::Fleet;
use crate::logged::invoke_logged;
use crate::queue::failures;
use testbed::ROLE_ARN;
use testbed::function::event;
use testbed::sqs::Failure;

pub const RIGHTS: [&str; 4] =
    ["sqs:SendMessage", "sqs:ChangeMessageVisibility", "kms:Decrypt", "kms:GenerateDataKey"];

fn naming<'a>(lines: &'a [String], right: &str) -> Vec<&'a String> {
    let right = right.to_lowercase();
    lines.iter().filter(|line| line.to_lowercase().contains(&right)).collect()
}

/// SQS's refusal for the lack of a right in the key that encrypts the queue.
fn of_key(right: &str) -> Failure {
    let user = "arn:aws:sts::111122223333:assumed-role/cloud-map-sync/cloud-map-sync";
    let text = format!(
        "User: {user} is not authorized to perform: {right} on resource: \
         arn:aws:kms:eu-central-1:111122223333:key/0a1b because no identity-based policy allows \
         the {right} action (Service: AWSKMS; Status Code: 400)"
    );
    Failure::message("KmsAccessDenied", text)
}

#[tokio::test]
async fn run_that_may_not_send_syncs_all_by_itself_until_it_may() {
    for right in ["sqs:SendMessage", "kms:Decrypt", "kms:GenerateDataKey"] {
        let (fleet, _) = Fleet::web_in_both().await;
        let queue = fleet.sandbox.queue("own");
        if right.starts_with("kms:") {
            queue.allow(ROLE_ARN);
            queue.refuse(Some(of_key(right)));
        }
        let function = fleet.function_with(&[("FAN_OUT", queue.url())]).await;
        let schedule = event("schedule-eventbridge-scheduler");

        let (answer, lines) = invoke_logged(&function, &schedule).await;

        let naming = naming(&lines, right);
        assert!(naming.len() == 1 && naming[0].contains("cannot queue"), "{right}: {lines:#?}");
        assert_eq!(answer.response.expect("an answer")["ok"], true, "{right}");
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.2.1"], "{right}");
        queue.allow(ROLE_ARN);
        queue.refuse(None);
        let (answer, _) = invoke_logged(&function, &schedule).await;
        assert_eq!(answer.response.expect("an answer"), json!({ "ok": true, "handedOn": 2 }));
        assert_eq!(queue.take_all().len(), 2, "{right}");
    }
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
