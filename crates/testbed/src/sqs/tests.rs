use serde_json::json;

use super::super::identity::Principal;
use super::super::{ACCOUNT, REGION, ROLE_ARN};
use super::*;

fn caller() -> Caller {
    let principal = Principal {
        account: ACCOUNT.to_owned(),
        role_arn: ROLE_ARN.to_owned(),
        session: "test".to_owned(),
    };
    Caller { principal, region: REGION.to_owned(), service: "sqs".to_owned() }
}

fn queues() -> (Sqs, Queue) {
    let queue = Queue::new("http://sqs", REGION, ACCOUNT, "q");
    let sqs = Sqs::default();
    queue.allow(ROLE_ARN);
    sqs.add(REGION, &format!("/{ACCOUNT}/q"), queue.clone());
    (sqs, queue)
}

fn send_batch(sqs: &Sqs, queue: &Queue, entries: &Value) -> Result<Value, String> {
    let parameters = json!({"QueueUrl": queue.url(), "Entries": entries});
    let answer = sqs.perform("SendMessageBatch", &caller(), parameters.to_string().as_bytes());
    answer.map_err(|failure| failure.kind.rsplit('#').next().unwrap_or_default().to_owned())
}

fn entries(bodies: &[&str]) -> Value {
    let entries = bodies.iter().enumerate();
    entries.map(|(index, body)| json!({"Id": index.to_string(), "MessageBody": body})).collect()
}

#[test]
fn a_batch_that_breaks_a_rule_is_refused_whole() {
    let long = "x".repeat(600_000);
    let rows = [
        (json!([]), "EmptyBatchRequest"),
        (entries(&["m"; 11]), "TooManyEntriesInBatchRequest"),
        (
            json!([{"Id": "a", "MessageBody": "m"}, {"Id": "a", "MessageBody": "m"}]),
            "BatchEntryIdsNotDistinct",
        ),
        (json!([{"Id": "a b", "MessageBody": "m"}]), "InvalidBatchEntryId"),
        (json!([{"Id": "a".repeat(81), "MessageBody": "m"}]), "InvalidBatchEntryId"),
        (entries(&[&long, &long]), "BatchRequestTooLong"),
    ];
    for (entries, expected) in rows {
        let (sqs, queue) = queues();
        assert_eq!(send_batch(&sqs, &queue, &entries), Err(expected.to_owned()));
        assert!(queue.take_all().is_empty());
    }
}
