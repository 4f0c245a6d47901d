//! One standard queue: its permissions, its messages, and the faults that a test injects.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;

use super::super::clock;
use super::super::kubernetes::store::uid;
use super::super::sigv4::Caller;
use super::Failure;

/// A queue; clones share it.
#[derive(Clone)]
pub struct Queue {
    arn: String,
    url: String,
    state: Arc<Mutex<State>>,
    arrived: Arc<Notify>,
}

#[derive(Default)]
pub(super) struct State {
    senders: BTreeSet<String>,
    consumers: BTreeSet<String>,
    pub(super) waiting: VecDeque<Message>,
    pub(super) in_flight: Vec<InFlight>,
    pub(super) dead: Vec<Message>,
    pub(super) now: Duration,
    pub(super) most_receives: Option<u32>,
    sent: u32,
    requests: u32,
    refusal: Option<Failure>,
    failing_entries: u32,
}

/// A message that was received.
pub(super) struct InFlight {
    pub(super) message: Message,
    pub(super) visible_from: Duration,
}

/// A message in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// `MessageId`
    pub id: String,
    /// As it was sent.
    pub body: String,
    /// When it came, in milliseconds.
    pub sent_at: i64,
    /// The sender's user id.
    pub sender: String,
    /// How often it was received.
    pub receives: u32,
}

impl Queue {
    /// An empty queue, to which no principal may send.
    pub fn new(endpoint: &str, region: &str, account: &str, name: &str) -> Self {
        Self {
            arn: format!("arn:aws:sqs:{region}:{account}:{name}"),
            url: format!("{endpoint}/{account}/{name}"),
            state: Arc::default(),
            arrived: Arc::default(),
        }
    }

    /// The URL that names it in requests.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The ARN that policies and events name it by.
    pub fn arn(&self) -> &str {
        &self.arn
    }

    /// Lets sessions of a role send.
    pub fn allow(&self, role_arn: &str) {
        self.state().senders.insert(role_arn.to_owned());
    }

    /// Lets sessions of a role receive, delete and postpone messages.
    pub fn allow_consumer(&self, role_arn: &str) {
        self.state().consumers.insert(role_arn.to_owned());
    }

    /// Puts a message into the queue without a sender's request.
    pub fn send(&self, body: &str) -> Message {
        self.put_of("AIDASANDBOX", body)
    }

    /// Refuses every request in the same way, until this changes.
    pub fn refuse(&self, refusal: Option<Failure>) {
        self.state().refusal = refusal;
    }

    /// Lets the next entries of batches fail, one by one, through no fault of the sender.
    pub fn fail_entries(&self, entries: u32) {
        self.state().failing_entries = entries;
    }

    /// Requests that were made of it, refused ones too.
    pub fn requests(&self) -> u32 {
        self.state().requests
    }

    /// Takes out all that is there.
    pub fn take_all(&self) -> Vec<Message> {
        self.state().waiting.drain(..).collect()
    }

    /// Waits for a message and takes it out.
    pub async fn next(&self) -> Message {
        loop {
            let arrived = self.arrived.notified();
            if let Some(message) = self.state().waiting.pop_front() {
                return message;
            }
            arrived.await;
        }
    }

    pub(super) fn admit(&self, operation: &str, caller: &Caller) -> Result<(), Failure> {
        let mut state = self.state();
        state.requests += 1;
        let action = operation.trim_end_matches("Batch");
        let sends = action == "SendMessage";
        let allowed = if sends { &state.senders } else { &state.consumers };
        if !allowed.contains(&caller.principal.role_arn) {
            return Err(Failure::denied(caller, action, &self.arn));
        }
        state.refusal.clone().map_or(Ok(()), Err)
    }

    /// Whether this entry of a batch fails.
    pub(super) fn fails(&self) -> bool {
        let mut state = self.state();
        let fails = state.failing_entries > 0;
        state.failing_entries = state.failing_entries.saturating_sub(1);
        fails
    }

    pub(super) fn put(&self, caller: &Caller, body: &str) -> Message {
        self.put_of(&caller.principal.user_id(), body)
    }

    fn put_of(&self, sender: &str, body: &str) -> Message {
        let mut state = self.state();
        state.sent += 1;
        let message = Message {
            id: uid(&format!("{} {}", self.arn, state.sent)),
            body: body.to_owned(),
            sent_at: clock::now().as_millisecond(),
            sender: sender.to_owned(),
            receives: 0,
        };
        state.waiting.push_back(message.clone());
        self.arrived.notify_one();
        message
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no poisoned lock")
    }
}
