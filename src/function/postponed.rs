//! The backoff of failed messages. By default SQS delivers them again after the visibility timeout, which must cover a
//! run that Lambda kills: too long for a transient failure, and too short for an outage. So each failed message gets a
//! delay by its number of deliveries.

use std::collections::BTreeMap;

use tokio::time::timeout_at;

use super::Function;
use crate::event::{Message, Receipt};
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
    /// Postpones failed messages by 1, 2, 4, 8 … minutes. Only the queue of the settings is used, since the payload is
    /// not trusted. If this fails they return after the visibility timeout.
    pub(super) async fn postpone(&self, receipts: &Receipts, failed: &[String], until: Deadline) {
        let Some(queue) = &self.queue else { return };
        let failed = failed.iter().filter_map(|id| receipts.get(id)).flatten();
        let failed: Vec<Receipt> = failed.cloned().collect();
        let problems = timeout_at(until.end(), queue.postpone(&failed)).await;
        let problems = problems.unwrap_or_else(|_| vec!["the deadline was reached".to_owned()]);
        if let Some(problem) = problems.first() {
            let (count, of) = (problems.len(), failed.len());
            tracing::warn!(
                "some of {of} failed messages return after the visibility timeout ({count} problems): {problem}"
            );
        }
    }
}
