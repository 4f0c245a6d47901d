//! Sends a message to the queue for each scope that changes. Changes of one Service within a short time become one
//! message, and a Service is pending at most once (`Pending`). If too many scopes are pending, one message about the
//! whole cluster replaces them, which bounds the memory. One request has up to ten messages (`Queue`). A rejected
//! message becomes pending again. It is retried with a backoff, without limit, until the process ends.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_config::{BehaviorVersion, ConfigLoader, Region, retry, timeout};
use aws_sdk_sqs::operation::send_message_batch::{SendMessageBatchError, SendMessageBatchOutput};
use aws_sdk_sqs::{Client, error, types};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::{PodHealth, QueueUrl};
use cloud_map_sync::connections::{aws_client, system_resolver};
use cloud_map_sync::error::chain;
use cloud_map_sync::model::ServiceRef;
use cloud_map_sync::time::backoff;

/// The scope of the sync that a change needs. A message has it, and the function's module `event` reads it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum SyncScope {
    /// The whole cluster: at the start of the forwarder, or if there are more changes than may be pending.
    #[error("the whole cluster")]
    Cluster,
    /// One Service, or its endpoints.
    #[error("{0}")]
    Service(ServiceRef),
}

impl SyncScope {
    /// Returns the message that requests a sync of this scope.
    pub fn message(&self, cluster: &str) -> Value {
        match self {
            Self::Cluster => json!({"action": "sync", "cluster": cluster}),
            Self::Service(ServiceRef { namespace, name }) => {
                json!({"cluster": cluster, "namespace": namespace, "service": name})
            }
        }
    }
}

/// How long changes of a Service are collected before its message is sent: long enough for the slices of one rollout
/// step, short enough to send the message within a second.
const DEBOUNCE: Duration = Duration::from_millis(250);
/// The largest number of pending scopes.
const LIMIT: usize = 10_000;
/// The pause after a request with a rejected message. It doubles with each request in a row without an accepted one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The pending scopes, shared by `watch`, which adds scopes, and `deliver`, which sends their messages.
#[derive(Debug, Default)]
pub struct Pending {
    waiting: Mutex<PendingScopes>,
    added: tokio::sync::Notify,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueScope {
    pub scope: SyncScope,
    /// The time of the first change in this scope since its last accepted message.
    pub since: Instant,
}

#[derive(Debug, Default)]
struct PendingScopes {
    /// Each scope with the time of its first unreported change.
    scopes: BTreeMap<SyncScope, Instant>,
    /// No message is sent before this time. `None` unless the last request had a rejected message.
    pause_ends: Option<Instant>,
    /// The number of requests in a row without an accepted message.
    refusals: u32,
}

impl Pending {
    pub fn add(&self, scope: SyncScope) {
        self.waiting().add(scope, Instant::now());
        self.added.notify_one();
    }

    /// Waits until a scope is due, and takes at most `limit` due scopes, the oldest first.
    pub async fn take_due(&self, limit: usize) -> Vec<DueScope> {
        loop {
            let added = self.added.notified();
            let Some(next) = self.waiting().next_due() else {
                added.await;
                continue;
            };
            let now = Instant::now();
            if next <= now {
                return self.waiting().take_matching(limit, |since| since + DEBOUNCE <= now);
            }
            tokio::select! {
                () = sleep_until(next) => {}
                () = added => {}
            }
        }
    }

    /// Takes at most `limit` pending scopes, due or not.
    pub fn take_all(&self, limit: usize) -> Vec<DueScope> {
        self.waiting().take_matching(limit, |_| true)
    }

    /// Records the result of a request. The refused scopes become pending again.
    pub fn record_result(&self, accepted: usize, refused: Vec<DueScope>) {
        self.waiting().record_result(accepted, refused, Instant::now());
    }

    fn waiting(&self) -> MutexGuard<'_, PendingScopes> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingScopes {
    fn add(&mut self, scope: SyncScope, since: Instant) {
        if self.scopes.contains_key(&SyncScope::Cluster) {
            return;
        }
        let is_whole_cluster = scope == SyncScope::Cluster
            || self.scopes.len() >= LIMIT && !self.scopes.contains_key(&scope);
        if is_whole_cluster {
            let since = self.scopes.values().min().copied().unwrap_or(since).min(since);
            self.scopes = BTreeMap::from([(SyncScope::Cluster, since)]);
        } else {
            let known = self.scopes.entry(scope).or_insert(since);
            *known = (*known).min(since);
        }
    }

    /// Returns the time at which the next scope is due. `None` if no scope is pending.
    fn next_due(&self) -> Option<Instant> {
        let first = *self.scopes.values().min()? + DEBOUNCE;
        Some(self.pause_ends.map_or(first, |end| end.max(first)))
    }

    fn take_matching(&mut self, limit: usize, is_due: impl Fn(Instant) -> bool) -> Vec<DueScope> {
        let due = self.scopes.iter().filter(|(_, since)| is_due(**since));
        let mut due: Vec<DueScope> =
            due.map(|(scope, &since)| DueScope { scope: scope.clone(), since }).collect();
        due.sort_by_key(|due| due.since);
        due.truncate(limit);
        for DueScope { scope, .. } in &due {
            self.scopes.remove(scope);
        }
        due
    }

