//! When messages that failed are delivered again. Without a word to the queue that is after its visibility timeout,
//! which is long enough for a run that Lambda kills; a transient failure is over sooner, and an outage lasts longer.

use std::collections::BTreeMap;

use tokio::time::timeout_at;

use super::Function;
use crate::event::{Message, Receipt};
use crate::time::Deadline;

/// By the ids of messages. One may be in a batch twice.
pub(super) type Receipts = BTreeMap<String, Vec<Receipt>>;

/// The receipts of a batch.
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
    /// Has failed messages delivered again after 1, 2, 4, 8 … minutes. The queue is the one of the settings, whatever
    /// the messages say of theirs. If this fails they return after the queue's own time.
    pub(super) async fn postpone(&self, receipts: &Receipts, failed: &[String], until: Deadline) {
        let Some(queue) = &self.queue else { return };
        let failed = failed.iter().filter_map(|id| receipts.get(id)).flatten();
        let failed: Vec<Receipt> = failed.cloned().collect();
        let problems = timeout_at(until.end(), queue.postpone(&failed)).await;
        let problems = problems.unwrap_or_else(|_| vec!["there was no time for it".to_owned()]);
        if let Some(problem) = problems.first() {
            let (count, of) = (problems.len(), failed.len());
            tracing::warn!(
                "of {of} failed messages some return after the queue's own time ({count} problems): {problem}"
            );
        }
    }
}
