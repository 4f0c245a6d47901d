//! Receives messages. A received message is hidden for the queue's visibility timeout, or for that of
//! ChangeMessageVisibility; one that was received too often goes to the dead-letter queue. The queue has its own clock,
//! which tests advance.

use std::time::Duration;

use serde_json::{Value, json};

use super::Failure;
use super::queue::{InFlight, Message, Queue};
use super::send::{check_entries, digest};

/// The longest visibility timeout: 12 hours.
const LONGEST: u64 = 43_200;

impl Queue {
    /// Takes out all that may be received now.
    pub fn receive(&self) -> Vec<Message> {
        let mut state = self.state();
        let (now, timeout, most) = (state.now, state.visibility, state.most_receives);
        let back = state.in_flight.extract_if(.., |it| it.visible_from <= now);
        let mut waiting: Vec<Message> = back.map(|it| it.message).collect();
        waiting.extend(state.waiting.drain(..));
        for message in &mut waiting {
            message.receives += 1;
        }
        let (dead, received) = waiting.into_iter().partition(|it| it.receives > most);
        state.dead.extend::<Vec<Message>>(dead);
        let received: Vec<Message> = received;
        let visible_from = now + timeout;
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
        self.state().in_flight.retain(|it| !ids.contains(&it.message.id));
    }

    /// The time until a message that was received is visible again.
    pub fn until_next(&self) -> Option<Duration> {
        let state = self.state();
        let next = state.in_flight.iter().map(|it| it.visible_from).min();
        next.map(|at| at.saturating_sub(state.now))
    }

    /// Puts the queue's clock forward.
    pub fn pass(&self, time: Duration) {
        self.state().now += time;
    }

    /// Sets `maxReceiveCount`.
    pub fn set_most_receives(&self, receives: u32) {
        self.state().most_receives = receives;
    }

    /// What was received too often.
    pub fn dead(&self) -> Vec<Message> {
        self.state().dead.clone()
    }

    fn change(&self, entry: &Value) -> Result<(), (&'static str, String)> {
        let seconds = entry["VisibilityTimeout"].as_u64().filter(|it| *it <= LONGEST);
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
        let found = of_queue.find(|it| receipt(&it.message) == handle);
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
pub fn one(queue: &Queue, parameters: &Value) -> Result<Value, Failure> {
    let changed = queue.change(parameters);
    changed.map(|()| json!({})).map_err(|(code, text)| Failure::message(code, text))
}

/// Answers ChangeMessageVisibilityBatch.
pub fn batch(queue: &Queue, parameters: &Value) -> Result<Value, Failure> {
    let entries = parameters["Entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    check_entries(entries)?;
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
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
