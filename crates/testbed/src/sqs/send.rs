//! SendMessage and SendMessageBatch. A batch that breaks a rule for batches is refused as a whole. A message that fails
//! by order of a test fails alone, and the others are sent.

use std::collections::BTreeSet;

use md5::{Digest, Md5};
use serde_json::{Value, json};

use super::super::sigv4::{Caller, hexadecimal};
use super::Failure;
use super::queue::Queue;

/// Of all messages of a batch together: 1 MiB.
const LONGEST: usize = 1_048_576;
const ENTRIES: usize = 10;

/// Answers SendMessage.
pub fn one(queue: &Queue, caller: &Caller, parameters: &Value) -> Result<Value, Failure> {
    let body = parameters["MessageBody"].as_str();
    let body = body.ok_or_else(|| Failure::missing_parameter("MessageBody"))?;
    let message = queue.put(caller, body);
    Ok(json!({"MessageId": message.id, "MD5OfMessageBody": digest(body)}))
}

/// Answers SendMessageBatch.
pub fn batch(queue: &Queue, caller: &Caller, parameters: &Value) -> Result<Value, Failure> {
    let entries = parameters["Entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    check_entries(entries)?;
    let length: usize = entries.iter().map(|entry| body(entry).len()).sum();
    if length > LONGEST {
        return Err(Failure::message("BatchRequestTooLong", format!("{length} bytes")));
    }
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for entry in entries {
        let body = body(entry);
        if queue.fails() {
            let text = "We encountered an internal error.";
            failed.push(json!({
                "Id": entry["Id"], "Code": "InternalError", "Message": text, "SenderFault": false,
            }));
            continue;
        }
        let (message, digest) = (queue.put(caller, body), digest(body));
        successful
            .push(json!({"Id": entry["Id"], "MessageId": message.id, "MD5OfMessageBody": digest}));
    }
    let mut answer = json!({"Successful": successful});
    if !failed.is_empty() {
        answer["Failed"] = Value::Array(failed);
    }
    Ok(answer)
}

/// The rules of every batch.
pub fn check_entries(entries: &[Value]) -> Result<(), Failure> {
    let ids = entries.iter().map(|entry| entry["Id"].as_str().filter(|id| is_id(id)));
    let name = match ids.collect::<Option<BTreeSet<&str>>>() {
        _ if entries.is_empty() => "EmptyBatchRequest",
        _ if entries.len() > ENTRIES => "TooManyEntriesInBatchRequest",
        None => "InvalidBatchEntryId",
        Some(ids) if ids.len() < entries.len() => "BatchEntryIdsNotDistinct",
        Some(_) => return Ok(()),
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
pub fn digest(body: &str) -> String {
    hexadecimal(&Md5::digest(body.as_bytes()))
}
