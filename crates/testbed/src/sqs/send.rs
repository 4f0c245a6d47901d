//! SendMessage and SendMessageBatch. A batch that breaks a rule for batches is refused as a whole. An invalid message
//! in it fails alone, and the others are sent.

use std::collections::BTreeSet;

use md5::{Digest, Md5};
use serde_json::{Value, json};

use super::super::signature::hexadecimal;
use super::super::sigv4::Caller;
use super::error::Failure;
use super::queue::Queue;

/// Of a message, and of all messages of a batch together: 1 MiB.
const LONGEST: usize = 1_048_576;
const ENTRIES: usize = 10;

/// Answers SendMessage.
pub(super) fn one(queue: &Queue, caller: &Caller, parameters: &Value) -> Result<Value, Failure> {
    let body = parameters["MessageBody"].as_str();
    let body = body.ok_or_else(|| Failure::missing_parameter("MessageBody"))?;
    if let Some((code, message)) = mistake(body) {
        return Err(Failure::message(code, message));
    }
    let message = queue.put(caller, body);
    Ok(json!({"MessageId": message.id, "MD5OfMessageBody": digest(body)}))
}

/// Answers SendMessageBatch.
pub(super) fn batch(queue: &Queue, caller: &Caller, parameters: &Value) -> Result<Value, Failure> {
    let entries = parameters["Entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    check_entries(entries)?;
    let length = entries.iter().map(|entry| body(entry).len()).sum();
    if length > LONGEST {
        return Err(Failure::too_long(LONGEST, length));
    }
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for entry in entries {
        let body = body(entry);
        match refusal(queue, body) {
            None => {
                let message = queue.put(caller, body);
                let digest = digest(body);
                successful.push(
                    json!({"Id": entry["Id"], "MessageId": message.id, "MD5OfMessageBody": digest}),
                );
            }
            Some((code, message, sender_fault)) => failed.push(json!({
                "Id": entry["Id"], "Code": code, "Message": message, "SenderFault": sender_fault,
            })),
        }
    }
    let mut answer = json!({"Successful": successful});
    if !failed.is_empty() {
        answer["Failed"] = Value::Array(failed);
    }
    Ok(answer)
}

/// The rules of every batch.
pub(super) fn check_entries(entries: &[Value]) -> Result<(), Failure> {
    if entries.is_empty() {
        return Err(Failure::empty_batch());
    }
    if entries.len() > ENTRIES {
        return Err(Failure::too_many(entries.len()));
    }
    let mut ids = BTreeSet::new();
    for entry in entries {
        let id = entry["Id"].as_str().filter(|id| is_id(id)).ok_or_else(Failure::bad_id)?;
        if !ids.insert(id) {
            return Err(Failure::same_id(id));
        }
    }
    Ok(())
}

fn is_id(id: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=80).contains(&id.len()) && id.bytes().all(known)
}

fn body(entry: &Value) -> &str {
    entry["MessageBody"].as_str().unwrap_or_default()
}

/// Code, message, and whether the sender is to blame.
fn refusal(queue: &Queue, body: &str) -> Option<(&'static str, String, bool)> {
    if let Some((code, message)) = mistake(body) {
        return Some((code, message, true));
    }
    let internal = || ("InternalError", "We encountered an internal error.".to_owned(), false);
    queue.fails().then(internal)
}

/// What is wrong with a message.
fn mistake(body: &str) -> Option<(&'static str, String)> {
    if body.is_empty() {
        let text = "The request must contain the parameter MessageBody.".to_owned();
        return Some(("MissingParameter", text));
    }
    if body.len() > LONGEST {
        let text = format!(
            "One or more parameters are invalid. Reason: Message must be shorter than {LONGEST} bytes."
        );
        return Some(("InvalidParameterValue", text));
    }
    let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    let text = "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to \
                #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF";
    (!body.chars().all(allowed)).then(|| ("InvalidMessageContents", text.to_owned()))
}

/// `MD5OfMessageBody`
pub(super) fn digest(body: &str) -> String {
    hexadecimal(&Md5::digest(body.as_bytes()))
}
