//! Payloads: the files of `events`, as structures and as bytes, and the bodies of their messages.

use std::path::PathBuf;

use serde_json::Value;

use super::rules::assert_line;
use super::{Random, try_all};
use crate::event::{Message, Payload, read};
use crate::model::is_dns_label;

/// The most characters of a refusal. It may contain names of fields of the payload, which are shortened.
const LONGEST: usize = 1_000;

fn payloads() -> Vec<Value> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("events");
    let files = std::fs::read_dir(folder).expect("the folder").map(|it| it.expect("a file").path());
    let mut files: Vec<PathBuf> =
        files.filter(|it| it.extension().is_some_and(|it| it == "json")).collect();
    files.sort();
    let read = |path: PathBuf| std::fs::read(path).expect("a file");
    files.into_iter().map(|path| serde_json::from_slice(&read(path)).expect("JSON")).collect()
}

/// A damaged payload: the JSON value is damaged, or the text of a message's body, or the bytes. `None` if the damaged
/// bytes are no JSON, since Lambda does not invoke the function with them.
fn damaged(random: &mut Random, payloads: &[Value]) -> Option<Value> {
    let mut payload = random.pick(payloads).clone();
    match random.below(4) {
        0 => Some(random.damaged_json(&payload)),
        1 | 2 => {
            if let Some(body) = payload.pointer_mut("/Records/0/body") {
                let text = body.as_str().unwrap_or_default().to_owned();
                let text = match serde_json::from_str(&text) {
                    Ok(inner) if random.one_in(2) => random.damaged_json(&inner).to_string(),
                    _ => random.damaged_text(&text),
                };
                *body = Value::String(text);
                return Some(payload);
            }
            Some(random.damaged_json(&payload))
        }
        _ => serde_json::from_slice(&random.damaged_bytes(payload.to_string().into_bytes())).ok(),
    }
}

/// Asserts that the names of a scope are valid, or that a refusal is one line. Returns whether the message has a scope.
fn assert_message(message: &Message) -> bool {
    match &message.reading {
        Ok(scope) => {
            assert_line(scope, LONGEST);
            for name in [&scope.namespace, &scope.service].into_iter().flatten() {
                assert!(is_dns_label(name), "{name:?}");
            }
            true
        }
        Err(unusable) => {
            assert_line(unusable, LONGEST);
            false
        }
    }
}

#[test]
fn payload_is_a_scope_or_a_refusal_in_one_line() {
    let payloads = payloads();
    try_all("events", |random| {
        let Some(payload) = damaged(random, &payloads) else { return false };
        let records = payload["Records"].as_array().map(Vec::len);
        match read(&payload) {
            Ok(Payload::Queue(messages)) => {
                assert_eq!(Some(messages.len()), records, "one for each record");
                messages.iter().map(assert_message).fold(false, |one, other| one | other)
            }
            Ok(Payload::AuditLog(messages)) => {
                for message in &messages {
                    assert_message(message);
                }
                true
            }
            Ok(Payload::Direct(command)) => {
                assert_line(&command.scope, LONGEST);
                true
            }
            Ok(Payload::Schedule) => true,
            Err(refusal) => {
                assert_line(&crate::error::chain(&refusal), LONGEST);
                false
            }
        }
    });
}
