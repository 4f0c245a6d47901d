use std::time::Duration;

use serde_json::json;

use super::super::identity::Principal;
use super::super::{ACCOUNT, REGION, ROLE_ARN};
use super::receive::receipt;
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
    let (sqs, queue) = (Sqs::default(), Queue::new("http://sqs", REGION, ACCOUNT, "q"));
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

#[test]
fn a_message_that_breaks_a_rule_fails_alone() {
    let (sqs, queue) = queues();
    queue.fail_entries(1);
    let answer = send_batch(&sqs, &queue, &entries(&["", "one", "\u{0}", "two"])).expect("taken");
    let failed: Vec<(&Value, &Value)> = answer["Failed"]
        .as_array()
        .expect("failed entries")
        .iter()
        .map(|entry| (&entry["Code"], &entry["SenderFault"]))
        .collect();
    let expected = [
        (&json!("MissingParameter"), &json!(true)),
        (&json!("InternalError"), &json!(false)),
        (&json!("InvalidMessageContents"), &json!(true)),
    ];
    assert_eq!(failed, expected);
    assert_eq!(answer["Successful"][0]["Id"], "3");
    assert_eq!(answer["Successful"][0]["MD5OfMessageBody"], "b8a9f715dbb64fd5c56e7783c6820a61");
    let bodies: Vec<String> = queue.take_all().into_iter().map(|message| message.body).collect();
    assert_eq!(bodies, ["two"]);
}

#[test]
fn a_request_is_answered_in_the_queues_own_region_and_account_and_for_who_may_send() {
    let (sqs, queue) = queues();
    let parameters = json!({"QueueUrl": queue.url(), "MessageBody": "m"}).to_string();
    let send = |caller: &Caller| sqs.perform("SendMessage", caller, parameters.as_bytes());
    let mut stranger = caller();
    stranger.principal.role_arn = format!("{ROLE_ARN}-2");
    let elsewhere = Caller { region: "eu-west-1".to_owned(), ..caller() };

    assert_eq!(send(&stranger).expect_err("denied").status, StatusCode::FORBIDDEN);
    assert_eq!(send(&elsewhere).expect_err("no queue").kind, "com.amazonaws.sqs#QueueDoesNotExist");
    queue.refuse(Some(Failure::unavailable()));
    assert_eq!(send(&caller()).expect_err("refused").status, StatusCode::SERVICE_UNAVAILABLE);
    queue.refuse(None);
    assert!(send(&caller()).is_ok());
    assert_eq!(queue.take_all().len(), 1);
}

fn change(sqs: &Sqs, queue: &Queue, entries: &Value) -> Result<Value, Failure> {
    let parameters = json!({"QueueUrl": queue.url(), "Entries": entries}).to_string();
    sqs.perform("ChangeMessageVisibilityBatch", &caller(), parameters.as_bytes())
}

#[test]
fn a_received_message_is_invisible_until_its_time_or_the_one_it_is_given() {
    let (sqs, queue) = queues();
    queue.allow_consumer(ROLE_ARN);
    let second = Duration::from_secs(1);
    queue.send("a");
    queue.send("b");
    let received = queue.receive();
    assert_eq!(received.iter().map(|it| it.receives).collect::<Vec<_>>(), [1, 1]);
    let [a, b] = [0, 1].map(|index| receipt(&received[index]));
    let entries = json!([
        {"Id": "0", "ReceiptHandle": a, "VisibilityTimeout": 60},
        {"Id": "1", "ReceiptHandle": "another", "VisibilityTimeout": 60},
        {"Id": "2", "ReceiptHandle": b, "VisibilityTimeout": 43_201},
    ]);
    let answer = change(&sqs, &queue, &entries).expect("taken");
    assert_eq!(answer["Successful"], json!([{"Id": "0"}]));
    let codes = [0, 1].map(|index| answer["Failed"][index]["Code"].clone());
    assert_eq!(codes, ["ReceiptHandleIsInvalid", "InvalidParameterValue"]);
    queue.pass(60 * second);
    let again = queue.receive();
    assert_eq!((again[0].body.as_str(), again[0].receives, again.len()), ("a", 2, 1));
    let entries = json!([{"Id": "0", "ReceiptHandle": a, "VisibilityTimeout": 0}]);
    let old = change(&sqs, &queue, &entries).expect("taken");
    assert_eq!(old["Failed"][0]["Code"], "ReceiptHandleIsInvalid");
    queue.set_most_receives(1);
    queue.pass(1800 * second);
    assert_eq!((queue.receive(), queue.dead().len()), (vec![], 2));
}

#[test]
fn who_may_send_may_not_change_the_visibility() {
    let (sqs, queue) = queues();
    let entries = json!([{"Id": "0", "ReceiptHandle": "a", "VisibilityTimeout": 0}]);
    let denied = change(&sqs, &queue, &entries).expect_err("denied");
    assert_eq!(denied.status, StatusCode::FORBIDDEN);
    assert!(denied.message.contains("sqs:changemessagevisibility "), "{}", denied.message);
}
