//! The messages of a queue. A batch that breaks a rule for batches is refused as a whole; a message that fails by order
//! of a test fails alone, and the others are sent. A received message is hidden for the queue's visibility timeout, or
//! for that of ChangeMessageVisibility; one that was received too often goes to the dead-letter queue. The queue has its
//! own clock, which tests advance.

use std::collections::BTreeSet;
use std::time::Duration;

use md5::{Digest, Md5};
use serde_json::{Value, json};

use super::super::sigv4::{Caller, hexadecimal};
use super::Failure;
use super::queue::{InFlight, Message, Queue};

/// Of all messages of a batch together: 1 MiB.
const LONGEST_BATCH: usize = 1_048_576;
const ENTRIES: usize = 10;
/// The visibility timeout of the template.
const VISIBILITY: Duration = Duration::from_mins(30);
/// The longest visibility timeout: 12 hours.
const LONGEST_TIMEOUT: u64 = 43_200;

/// Answers SendMessageBatch.
pub fn send_batch(queue: &Queue, caller: &Caller, parameters: &Value) -> Result<Value, Failure> {
    let entries = entries(parameters)?;
    let length: usize = entries.iter().map(|entry| body(entry).len()).sum();
    if length > LONGEST_BATCH {
        return Err(Failure::message("BatchRequestTooLong", format!("{length} bytes")));
    }
    let mut successful = Vec::new();
    let mut failed = Vec::new();
    for entry in entries {
        let body = body(entry);
        if queue.fails() {
            let text = "We encountered an internal error.";
            failed.push(json!({
                "Id": entry["Id"], "Code": "InternalError", "Message": text, "SenderFault": false,
            }));
            continue;
        }
        let message = queue.put(caller, body);
        let digest = digest(body);
        successful
            .push(json!({"Id": entry["Id"], "MessageId": message.id, "MD5OfMessageBody": digest}));
    }
    let mut answer = json!({"Successful": successful});
    if !failed.is_empty() {
        answer["Failed"] = Value::Array(failed);
    }
    Ok(answer)
}

/// The entries of a batch, which keeps the rules of every batch.
fn entries(parameters: &Value) -> Result<&[Value], Failure> {
    let entries = parameters["Entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ids = entries.iter().map(|entry| entry["Id"].as_str().filter(|id| is_id(id)));
    let name = match ids.collect::<Option<BTreeSet<&str>>>() {
        _ if entries.is_empty() => "EmptyBatchRequest",
        _ if entries.len() > ENTRIES => "TooManyEntriesInBatchRequest",
        None => "InvalidBatchEntryId",
        Some(ids) if ids.len() < entries.len() => "BatchEntryIdsNotDistinct",
        Some(_) => return Ok(entries),
    };
    Err(Failure::message(name, "The batch breaks a rule of SQS."))
}

fn is_id(id: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=80).contains(&id.len()) && id.bytes().all(known)
}

fn body(entry: &Value) -> &str {
    entry["MessageBody"].as_str().unwrap_or_default()
}

/// `MD5OfMessageBody`
fn digest(body: &str) -> String {
    hexadecimal(&Md5::digest(body.as_bytes()))
}

impl Queue {
    /// Takes out all that may be received now.
    pub fn receive(&self) -> Vec<Message> {
        let mut state = self.state();
        let now = state.now;
        let most = state.most_receives.unwrap_or(u32::MAX);
        let back = state.in_flight.extract_if(.., |in_flight| in_flight.visible_from <= now);
        let mut waiting: Vec<Message> = back.map(|in_flight| in_flight.message).collect();
        waiting.extend(state.waiting.drain(..));
        for message in &mut waiting {
            message.receives += 1;
        }
        let (dead, received) = waiting.into_iter().partition(|message| message.receives > most);
        state.dead.extend::<Vec<Message>>(dead);
        let received: Vec<Message> = received;
        let visible_from = now + VISIBILITY;
        let in_flight = received.iter().cloned();
        state.in_flight.extend(in_flight.map(|message| InFlight { message, visible_from }));
        received
    }

