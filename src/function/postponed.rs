//! The backoff of failed messages. By default SQS delivers them again after the visibility timeout, which must cover a
//! run that Lambda kills: too long for a transient failure, and too short for an outage. So each failed message gets a
//! delay by its number of deliveries, in the queue that delivered it.

use std::collections::BTreeMap;

use futures_util::future::join;
use tokio::time::timeout_at;

use super::Function;
use super::own_queue::{OwnQueue, delay};
use crate::event::{Message, Receipt};
use crate::model::SignedDuration;
use crate::time::Deadline;

/// The receipts by message id. A batch may contain a message twice.
pub(super) type Receipts = BTreeMap<String, Vec<Receipt>>;

pub(super) fn receipts(messages: &[Message]) -> Receipts {
    let mut receipts = Receipts::new();
    for message in messages {
        if let Some(receipt) = &message.receipt {
            receipts.entry(message.id.clone()).or_default().push(receipt.clone());
        }
    }
    receipts
}

impl Function {
    /// The failed messages that are delivered again: all but the full syncs of clusters that the schedule queues before
    /// that. Each full sync takes a run, so those of a cluster that cannot be read would add up and delay the others.
    pub(super) fn returning(&self, receipts: &Receipts, failed: Vec<String>) -> Vec<String> {
        let is_queued_again =
            |receipts: &Vec<Receipt>| receipts.iter().all(|receipt| self.is_queued_again(receipt));
        let (superseded, returning): (Vec<_>, Vec<_>) =
            failed.into_iter().partition(|id| receipts.get(id).is_some_and(is_queued_again));
        if !superseded.is_empty() {
            let count = superseded.len();
            tracing::info!(count, "the schedule queues these failed full syncs again");
        }
        returning
    }

    /// Whether the queue of the full syncs delivered a message.
    fn is_of_full_syncs(&self, receipt: &Receipt) -> bool {
        self.full_sync_queue.as_ref().is_some_and(|queue| queue.has_delivered(receipt))
    }

    /// Whether the schedule queues the cluster of a failed full sync again before its message would return. In a queue
    /// that also has other messages, each of them returns.
    fn is_queued_again(&self, receipt: &Receipt) -> bool {
        let queues = self.full_sync_queue.as_ref().zip(self.queue.as_ref());
        let are_separate = queues.is_some_and(|(full_syncs, queue)| !queue.is_same_as(full_syncs));
        let period = self.settings.rules.guard.period;
        are_separate
            && self.is_of_full_syncs(receipt)
            && SignedDuration::try_from(delay(receipt.receives)).is_ok_and(|it| it >= period)
    }

    /// Postpones failed messages by 1, 2, 4, 8 … minutes. The payload is not trusted: it decides only between the two
    /// queues of the settings. If this fails they return after the visibility timeout.
    pub(super) async fn postpone(&self, receipts: &Receipts, failed: &[String], until: Deadline) {
        let failed = failed.iter().filter_map(|id| receipts.get(id)).flatten().cloned();
        let (full_syncs, others): (Vec<_>, Vec<_>) =
            failed.partition(|receipt| self.is_of_full_syncs(receipt));
        join(
            postpone_in(self.full_sync_queue.as_ref(), &full_syncs, until),
            postpone_in(self.queue.as_ref(), &others, until),
        )
        .await;
    }
}

async fn postpone_in(queue: Option<&OwnQueue>, failed: &[Receipt], until: Deadline) {
    let Some(queue) = queue else { return };
    let problems = timeout_at(until.end(), queue.postpone(failed)).await;
    let problems = problems.unwrap_or_else(|_| vec!["the deadline was reached".to_owned()]);
    if let Some(problem) = problems.first() {
        let (count, of) = (problems.len(), failed.len());
        tracing::warn!(
            "some of {of} failed messages return after the visibility timeout ({count} problems): {problem}"
        );
    }
}