    fn record_result(&mut self, accepted: usize, refused: Vec<DueScope>, now: Instant) {
        let is_failure = accepted == 0 && !refused.is_empty();
        self.refusals = if is_failure { self.refusals + 1 } else { 0 };
        let pause =
            (!refused.is_empty()).then(|| backoff(self.refusals, FIRST_PAUSE, LONGEST_PAUSE));
        self.pause_ends = pause.map(|pause| now + pause);
        for DueScope { scope, since } in refused {
            self.add(scope, since);
        }
    }
}

/// SQS's limit of messages in one request. Ten of our messages are far below the size limit of 1 MB.
pub const BATCH: usize = 10;
/// The SDK's attempts of one request. If all attempts fail, the scopes become pending again.
const ATTEMPTS: u32 = 3;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of all attempts together. Kubernetes allows a pod 30 s to end.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The queue, with the cluster's name for the messages.
pub struct Queue {
    client: Client,
    url: String,
    cluster: String,
}

#[derive(Debug, Default)]
pub struct DeliveryOutcome {
    pub accepted: Vec<DueScope>,
    /// The scopes whose messages SQS did not accept, each with the reason.
    pub refused: Vec<(DueScope, String)>,
}

#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    #[error("cannot build a message for the queue")]
    Build(#[from] error::BuildError),
    #[error("cannot send messages to {url}")]
    Send {
        url: String,
        #[source]
        source: Box<error::SdkError<SendMessageBatchError>>,
    },
}

/// Returns the SDK's configuration for a queue. The credentials come from the environment: EKS Pod Identity, the pod's
/// ServiceAccount, or any other source that the SDK supports.
pub fn sdk_config(queue: &QueueUrl) -> ConfigLoader {
    let timeouts = timeout::TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .operation_timeout(REQUEST_TIMEOUT)
        .build();
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .region(Region::new(queue.region.clone()))
        .endpoint_url(&queue.endpoint)
        .http_client(aws_client(system_resolver()))
        .retry_config(retry::RetryConfig::standard().with_max_attempts(ATTEMPTS))
        .timeout_config(timeouts)
}

impl Queue {
    pub fn new(client: Client, url: &str, cluster: &str) -> Self {
        Self { client, url: url.to_owned(), cluster: cluster.to_owned() }
    }

    /// Sends a message for each of at most `BATCH` scopes.
    ///
    /// # Errors
    /// Returns an error if the request could not be built or failed as a whole.
    pub async fn send(&self, scopes: &[DueScope]) -> Result<DeliveryOutcome, DeliveryError> {
        let entries = scopes.iter().enumerate().map(|(index, due)| {
            types::SendMessageBatchRequestEntry::builder()
                .id(index.to_string())
                .message_body(due.scope.message(&self.cluster).to_string())
                .build()
        });
        let entries: Vec<_> = entries.collect::<Result<_, _>>()?;
        let request = self.client.send_message_batch().queue_url(&self.url);
        let answer = request.set_entries(Some(entries)).send().await;
        let answer = answer.map_err(|source| DeliveryError::Send {
            url: self.url.clone(),
            source: Box::new(source),
        })?;
        Ok(outcome(scopes, &answer))
    }
}

/// Splits the scopes by SQS's response. A message that is missing in the response counts as refused: a duplicate
/// message is better than a lost one.
fn outcome(scopes: &[DueScope], answer: &SendMessageBatchOutput) -> DeliveryOutcome {
    let mut outcome = DeliveryOutcome::default();
    for (index, due) in scopes.iter().enumerate() {
        let id = index.to_string();
        if answer.successful.iter().any(|entry| entry.id == id) {
            outcome.accepted.push(due.clone());
            continue;
        }
        let failed = answer.failed.iter().find(|entry| entry.id == id);
        let why = failed.map_or_else(
            || "it is missing in the response".to_owned(),
            |entry| format!("{}: {}", entry.code, entry.message.as_deref().unwrap_or_default()),
        );
        outcome.refused.push((due.clone(), why));
    }
    outcome
}

/// Sends the messages of due scopes until `end`, then of all pending scopes, up to the first incomplete request.
pub async fn deliver(
    queue: &Queue,
    pending: &Pending,
    health: &PodHealth,
    end: impl Future<Output = ()>,
) {
    let mut end = std::pin::pin!(end);
    loop {
        let due = tokio::select! {
            biased;
            () = &mut end => break,
            due = pending.take_due(BATCH) => due,
        };
        send(queue, pending, health, due).await;
    }
    loop {
        let rest = pending.take_all(BATCH);
        if rest.is_empty() || !send(queue, pending, health, rest).await {
            return;
        }
    }
}

/// Sends the messages of scopes. Returns whether the queue accepted all of them.
async fn send(queue: &Queue, pending: &Pending, health: &PodHealth, due: Vec<DueScope>) -> bool {
    let outcome = match queue.send(&due).await {
        Ok(outcome) => outcome,
        Err(error) => {
            let why = chain(&error);
            warn!(messages = due.len(), "cannot send to the queue, retrying: {why}");
            health.delivered(&[], due.len(), Some(&why));
            pending.record_result(0, due);
            return false;
        }
    };
    let mut delays = Vec::new();
    for DueScope { scope, since } in &outcome.accepted {
        let after = since.elapsed();
        let milliseconds = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        info!(place = %scope, milliseconds, "sent a message about {scope}");
        delays.push(after);
    }
    for (DueScope { scope, .. }, why) in &outcome.refused {
        warn!(place = %scope, "the queue rejected the message: {why}");
    }
    let why = outcome.refused.first().map(|(_, why)| why.as_str());
    health.delivered(&delays, outcome.refused.len(), why);
    let refused: Vec<DueScope> = outcome.refused.into_iter().map(|(due, _)| due).collect();
    let is_complete = refused.is_empty();
    pending.record_result(outcome.accepted.len(), refused);
    is_complete
}