    /// The payload with which Lambda invokes a function for messages of the queue.
    pub fn event(&self, messages: &[Message]) -> Value {
        let records = messages.iter().map(|message| record(self, message));
        json!({"Records": records.collect::<Vec<_>>()})
    }

    /// Deletes received messages by their ids, as Lambda does with those that a function has not failed.
    pub fn delete(&self, ids: &[String]) {
        self.state().in_flight.retain(|in_flight| !ids.contains(&in_flight.message.id));
    }

    /// The time until a message that was received is visible again.
    pub fn until_next(&self) -> Option<Duration> {
        let state = self.state();
        let next = state.in_flight.iter().map(|in_flight| in_flight.visible_from).min();
        next.map(|at| at.saturating_sub(state.now))
    }

    /// Puts the queue's clock forward.
    pub fn pass(&self, time: Duration) {
        self.state().now += time;
    }

    /// Sets `maxReceiveCount`.
    pub fn set_most_receives(&self, receives: u32) {
        self.state().most_receives = Some(receives);
    }

    /// What was received too often.
    pub fn dead(&self) -> Vec<Message> {
        self.state().dead.clone()
    }

    fn change(&self, entry: &Value) -> Result<(), (&'static str, String)> {
        let seconds =
            entry["VisibilityTimeout"].as_u64().filter(|seconds| *seconds <= LONGEST_TIMEOUT);
        let invalid = || {
            let text =
                "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]";
            ("InvalidParameterValue", text.to_owned())
        };
        let seconds = seconds.ok_or_else(invalid)?;
        let handle = entry["ReceiptHandle"].as_str().unwrap_or_default();
        let mut state = self.state();
        let now = state.now;
        let mut of_queue = state.in_flight.iter_mut();
        let found = of_queue.find(|in_flight| receipt(&in_flight.message) == handle);
        let Some(found) = found else {
            let text =
                format!("The input receipt handle \"{handle}\" is not a valid receipt handle.");
            return Err(("ReceiptHandleIsInvalid", text));
        };
        found.visible_from = now + Duration::from_secs(seconds);
        Ok(())
    }
}

/// A message in the form of Lambda's event source mapping.
fn record(queue: &Queue, message: &Message) -> Value {
    let sent_at = message.sent_at.to_string();
    json!({
        "messageId": message.id,
        "receiptHandle": receipt(message),
        "body": message.body,
        "attributes": {
            "ApproximateReceiveCount": message.receives.max(1).to_string(),
            "SentTimestamp": sent_at,
            "SenderId": message.sender,
            "ApproximateFirstReceiveTimestamp": sent_at,
        },
        "messageAttributes": {},
        "md5OfBody": digest(&message.body),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue.arn(),
        "awsRegion": queue.arn().split(':').nth(3),
    })
}

/// The handle of the last receipt of a message; a new one comes with each.
fn receipt(message: &Message) -> String {
    format!("AQEB{}", digest(&format!("{} {}", message.id, message.receives)))
}

/// Answers ChangeMessageVisibility.
pub fn postpone(queue: &Queue, parameters: &Value) -> Result<Value, Failure> {
    let changed = queue.change(parameters);
    changed.map(|()| json!({})).map_err(|(code, text)| Failure::message(code, text))
}

/// Answers ChangeMessageVisibilityBatch.
pub fn postpone_batch(queue: &Queue, parameters: &Value) -> Result<Value, Failure> {
    let entries = entries(parameters)?;
    let mut successful = Vec::new();
    let mut failed = Vec::new();
    for entry in entries {
        match queue.change(entry) {
            Ok(()) => successful.push(json!({"Id": entry["Id"]})),
            Err((code, message)) => failed.push(json!({
                "Id": entry["Id"], "Code": code, "Message": message, "SenderFault": true,
            })),
        }
    }
    Ok(json!({"Successful": successful, "Failed": failed}))
}
