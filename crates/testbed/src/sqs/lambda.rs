//! Messages in the form of Lambda's event source mapping.

use serde_json::{Value, json};

use super::queue::{Message, Queue};
use super::receive::receipt;
use super::send::digest;

/// The payload with which a function is invoked for messages of a queue.
pub fn event(queue: &Queue, messages: &[Message]) -> Value {
    let records = messages.iter().map(|message| record(queue, message));
    json!({"Records": records.collect::<Vec<_>>()})
}

fn record(queue: &Queue, message: &Message) -> Value {
    let sent_at = message.sent_at.to_string();
    let region = queue.arn().split(':').nth(3).unwrap_or_default();
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
        "awsRegion": region,
    })
}
