//! From what waits to the queue, until the process is told to end. Whatever the queue refuses waits
//! again; nothing is given up.

use std::future::Future;
use std::pin::pin;

use tracing::{info, warn};

use super::pending::{Due, Pending};
use super::queue::{BATCH, Queue};
use crate::error::chain;

/// Sends what is due until `end` comes, then what still waits, once.
pub async fn deliver(queue: &Queue, pending: &Pending, end: impl Future<Output = ()>) {
    let mut end = pin!(end);
    loop {
        let due = tokio::select! {
            biased;
            () = &mut end => break,
            due = pending.due(BATCH) => due,
        };
        send(queue, pending, due).await;
    }
    loop {
        let rest = pending.at_once(BATCH);
        if rest.is_empty() || !send(queue, pending, rest).await {
            return;
        }
    }
}

/// Whether all of it is in the queue.
async fn send(queue: &Queue, pending: &Pending, due: Vec<Due>) -> bool {
    let outcome = match queue.send(&due).await {
        Ok(outcome) => outcome,
        Err(error) => {
            warn!(messages = due.len(), "the queue has to wait: {}", chain(&error));
            pending.settle(0, due);
            return false;
        }
    };
    for Due { place, since } in &outcome.accepted {
        let milliseconds = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        info!(place = %place, milliseconds, "told the queue of {place}");
    }
    for (Due { place, .. }, why) in &outcome.refused {
        warn!(place = %place, "the queue did not take the message: {why}");
    }
    let refused: Vec<Due> = outcome.refused.into_iter().map(|(due, _)| due).collect();
    let all = refused.is_empty();
    pending.settle(outcome.accepted.len(), refused);
    all
}
