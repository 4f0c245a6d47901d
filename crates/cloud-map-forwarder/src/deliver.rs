//! From the pending places to the queue, until the process ends. Rejected messages become pending again and are retried
//! without limit.

use std::future::Future;
use std::pin::pin;

use tracing::{info, warn};

use super::health::Health;
use super::pending::{Due, Pending};
use super::queue::{BATCH, Queue};
use cloud_map_sync::error::chain;

/// Sends the due messages until `end`, then all pending ones, once.
pub async fn deliver(
    queue: &Queue,
    pending: &Pending,
    health: &Health,
    end: impl Future<Output = ()>,
) {
    let mut end = pin!(end);
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

/// Sends messages. Returns whether the queue accepted all of them.
async fn send(queue: &Queue, pending: &Pending, health: &Health, due: Vec<Due>) -> bool {
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
    for Due { place, since } in &outcome.accepted {
        let after = since.elapsed();
        let milliseconds = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        info!(place = %place, milliseconds, "sent a message about {place}");
        delays.push(after);
    }
    for (Due { place, .. }, why) in &outcome.refused {
        warn!(place = %place, "the queue rejected the message: {why}");
    }
    let why = outcome.refused.first().map(|(_, why)| why.as_str());
    health.delivered(&delays, outcome.refused.len(), why);
    let refused: Vec<Due> = outcome.refused.into_iter().map(|(due, _)| due).collect();
    let is_complete = refused.is_empty();
    pending.record_result(outcome.accepted.len(), refused);
    is_complete
}
